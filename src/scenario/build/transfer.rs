//! How KV caches travel.

use crate::cluster::{Overlap, TransferMode, TransferSpec};
use crate::hardware::{self, GpuSpec, Link, LinkKind};
use crate::model::{Attention, ModelSpec};
use crate::scenario::schema::{self, Policy, Pool, System, Transfer, WordOr};
use crate::units::SimDuration;

use super::Builder;
use super::pool::{gpus, gpus_of_a_rank};
use super::staging::Staged;

/// No time at all: the hand-off of systems without one, and of `link: none`.
const INSTANT: TransferSpec = TransferSpec::link(SimDuration::ZERO, f64::INFINITY);

/// What a link gives each instance: its fixed time, its rate out of prefill and into decode instances, and that of one transfer alone.
pub(super) struct Rates {
    pub(super) base: SimDuration,
    pub(super) out: f64,
    pub(super) into: f64,
    pub(super) alone: f64,
}

impl Builder<'_> {
    /// The hand-off of a system.
    pub(super) fn transfer(
        &mut self,
        path: &str,
        system: &System,
        model: Option<&ModelSpec>,
    ) -> Option<TransferSpec> {
        let key = format!("{path}.transfer");
        if !system.policy.splits() {
            let only = "is for disaggregated systems only; remove it";
            self.require(system.transfer.is_none(), &key, || only.to_owned());
            self.require(
                system.first_token.is_none(),
                &format!("{path}.first_token"),
                || only.to_owned(),
            );
            self.groups(path, system, None);
            return Some(INSTANT);
        }
        let Some(transfer) = &system.transfer else {
            self.wrong(&key, "the key `transfer` is missing; write how KV caches travel, as in `transfer: {link: nvlink}`");
            return None;
        };
        let rates = self.rates(&format!("{key}.link"), &transfer.link, system);
        let overlap = self.overlap(&key, transfer, system, model);
        let staged = self.staging(&key, transfer, system);
        self.groups(path, system, Some(transfer));
        let sharing = self.sharing(&key, transfer, system, rates.as_ref(), staged.as_ref());
        let (rates, model, staged) = (rates?, model?, staged?);
        let per_block = transfer.descriptor_time.map_or(0, |span| span.0.as_ps());
        let mut bytes_per_sec = rates.alone;
        if let Staged::Pipelined { out, into } = staged {
            bytes_per_sec = bytes_per_sec.min(out).min(into);
        }
        let mode = mode(transfer);
        let descriptors = descriptors(system, model, mode);
        Some(TransferSpec {
            base: rates.base,
            per_block: SimDuration::from_ps(per_block.saturating_mul(descriptors)),
            bytes_per_sec,
            overlap,
            mode,
            staging: staged.whole(),
            sharing: sharing?,
        })
    }

    fn rates(&mut self, key: &str, link: &schema::Link, system: &System) -> Option<Rates> {
        match link {
            WordOr::Word(word) if word == "none" => Some(Rates {
                base: SimDuration::ZERO,
                out: f64::INFINITY,
                into: f64::INFINITY,
                alone: f64::INFINITY,
            }),
            WordOr::Word(word) => self.named_link(key, word, system),
            WordOr::Map(speed) => {
                let rate = speed.bandwidth.0;
                self.require(rate > 0.0, &format!("{key}.bandwidth"), || {
                    "is zero; write a bandwidth above zero, or `link: none` for no transfer time"
                        .to_owned()
                });
                Some(Rates {
                    base: speed.latency.map_or(SimDuration::ZERO, |span| span.0),
                    out: rate,
                    into: rate,
                    alone: rate,
                })
            }
        }
    }

    /// A data-sheet link between the two pools' GPUs. Each GPU of an instance has its own, so an instance sends at
    /// the rate of as many links as both ends have; one transfer at that of the GPUs which hold its KV cache.
    fn named_link(&mut self, path: &str, word: &str, system: &System) -> Option<Rates> {
        let kind = match LinkKind::from_name(word) {
            Ok(kind) => kind,
            Err(error) => {
                let more = "none, or {bandwidth: 25 GB/s, latency: 10 us}";
                self.wrong(path, format!("{error}, {more}"));
                return None;
            }
        };
        let (prefill, decode) = (system.prefill.as_ref()?, system.decode.as_ref()?);
        // Unknown GPUs are reported with their pool.
        let (from, to) = (gpu(prefill)?, gpu(decode)?);
        let mut between = |a: &GpuSpec, b: &GpuSpec| {
            Link::between(kind, a, b, None)
                .map_err(|error| self.wrong(path, error.to_string()))
                .ok()
        };
        let link = between(&from, &to)?;
        let (out, into) = (between(&from, &from)?, between(&to, &to)?);
        let rate = |link: Link, gpus: u32| link.bytes_per_sec * f64::from(gpus);
        Some(Rates {
            base: SimDuration::from_secs_f64(link.base_seconds)
                .expect("base times of links are a few microseconds"),
            out: rate(out, gpus(prefill)),
            into: rate(into, gpus(decode)),
            alone: rate(out, gpus_of_a_rank(prefill)).min(rate(into, gpus_of_a_rank(decode))),
        })
    }

    fn overlap(
        &mut self,
        key: &str,
        transfer: &Transfer,
        system: &System,
        model: Option<&ModelSpec>,
    ) -> Overlap {
        let overlap = match transfer.overlap {
            None | Some(schema::Overlap::None) => return Overlap::None,
            // Refused with the other keys that its own rule leaves without use.
            Some(_) if system.policy == Policy::MixedPool => return Overlap::None,
            Some(schema::Overlap::Chunk) => Overlap::Chunk,
            Some(schema::Overlap::Layerwise) => Overlap::Layerwise {
                layers: model.map_or(1, |model| model.layers),
            },
        };
        let key = format!("{key}.overlap");
        let early = system.reservation == Some(schema::Reservation::Early);
        self.require(early, &key, || {
            "needs decode blocks before the prompt is done; write `reservation: early` for the system, too".to_owned()
        });
        self.require(mode(transfer) == TransferMode::Push, &key, || {
            "has nothing to send early with `mode: pull`: the decode instance fetches when the prompt is done; write `mode: push`, or \
             `overlap: none`"
                .to_owned()
        });
        let whole = matches!(&transfer.staging, Some(WordOr::Map(keys)) if keys.copy == Some(schema::Copying::Whole));
        self.require(!whole, &key, || {
            "has nothing to send early with `staging: {copy: whole}`, which copies a KV cache to host memory when its prompt is done; write \
             `copy: pipelined`, or `overlap: none`"
                .to_owned()
        });
        overlap
    }
}

/// Who posts.
pub(super) fn mode(transfer: &Transfer) -> TransferMode {
    match transfer.mode {
        Some(schema::TransferMode::Pull) => TransferMode::Pull,
        Some(schema::TransferMode::Push) | None => TransferMode::Push,
    }
}

/// The GPU of a pool; unknown ones are reported with the pool.
pub(super) fn gpu(pool: &Pool) -> Option<GpuSpec> {
    hardware::gpu(&pool.gpu).ok()
}

/// Descriptors that each rank of the instance which posts a transfer posts for a KV block: one for keys and one for values (one for
/// both where they are one latent) of each of its layers, times the ranks on the other side that its heads are split among when the
/// tensor-parallel degrees differ. Ranks post side by side.
fn descriptors(system: &System, model: &ModelSpec, mode: TransferMode) -> u64 {
    let (Some(prefill), Some(decode)) = (&system.prefill, &system.decode) else {
        return 0;
    };
    let (a, b) = (
        prefill.tp.unwrap_or(1).max(1),
        decode.tp.unwrap_or(1).max(1),
    );
    let poster = match mode {
        TransferMode::Push => prefill,
        TransferMode::Pull => decode,
    };
    let tensors = match model.attention {
        Attention::Grouped(_) => 2,
        Attention::Latent(_) => 1,
    };
    let fan_out = a.max(b).div_ceil(a.min(b));
    let layers = model.layers.div_ceil(poster.pp.unwrap_or(1).max(1));
    tensors * u64::from(layers) * u64::from(fan_out)
}
