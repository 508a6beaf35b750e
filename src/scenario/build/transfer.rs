//! How KV caches travel.

use crate::cluster::{Overlap, Sharing, TransferSpec};
use crate::hardware::{self, GpuSpec, Link, LinkKind};
use crate::model::ModelSpec;
use crate::net::Topology;
use crate::scenario::schema::{self, Contention, Pool, System, Transfer, WordOr};
use crate::units::SimDuration;

use super::Builder;
use super::topology::{Placed, topology};

/// No time at all: the hand-off of systems without one, and of `link: none`.
const INSTANT: TransferSpec = TransferSpec::link(SimDuration::ZERO, f64::INFINITY);

/// What a link gives each instance: its fixed time and its rate out of prefill and into decode instances.
struct Rates {
    base: SimDuration,
    out: f64,
    into: f64,
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
            return Some(INSTANT);
        }
        let Some(transfer) = &system.transfer else {
            self.wrong(&key, "the key `transfer` is missing; write how KV caches travel, as in `transfer: {link: nvlink}`");
            return None;
        };
        let rates = self.rates(&format!("{key}.link"), &transfer.link, system);
        let overlap = self.overlap(&key, transfer, system, model);
        let sharing = self.sharing(&key, transfer, system, rates.as_ref());
        let (rates, model) = (rates?, model?);
        let per_block = transfer.descriptor_time.map_or(0, |span| span.0.as_ps());
        Some(TransferSpec {
            base: rates.base,
            per_block: SimDuration::from_ps(per_block.saturating_mul(descriptors(system, model))),
            bytes_per_sec: rates.out.min(rates.into),
            overlap,
            sharing: sharing?,
        })
    }

    fn rates(&mut self, key: &str, link: &schema::Link, system: &System) -> Option<Rates> {
        match link {
            WordOr::Word(word) if word == "none" => Some(Rates {
                base: SimDuration::ZERO,
                out: f64::INFINITY,
                into: f64::INFINITY,
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
                })
            }
        }
    }

    /// A data-sheet link between the two pools' GPUs. Each GPU of an instance has its own, so an instance sends at
    /// the rate of as many links as both ends have.
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
        Some(Rates {
            base: SimDuration::from_secs_f64(link.base_seconds)
                .expect("base times of links are a few microseconds"),
            out: out.bytes_per_sec * f64::from(gpus(prefill)),
            into: into.bytes_per_sec * f64::from(gpus(decode)),
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
        let alone = transfer.contention != Some(Contention::Fair);
        self.require(alone, &key, || {
            "is modelled on a link of the prefill instance's own only; write `contention: none`"
                .to_owned()
        });
        overlap
    }

    /// The network that transfers share; `Some(None)` for none.
    fn sharing(
        &mut self,
        key: &str,
        transfer: &Transfer,
        system: &System,
        rates: Option<&Rates>,
    ) -> Option<Option<Sharing>> {
        if transfer.contention != Some(Contention::Fair) {
            for (name, there) in [
                ("in_flight", transfer.in_flight.is_some()),
                ("most_per_transfer", transfer.most_per_transfer.is_some()),
                ("node", transfer.node.is_some()),
            ] {
                self.require(!there, &format!("{key}.{name}"), || {
                    "is for `contention: fair` only; write that, too, or remove it".to_owned()
                });
            }
            return Some(None);
        }
        let in_flight = transfer.in_flight.unwrap_or(1);
        self.require(in_flight > 0, &format!("{key}.in_flight"), || {
            "is 0, so that nothing would ever travel; expected a whole number of at least 1"
                .to_owned()
        });
        let (prefill, decode) = (system.prefill.as_ref()?, system.decode.as_ref()?);
        let rates = rates?;
        let mut placed = |pool: &Pool, network: f64| -> Option<Placed> {
            Some(Placed {
                instances: pool.instances,
                gpus: gpus(pool),
                network,
                inside: self.inside(key, transfer, pool)?,
            })
        };
        let pools = [placed(prefill, rates.out)?, placed(decode, rates.into)?];
        let node = transfer.node.as_ref();
        if let Some(node) = node {
            self.require(node.gpus > 0, &format!("{key}.node.gpus"), || {
                "is 0, expected the GPUs of a node, such as 8".to_owned()
            });
            let some = node.bandwidth.is_none_or(|bandwidth| bandwidth.0 > 0.0);
            self.require(some, &format!("{key}.node.bandwidth"), || {
                "is zero; write what all network cards of a node carry, such as `400 Gbps`"
                    .to_owned()
            });
        }
        let per_node = node.map_or(1, |node| node.gpus.max(1));
        let shared = node.and_then(|node| node.bandwidth).map(|rate| rate.0);
        let most = transfer
            .most_per_transfer
            .map_or(f64::INFINITY, |rate| rate.0);
        self.require(most > 0.0, &format!("{key}.most_per_transfer"), || {
            "is zero, so that nothing would ever arrive; write a bandwidth such as `100 Gbps`"
                .to_owned()
        });
        Some(Some(Sharing {
            topology: Topology {
                most_per_transfer: most,
                ..topology(&pools, node.map(|_| per_node), shared)
            },
            in_flight,
        }))
    }

    /// The rate of an instance towards others on its node.
    fn inside(&mut self, key: &str, transfer: &Transfer, pool: &Pool) -> Option<f64> {
        let Some(node) = &transfer.node else {
            return Some(f64::INFINITY);
        };
        let key = format!("{key}.node.inside");
        let gpu = gpu(pool)?;
        let rate = match node.inside.as_deref() {
            None => gpu.intra_node_bandwidth(),
            Some(word) => {
                LinkKind::from_name(word)
                    .and_then(|kind| Link::between(kind, &gpu, &gpu, None))
                    .map_err(|error| self.wrong(&key, error.to_string()))
                    .ok()?
                    .bytes_per_sec
            }
        };
        Some(rate * f64::from(gpus(pool)))
    }
}

fn gpu(pool: &Pool) -> Option<GpuSpec> {
    hardware::gpu(&pool.gpu).ok()
}

/// GPUs of an instance.
fn gpus(pool: &Pool) -> u32 {
    pool.tp.unwrap_or(1).saturating_mul(pool.pp.unwrap_or(1))
}

/// Descriptors that each rank of an instance posts for a KV block: one for keys and one for values of each of its layers, times the
/// ranks on the other side that its heads are split among when the tensor-parallel degrees differ. Ranks post side by side.
fn descriptors(system: &System, model: &ModelSpec) -> u64 {
    let (Some(prefill), Some(decode)) = (&system.prefill, &system.decode) else {
        return 0;
    };
    let (a, b) = (
        prefill.tp.unwrap_or(1).max(1),
        decode.tp.unwrap_or(1).max(1),
    );
    let fan_out = a.max(b).div_ceil(a.min(b));
    let layers = model.layers.div_ceil(prefill.pp.unwrap_or(1).max(1));
    2 * u64::from(layers) * u64::from(fan_out)
}
