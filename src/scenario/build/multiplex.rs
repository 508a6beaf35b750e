//! Systems whose prompts and decodes share GPUs at the same time.

use std::sync::Arc;

use crate::latency::LatencyError;
use crate::latency::share::{IdleSms, SmCurve, SmSplit, Streams};
use crate::scenario::schema::{self, BatchKind, Policy, Pool, System};
use crate::scenario::warning::StepTimes;

use super::Builder;
use super::latency::Model;
use super::pool::PoolContext;

/// Key of the section.
const KEY: &str = "multiplex";

impl Builder<'_> {
    /// How a system's streams share its GPUs; `None` for systems of another policy.
    pub(super) fn split(&mut self, path: &str, system: &System) -> Option<SmSplit> {
        let key = format!("{path}.{KEY}");
        if system.policy != Policy::Multiplexed {
            self.require(system.multiplex.is_none(), &key, || {
                "is for `policy: multiplexed` only; remove it".to_owned()
            });
            return None;
        }
        let keys = system.multiplex.unwrap_or_default();
        let stated = SmCurve::default();
        let split = SmSplit {
            prefill_share: keys.prefill_share.unwrap_or(0.5),
            contention: keys.contention.unwrap_or(1.0),
            idle: match keys.idle_sms {
                Some(schema::IdleSms::Kept) => IdleSms::Kept,
                Some(schema::IdleSms::Lent) | None => IdleSms::Lent,
            },
            curve: SmCurve {
                compute_saturation: keys.compute_saturation.unwrap_or(stated.compute_saturation),
                bandwidth_saturation: keys
                    .bandwidth_saturation
                    .unwrap_or(stated.bandwidth_saturation),
            },
        };
        if let Err(LatencyError::BadShare {
            key: name,
            value,
            allowed,
        }) = split.validate()
        {
            self.wrong(
                &format!("{key}.{name}"),
                format!("is {value}, expected {allowed}"),
            );
            return None;
        }
        Some(split)
    }

    /// Checks what the pool at `path` says of its steps against the policy.
    pub(super) fn check_streams(&mut self, context: &PoolContext<'_>, path: &str, pool: &Pool) {
        let shares = pool.batch == Some(BatchKind::SharedSm);
        if context.system.policy != Policy::Multiplexed {
            self.require(!shares, &format!("{path}.batch"), || {
                "is `shared_sm`, which `policy: multiplexed` has and no other; write that policy, or another `batch`".to_owned()
            });
            return;
        }
        self.require(pool.batch.is_none() || shares, &format!("{path}.batch"), || {
            "is for pools that form one step at a time; the streams of `policy: multiplexed` are `shared_sm`: remove it".to_owned()
        });
        let pp = pool.pp.unwrap_or(1);
        self.require(pp <= 1, &format!("{path}.pp"), || {
            format!("is {pp}, but streams that share the GPUs of several pipeline stages are not modelled; write `pp: 1`, and a larger `tp` if need be")
        });
        let tokens = pool.max_step_tokens.or(context.system.max_step_tokens);
        if chunks(context.system, pool) && tokens.is_some() {
            let key = Self::tuning_path(
                context,
                path,
                pool.max_step_tokens.is_some(),
                "max_step_tokens",
            );
            self.wrong(
                &key,
                "is for whole prompts, but `chunk_budget` has them cut into chunks; remove one of the two",
            );
        }
    }

    /// The step times of both streams of a pool whose whole GPUs take those of `whole`.
    pub(super) fn streams(&mut self, path: &str, split: &SmSplit, whole: &Model) -> Streams {
        self.fact(path, told(split));
        let made = self.models.streams.iter();
        let same = |(of, by, _): &&(Model, SmSplit, Streams)| Arc::ptr_eq(of, whole) && by == split;
        if let Some((.., streams)) = made.clone().find(same) {
            return streams.clone();
        }
        let streams = split.streams(whole);
        // Other models are made anew for each point: what is kept of them would not be found again.
        if matches!(self.step_times.last(), Some((_, StepTimes::Calibrated))) {
            let entry = (Arc::clone(whole), *split, streams.clone());
            self.models.streams.push(entry);
        }
        streams
    }
}

/// Whether the prefill stream of a multiplexed pool cuts prompts into chunks: a chunk budget asks for it.
pub(super) fn chunks(system: &System, pool: &Pool) -> bool {
    pool.chunk_budget.or(system.chunk_budget).is_some()
}

/// The split in words.
fn told(split: &SmSplit) -> String {
    let [[_, prefill], [_, decode]] = split.slowdowns();
    let percent = |share: f64| (share * 100.0).round();
    format!(
        "prompts on {} % of the SMs beside decodes on {} %: computing takes {:.2} and {:.2} times as long, memory {:.2} and {:.2} times{}",
        percent(split.prefill_share),
        percent(1.0 - split.prefill_share),
        prefill.compute * prefill.contention,
        decode.compute * decode.contention,
        prefill.memory * prefill.contention,
        decode.memory * decode.contention,
        match split.idle {
            IdleSms::Lent => ", none of it while the other stream is idle",
            IdleSms::Kept => "; an idle stream keeps its SMs",
        }
    )
}
