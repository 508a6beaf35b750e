//! What sequences are given of the KV memory and what becomes of those that lose it.

use crate::cluster::{
    Bill, CpuTier, KvReserve, KvSpec, PoolSpec, Preemption, Reservation, Role, SkipPrefill,
    SystemSpec,
};
use crate::hardware::{self, GpuSpec};
use crate::latency::calibrated;
use crate::policy::router::RouterRule;
use crate::scenario::schema::{self, Pool, System, Tuning};

use super::Builder;
use super::pool::{PoolContext, gpus_of_a_rank};

const NO_CACHE: &str = "keeps what a prefix cache drops, but there is none here; write `prefix_cache: true`, or remove it";

/// Beyond this neither a GPU's price per hour nor its power in watts is meant.
const MOST: f64 = 1e6;

impl Builder<'_> {
    /// What becomes of sequences that a pool preempts.
    pub(super) fn preemption(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        role: Role,
        pool: &Pool,
        tuning: &Tuning,
        gpu: &GpuSpec,
    ) -> Preemption {
        let kind = tuning.preemption.unwrap_or(schema::Preemption::Recompute);
        let in_pool = pool.swap_bandwidth.is_some();
        let key = Self::tuning_path(context, path, in_pool, "swap_bandwidth");
        if let Some(bandwidth) = tuning.swap_bandwidth {
            self.require_use(kind == schema::Preemption::Swap, context.path, &key, || {
                "is of no use without `preemption: swap`; remove it or write that, too".to_owned()
            });
            self.require(bandwidth.0 > 0.0, &key, || {
                "is zero, so that nothing would ever come back; write a bandwidth such as `25 GB/s`"
                    .to_owned()
            });
        }
        match kind {
            schema::Preemption::Recompute => Preemption::Recompute,
            schema::Preemption::Swap => Preemption::Swap {
                bytes_per_sec: tuning.swap_bandwidth.map_or_else(
                    || {
                        let links = gpus_of_a_rank(pool);
                        host_bandwidth(pool).unwrap_or(gpu.pcie_bandwidth) * f64::from(links)
                    },
                    |bandwidth| bandwidth.0,
                ),
            },
            schema::Preemption::ReturnToPrefill => {
                let in_pool = pool.preemption.is_some();
                let key = Self::tuning_path(context, path, in_pool, "preemption");
                // Written for the whole system it means its decode pool.
                self.require(role != Role::Both && !(in_pool && role == Role::Prefill), &key, || {
                    "is `return_to_prefill`, which is for decode pools; write `recompute` or `swap`"
                        .to_owned()
                });
                Preemption::ReturnToPrefill
            }
        }
    }

    /// Host memory behind the prefix caches of a pool, whose KV memory is `kv`.
    pub(super) fn cpu_cache(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool: &Pool,
        tuning: &Tuning,
        gpu: &GpuSpec,
        kv: &KvSpec,
    ) -> Option<CpuTier> {
        let keys = tuning.cpu_cache?;
        let in_pool = pool.cpu_cache.is_some();
        if !in_pool && !kv.prefix_cache {
            // Written for the whole system it means those of its pools that have a prefix cache.
            let some = context.tuning.prefix_cache == Some(true);
            self.require(some, &format!("{}.cpu_cache", context.path), || {
                NO_CACHE.to_owned()
            });
            return None;
        }
        let path = Self::tuning_path(context, path, in_pool, "cpu_cache");
        self.require(kv.prefix_cache, &path, || NO_CACHE.to_owned());
        self.require(kv.blocks.is_some(), &path, || {
            "is of no use with `kv_blocks: unlimited`, from which nothing is ever dropped; remove one of them".to_owned()
        });
        let bandwidth = keys.bandwidth.map_or_else(
            || gpu.pcie_bandwidth * f64::from(gpus_of_a_rank(pool)),
            |bandwidth| bandwidth.0,
        );
        self.require(bandwidth > 0.0, &format!("{path}.bandwidth"), || {
            "is zero, so that nothing would ever be loaded; write a bandwidth such as `50 GB/s`, or remove it for the PCIe links of the \
             pool's GPUs"
                .to_owned()
        });
        let block = kv
            .bytes_per_token
            .saturating_mul(u64::from(kv.block_tokens));
        let blocks = match (keys.size, keys.blocks) {
            (Some(size), None) => size.0 / block.max(1),
            (None, Some(blocks)) => blocks,
            (size, _) => {
                let both = if size.is_some() { "both" } else { "neither" };
                self.wrong(
                    &path,
                    format!(
                        "has {both} of `size` and `blocks`; write one, such as `size: 256 GiB`"
                    ),
                );
                return None;
            }
        };
        self.require(blocks > 0, &path, || {
            format!(
                "holds no block: one of {} tokens takes {block} bytes; raise `size` or `blocks`",
                kv.block_tokens
            )
        });
        Some(CpuTier {
            blocks,
            bytes_per_sec: bandwidth,
        })
    }

    /// Tells what looks into the CPU tier of a decode pool: hardly anything does, since KV caches come computed.
    pub(super) fn tell_decode_tier(&mut self, system: &SystemSpec) {
        let tier = |pool: &&PoolSpec| pool.role == Role::Decode && pool.kv.cpu_cache.is_some();
        let Some(pool) = system.pools.iter().find(tier) else {
            return;
        };
        // Where roles change, its instances compute prompts.
        if system.roles.moves() {
            return;
        }
        let recomputes = match pool.kv.preemption {
            Preemption::Recompute => Some("prompts recomputed there after preemption"),
            Preemption::ReturnToPrefill => Some("prompts preempted there for a second time"),
            Preemption::Swap { .. } => None,
        };
        let skips = system.skip != SkipPrefill::default();
        let aware = matches!(system.decode_router, RouterRule::PrefixAware(_));
        let lookers: Vec<&str> = [
            recomputes,
            skips.then_some("prompts that skip the prefill pool"),
            aware.then_some("the router `prefix_aware`"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let path = format!("systems.{}.{}.cpu_cache", system.name, pool.name);
        let looked = if lookers.is_empty() {
            "nothing else computes prompts on this pool, so that it changes nothing; remove it, or write `skip_prefill`"
                .to_owned()
        } else {
            format!("only these do: {}", lookers.join(", "))
        };
        self.notes.push(format!(
            "{path}: KV caches that come from prefill instances do not look into host memory (transfers leave out what GPU memory holds); {looked}"
        ));
    }

    /// What a GPU of a pool costs and takes: as the pool says, else as the GPU's profile has it.
    pub(super) fn bill(&mut self, path: &str, pool: &Pool, gpu: &GpuSpec) -> Bill {
        let usd_per_hour = pool.price_per_hour_usd.or(gpu.price_per_hour_usd);
        let power_w = pool.power_w.unwrap_or(gpu.power_w);
        let price = usd_per_hour.unwrap_or(0.0);
        self.require(
            (0.0..=MOST).contains(&price),
            &format!("{path}.price_per_hour_usd"),
            || format!("is {price}, expected US dollars per GPU-hour, such as 4.76"),
        );
        self.require(
            power_w > 0.0 && power_w <= MOST,
            &format!("{path}.power_w"),
            || format!("is {power_w}, expected watts per GPU above zero, such as 700"),
        );
        Bill {
            usd_per_hour,
            power_w,
        }
    }

    /// Which prompts do not use the prefill pool.
    pub(super) fn skip_prefill(&mut self, path: &str, system: &System) -> SkipPrefill {
        let Some(keys) = system.skip_prefill else {
            return SkipPrefill::default();
        };
        let path = format!("{path}.skip_prefill");
        self.require(system.policy.splits(), &path, || {
            "is for disaggregated systems only; remove it".to_owned()
        });
        self.require(
            keys.below.is_some() || keys.uncached_below.is_some() || keys.at_queue.is_some(),
            &path,
            || {
                "says nothing; write `below: 256` (tokens), `uncached_below: 256` (tokens), `at_queue: 4` (prompts), or several"
                    .to_owned()
            },
        );
        for (key, value) in [
            ("below", keys.below),
            ("uncached_below", keys.uncached_below),
        ] {
            self.require(value != Some(0), &format!("{path}.{key}"), || {
                "is 0, and no prompt has fewer tokens, so that none would skip; write a number of tokens such as 256, or remove it"
                    .to_owned()
            });
        }
        self.require(keys.at_queue != Some(0), &format!("{path}.at_queue"), || {
            "is 0, and as many prompts are always queued, so that nothing would use the prefill pool; write at least 1, or a system without \
             one"
                .to_owned()
        });
        if keys.uncached_below.is_some() {
            self.uncached_below(&path, system);
        }
        let early = system.reservation == Some(schema::Reservation::Early);
        self.require(!(early && keys.at_queue.is_some()), &format!("{path}.at_queue"), || {
            "looks at prefill queues when a request comes, but with `reservation: early` it waits for decode blocks first; write \
             `reservation: at_handoff`, or only `below`"
                .to_owned()
        });
        SkipPrefill {
            below: keys.below.unwrap_or(0),
            uncached_below: keys.uncached_below.unwrap_or(0),
            at_queue: keys.at_queue,
        }
    }

    /// What the rule for uncached tokens needs.
    fn uncached_below(&mut self, path: &str, system: &System) {
        let path = format!("{path}.uncached_below");
        let chosen = system.decode_choice == Some(schema::DecodeChoice::Arrival)
            && system.reservation != Some(schema::Reservation::Early);
        self.require(chosen, &path, || {
            "looks into the prefix cache of the decode instance when a request comes; write `decode_choice: arrival`, with `reservation: \
             at_handoff`"
                .to_owned()
        });
        let decode = system.decode.as_ref();
        let caches = decode.is_none_or(|pool| pool.prefix_cache == Some(true));
        self.require(caches, &path, || {
            "needs decode instances that remember prompts; write `prefix_cache: true` in `decode`, or `below` for all prompts alike"
                .to_owned()
        });
    }

    /// When decode blocks are reserved.
    pub(super) fn reservation(&mut self, path: &str, system: &System) -> Reservation {
        let only = system.policy.splits() || system.reservation.is_none();
        self.require(only, &format!("{path}.reservation"), || {
            "is for disaggregated systems only; remove it".to_owned()
        });
        let decode = system.decode.as_ref().and_then(|pool| pool.preemption);
        let returns = decode.or(system.preemption) == Some(schema::Preemption::ReturnToPrefill);
        let early = system.reservation == Some(schema::Reservation::Early);
        self.require(!(early && returns), &format!("{path}.reservation"), || {
            "is `early` with `preemption: return_to_prefill`: prompts that come back would hold prefill memory while they wait for decode \
             blocks, and those that have decode blocks would wait for prefill memory, for ever; write `at_handoff`, or another preemption"
                .to_owned()
        });
        let only = system.policy.splits() || system.decode_choice.is_none();
        let key = format!("{path}.decode_choice");
        self.require(only, &key, || {
            "is for disaggregated systems only; remove it".to_owned()
        });
        let late = system.decode_choice == Some(schema::DecodeChoice::Handoff);
        self.require(!(early && late), &key, || {
            "is `handoff`, but `reservation: early` takes blocks of a decode instance when a request comes; write `arrival`, or `reservation: \
             at_handoff`"
                .to_owned()
        });
        match (system.reservation, system.decode_choice) {
            (Some(schema::Reservation::Early), _) => Reservation::Early,
            (_, Some(schema::DecodeChoice::Arrival)) => Reservation::AtHandoffChosenAtArrival,
            (Some(schema::Reservation::AtHandoff) | None, _) => Reservation::AtHandoff,
        }
    }
}

/// What copies between host and device reach by the profile of the pool's GPU, if it timed any.
fn host_bandwidth(pool: &Pool) -> Option<f64> {
    // A profile that cannot be read is told with the pool's step times.
    let file = hardware::profile(&pool.gpu).ok()?;
    calibrated::host_bandwidth(&file, &pool.gpu).ok()?
}

/// How many KV blocks a sequence is given.
pub(super) fn reserve(tuning: &Tuning) -> KvReserve {
    match tuning.kv_reserve {
        Some(schema::KvReserve::MaxOutput) => KvReserve::MaxOutput,
        Some(schema::KvReserve::OracleAtDecode) => KvReserve::OracleAtDecode,
        Some(schema::KvReserve::Oracle) => KvReserve::Oracle,
        Some(schema::KvReserve::Paged) | None => KvReserve::Paged,
    }
}
