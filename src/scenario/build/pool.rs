//! Pools: step limits and KV memory.

use crate::cluster::{KvSpec, PoolSpec, Preemption, QueueRule, Role, StepLimits};
use crate::hardware::{self, GpuSpec};
use crate::latency::compose::Formats;
use crate::latency::share::SmSplit;
use crate::model::{MemoryPlan, ModelSpec, Parallelism, activation_estimate, kv_capacity};
use crate::policy::batch::BatchRule;
use crate::scenario::engine::Engine;
use crate::scenario::schema::{BatchKind, KvBlocks, Limit, Policy, Pool, System, Tuning};
use crate::scenario::warning::StepTimes;

use super::Builder;
use super::kv::reserve;
use super::multiplex;

/// Steps beyond this many tokens do not ask for more workspace: engines run them in pieces.
const MAX_ACTIVATION_TOKENS: u32 = 16384;

/// More instances or GPUs than this in a key is a slip of the keyboard; products stay within `u32`.
const MAX_INSTANCES: u32 = 100_000;
const MAX_DEGREE: u32 = 128;
const MAX_RANKS: u32 = 1024;
const MAX_GPUS: u32 = 16_384;

/// Stages listed one by one at most.
const MOST_LISTED: u32 = 8;

/// What the pools of a system share.
pub(super) struct PoolContext<'s> {
    pub(super) model: &'s ModelSpec,
    /// The system's tuning keys over the engine's.
    pub(super) tuning: Tuning,
    pub(super) engine: &'static Engine,
    pub(super) path: &'s str,
    pub(super) system: &'s System,
    pub(super) queue: &'s QueueRule,
    /// How prompts and decodes share the GPUs, if they do.
    pub(super) split: Option<&'s SmSplit>,
}

/// What an instance of a pool runs on, and in which number formats.
#[derive(Clone, Copy)]
pub(super) struct Machine<'g> {
    pub(super) gpu: &'g GpuSpec,
    pub(super) parallelism: Parallelism,
    pub(super) formats: Formats,
}

impl Builder<'_> {
    /// Looks up the GPU type of the pool at `path`.
    pub(super) fn gpu(&mut self, path: &str, pool: &Pool) -> Option<GpuSpec> {
        hardware::gpu(&pool.gpu)
            .map_err(|error| self.wrong(&format!("{path}.gpu"), error.to_string()))
            .ok()
    }

    /// How a pool cuts its model, its counts checked; `None` when it cannot.
    fn degrees(&mut self, path: &str, pool: &Pool, model: &ModelSpec) -> Option<Parallelism> {
        let cut = degrees(pool);
        let mut possible = true;
        for (key, value, most) in [
            ("instances", pool.instances, MAX_INSTANCES),
            ("tp", cut.tp, MAX_DEGREE),
            ("pp", cut.pp, MAX_DEGREE),
            ("dp", cut.dp, MAX_RANKS),
            ("ep", cut.ep, MAX_RANKS),
        ] {
            let key_path = format!("{path}.{key}");
            let good = self.require((1..=most).contains(&value), &key_path, || {
                format!("is {value}, expected 1 to {most}")
            });
            // A wrong number of instances says nothing about the cut.
            possible &= good || key == "instances";
        }
        let possible = possible && self.require(gpus(pool) <= MAX_GPUS, path, || {
            format!(
                "needs {} GPUs per instance (tp {} × pp {} × dp {}), expected at most {MAX_GPUS}",
                gpus(pool),
                cut.tp,
                cut.pp,
                cut.dp
            )
        });
        if !possible {
            return None;
        }
        if let Err(error) = model.check_parallelism(cut) {
            let key = error
                .degree()
                .map_or_else(|| path.to_owned(), |degree| format!("{path}.{degree}"));
            self.wrong(&key, error.to_string());
            return None;
        }
        if cut.dp > 1 {
            self.fact(
                path,
                format!(
                    "{} ranks attend to sequences of their own; batches, KV memory and prefix cache are taken as even over them, prompts go to \
                     the rank with the fewest tokens; step limits are the instance's",
                    cut.dp
                ),
            );
        }
        if let Some(uneven) = uneven_stages(model, cut.pp) {
            self.notes.push(format!("{path}.pp: {uneven}"));
        }
        Some(cut)
    }

    /// Builds one pool; `None` when it cannot be.
    pub(super) fn pool(
        &mut self,
        context: &PoolContext<'_>,
        key: &str,
        name: &str,
        role: Role,
        pool: &Pool,
        gpu: GpuSpec,
    ) -> Option<PoolSpec> {
        let path = format!("{}.{key}", context.path);
        let cut = self.degrees(&path, pool, context.model);
        self.check_streams(context, &path, pool);
        let tuning = pool.tuning().or(context.tuning);
        let batch = batch_rule(context.system, pool, role);
        let chunked = is_chunked(context.system, pool, role);
        let limits = self.limits(context, &path, pool, &tuning, chunked);
        let parallelism = cut?;
        let Parallelism { tp, pp, ep, dp } = parallelism;
        let machine = Machine {
            gpu: &gpu,
            parallelism,
            formats: self.formats(context, &path, pool, &gpu)?,
        };
        let preemption = self.preemption(context, &path, role, pool, &tuning, &gpu);
        let mut kv = KvSpec {
            preemption,
            // What travels to a decode instance stays there only where that is asked for.
            prefix_cache: if role == Role::Decode {
                pool.prefix_cache == Some(true)
            } else {
                tuning.prefix_cache.unwrap_or(false)
            },
            ..self.kv(context, &path, pool, &tuning, machine, limits)?
        };
        kv.cpu_cache = self.cpu_cache(context, &path, pool, &tuning, &gpu, &kv);
        let bill = self.bill(&path, pool, &gpu);
        let latency = self.latency(context, &path, pool, machine)?;
        if matches!(self.step_times.last(), Some((_, StepTimes::Calibrated))) {
            self.measured_fact(&path, role, pp, latency.as_ref());
        }
        let multiplex = context
            .split
            .map(|split| self.streams(&path, split, &latency));
        Some(PoolSpec {
            name: name.to_owned(),
            role,
            instances: pool.instances,
            gpu: gpu.name,
            bill,
            tp,
            pp,
            dp,
            ep,
            latency,
            multiplex,
            batch,
            queue: context.queue.clone(),
            limits,
            kv,
        })
    }

    /// The path of a tuning key: the pool's if it is written there, else the system's.
    pub(super) fn tuning_path(
        context: &PoolContext<'_>,
        pool_path: &str,
        in_pool: bool,
        key: &str,
    ) -> String {
        let owner = if in_pool { pool_path } else { context.path };
        format!("{owner}.{key}")
    }

    fn limits(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool: &Pool,
        tuning: &Tuning,
        chunked: bool,
    ) -> StepLimits {
        let mut at_least_one = |key: &str, value: Option<u32>, in_pool: bool| {
            let value = value.unwrap_or(1);
            let key = Self::tuning_path(context, path, in_pool, key);
            self.require(value > 0, &key, || {
                "is 0, expected a whole number of at least 1".to_owned()
            });
            value
        };
        let budget = at_least_one(
            "chunk_budget",
            tuning.chunk_budget,
            pool.chunk_budget.is_some(),
        );
        let tokens = at_least_one(
            "max_step_tokens",
            tuning.max_step_tokens,
            pool.max_step_tokens.is_some(),
        );
        let prompts = at_least_one(
            "max_step_prompts",
            tuning.max_step_prompts,
            pool.max_step_prompts.is_some(),
        );
        let seqs = at_least_one("max_seqs", tuning.max_seqs, pool.max_seqs.is_some());
        let max_decode_context = match tuning.max_decode_context {
            Some(Limit::AtMost(tokens)) => Some(tokens),
            Some(Limit::Unlimited) | None => None,
        };
        let key = Self::tuning_path(
            context,
            path,
            pool.max_decode_context.is_some(),
            "max_decode_context",
        );
        self.require(max_decode_context != Some(0), &key, || {
            "is 0, expected a whole number of at least 1 or `unlimited`".to_owned()
        });
        StepLimits {
            max_step_tokens: if chunked { budget } else { tokens },
            max_step_prompts: prompts,
            max_seqs: seqs,
            max_decode_context,
            long_prompts: tuning.long_prompts.map(|keys| {
                let in_pool = pool.long_prompts.is_some();
                let path = Self::tuning_path(context, path, in_pool, "long_prompts");
                self.long_prompts(context, &path, keys, pool.pp.unwrap_or(1))
            }),
        }
    }

    fn kv(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool: &Pool,
        tuning: &Tuning,
        machine: Machine<'_>,
        limits: StepLimits,
    ) -> Option<KvSpec> {
        let before = self.problems.len();
        let block_tokens = tuning.block_tokens.unwrap_or(1);
        let fraction = tuning.memory_fraction.unwrap_or(1.0);
        let watermark = tuning.kv_watermark.unwrap_or(0.0);
        let key = |in_pool: bool, key: &str| Self::tuning_path(context, path, in_pool, key);
        self.require(
            block_tokens > 0,
            &key(pool.block_tokens.is_some(), "block_tokens"),
            || "is 0, expected a whole number of at least 1 token per block".to_owned(),
        );
        self.require(
            fraction > 0.0 && fraction <= 1.0,
            &key(pool.memory_fraction.is_some(), "memory_fraction"),
            || format!("is {fraction}, expected a share above 0 and at most 1, such as 0.9"),
        );
        self.require(
            (0.0..1.0).contains(&watermark),
            &key(pool.kv_watermark.is_some(), "kv_watermark"),
            || format!("is {watermark}, expected a share from 0 to below 1, such as 0.01"),
        );
        if self.problems.len() > before {
            return None;
        }
        let blocks = self.blocks(context, path, pool, tuning, machine, limits)?;
        self.facts.push((
            path.to_owned(),
            match blocks {
                Some(blocks) => format!("{blocks} KV blocks of {block_tokens} tokens"),
                None => "unlimited KV memory".to_owned(),
            },
        ));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share below 1 of a number of blocks"
        )]
        let watermark_blocks = (blocks.unwrap_or(0) as f64 * watermark) as u64;
        Some(KvSpec {
            block_tokens,
            blocks,
            watermark_blocks,
            bytes_per_token: context.model.kv_bytes_per_token(machine.formats.kv),
            reserve: reserve(tuning),
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        })
    }

    /// KV blocks of an instance; `Some(None)` for unlimited.
    fn blocks(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool: &Pool,
        tuning: &Tuning,
        machine: Machine<'_>,
        limits: StepLimits,
    ) -> Option<Option<u64>> {
        match tuning.kv_blocks.unwrap_or(KvBlocks::Fit) {
            KvBlocks::Unlimited => Some(None),
            KvBlocks::Blocks(blocks) => {
                let key = Self::tuning_path(context, path, pool.kv_blocks.is_some(), "kv_blocks");
                self.require(blocks > 0, &key, || {
                    "is 0, expected a whole number of at least 1, `fit` or `unlimited`".to_owned()
                })
                .then_some(Some(blocks))
            }
            KvBlocks::Fit => {
                let Machine {
                    gpu,
                    parallelism,
                    formats,
                } = machine;
                let step_tokens = limits.max_step_tokens.min(MAX_ACTIVATION_TOKENS);
                let plan = MemoryPlan {
                    memory_bytes: gpu.memory_bytes,
                    fraction: tuning.memory_fraction.unwrap_or(1.0),
                    activation_bytes: activation_estimate(
                        context.model,
                        parallelism.tp,
                        step_tokens.div_ceil(parallelism.dp),
                    ),
                    weights: formats.weights,
                    kv: formats.kv,
                };
                let tokens = match kv_capacity(context.model, parallelism, &plan) {
                    Ok(fit) => fit.tokens,
                    Err(error) => {
                        self.wrong(path, format!("{error} ({})", gpu.name));
                        return None;
                    }
                };
                let block_tokens = tuning.block_tokens.unwrap_or(1);
                let blocks = tokens / u64::from(block_tokens);
                self.require(blocks > 0, path, || {
                    format!("leaves memory for {tokens} KV tokens, less than one block of {block_tokens}; raise tp or pp")
                })
                .then_some(Some(blocks))
            }
        }
    }
}

/// Whether a pool computes prompts in chunks.
pub(super) fn is_chunked(system: &System, pool: &Pool, role: Role) -> bool {
    matches!(
        batch_rule(system, pool, role),
        BatchRule::DecodeFirst | BatchRule::SharedSm { chunks: true }
    )
}

/// How a pool says it cuts its model, possible or not.
pub(super) fn degrees(pool: &Pool) -> Parallelism {
    Parallelism {
        tp: pool.tp.unwrap_or(1),
        pp: pool.pp.unwrap_or(1),
        ep: pool.ep.unwrap_or(1),
        dp: pool.dp.unwrap_or(1),
    }
}

/// What a pipeline degree makes of layers that it does not divide.
fn uneven_stages(model: &ModelSpec, pp: u32) -> Option<String> {
    if model.layers.is_multiple_of(pp) {
        return None;
    }
    let (each, fuller) = (model.layers / pp, model.layers % pp);
    let split = if pp > MOST_LISTED {
        format!("{fuller} of {} and {} of {each}", each + 1, pp - fuller)
    } else {
        let stages = (0..pp).map(|stage| model.stage_layers(stage, pp).len().to_string());
        let stages: Vec<String> = stages.collect();
        let (last, others) = stages.split_last()?;
        format!("{} and {last}", others.join(", "))
    };
    let even: Vec<String> = (1..=model.layers.min(MAX_DEGREE))
        .filter(|pp| model.layers.is_multiple_of(*pp))
        .map(|pp| pp.to_string())
        .collect();
    Some(format!(
        "{} layers in {pp} stages: {split}; pp of {} has even ones",
        model.layers,
        even.join(", ")
    ))
}

/// GPUs of an instance.
pub(super) fn gpus(pool: &Pool) -> u32 {
    gpus_of_a_rank(pool).saturating_mul(degrees(pool).dp)
}

/// GPUs that hold the KV cache of one sequence.
pub(super) fn gpus_of_a_rank(pool: &Pool) -> u32 {
    let cut = degrees(pool);
    cut.tp.saturating_mul(cut.pp)
}

/// How the steps of a pool are formed: as it says itself, else as the policy has it.
fn batch_rule(system: &System, pool: &Pool, role: Role) -> BatchRule {
    if system.policy == Policy::Multiplexed {
        let chunks = multiplex::chunks(system, pool);
        return BatchRule::SharedSm { chunks };
    }
    match pool.batch {
        Some(BatchKind::PrefillFirst) => return BatchRule::PrefillFirst,
        Some(BatchKind::DecodeFirst) => return BatchRule::DecodeFirst,
        Some(BatchKind::Mixed) => return BatchRule::Mixed,
        Some(BatchKind::RunToCompletion) => return BatchRule::RunToCompletion,
        // The latter is refused elsewhere.
        None | Some(BatchKind::SharedSm) => {}
    }
    match (role, system.policy) {
        (Role::Both, Policy::Static) => BatchRule::RunToCompletion,
        // Where instances mix, so do their steps.
        (_, Policy::MixedPool) if pool.chunk_budget.or(system.chunk_budget).is_none() => {
            BatchRule::Mixed
        }
        (Role::Both, Policy::Chunked) | (_, Policy::MixedPool) => BatchRule::DecodeFirst,
        // A chunk budget on the prefill pool asks for chunks; decode pools only ever recompute.
        (Role::Prefill, _) if pool.chunk_budget.or(system.chunk_budget).is_some() => {
            BatchRule::DecodeFirst
        }
        _ => BatchRule::PrefillFirst,
    }
}
