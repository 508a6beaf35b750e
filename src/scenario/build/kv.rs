//! What sequences are given of the KV memory and what becomes of those that lose it.

use crate::cluster::{KvReserve, Preemption, Reservation, Role, SkipPrefill};
use crate::hardware::GpuSpec;
use crate::scenario::schema::{self, Policy, Pool, System, Tuning};

use super::Builder;
use super::pool::PoolContext;

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
            self.require(kind == schema::Preemption::Swap, &key, || {
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
                        let links = pool.tp.unwrap_or(1) * pool.pp.unwrap_or(1);
                        gpu.pcie_bandwidth * f64::from(links)
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

    /// Which prompts do not use the prefill pool.
    pub(super) fn skip_prefill(&mut self, path: &str, system: &System) -> SkipPrefill {
        let Some(keys) = system.skip_prefill else {
            return SkipPrefill::default();
        };
        let path = format!("{path}.skip_prefill");
        self.require(system.policy == Policy::Disaggregated, &path, || {
            "is for disaggregated systems only; remove it".to_owned()
        });
        self.require(
            keys.below.is_some() || keys.at_queue.is_some(),
            &path,
            || {
                "says nothing; write `below: 256` (tokens), `at_queue: 4` (prompts), or both"
                    .to_owned()
            },
        );
        let early = system.reservation == Some(schema::Reservation::Early);
        self.require(!(early && keys.at_queue.is_some()), &format!("{path}.at_queue"), || {
            "looks at prefill queues when a request comes, but with `reservation: early` it waits for decode blocks first; write \
             `reservation: at_handoff`, or only `below`"
                .to_owned()
        });
        SkipPrefill {
            below: keys.below.unwrap_or(0),
            at_queue: keys.at_queue,
        }
    }

    /// When decode blocks are reserved.
    pub(super) fn reservation(&mut self, path: &str, system: &System) -> Reservation {
        let only = system.policy == Policy::Disaggregated || system.reservation.is_none();
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
        match system.reservation {
            Some(schema::Reservation::Early) => Reservation::Early,
            Some(schema::Reservation::AtHandoff) | None => Reservation::AtHandoff,
        }
    }
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
