//! How much of a prefill and of a decode instance a request takes: what the ratio of prefill to decode instances should follow.
//!
//! ```text
//! work_P = T_prefill(k prompts) / k               k: as many of that length as a step takes
//! work_D = steps · T_step(n, context) / n         steps: output tokens, less the one that prefill emits; n: the largest batch that
//!                                                  seats and KV memory allow at mean lengths, its share of each pipeline stage
//! ```
//!
//! A promise on TPOT allows smaller batches than that, so decode instances carry at most what is said here; where few prompts wait,
//! steps are less full. Hits in prefix caches and waiting are left out.

use crate::cluster::{FirstToken, PoolSpec, Role, RoleRule, SkipPrefill, SystemSpec};
use crate::latency::{Chunk, Stage, StepShape};
use crate::units::SimDuration;
use crate::workload::RequestSpec;

/// More prompts in a step do not change what one of them takes.
const MOST_PROMPTS: u32 = 256;

/// Instance time per request of one phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// Instances.
    pub instances: u32,
    /// Seconds of one of them that a request takes.
    pub seconds: f64,
}

impl Phase {
    /// Requests per second that all instances carry at most.
    #[must_use]
    pub fn requests_per_s(&self) -> f64 {
        f64::from(self.instances) / self.seconds
    }
}

/// The work of a request in a system with prefill and decode instances of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Balance {
    /// Mean prompt tokens.
    pub input_tokens: f64,
    /// Mean output tokens.
    pub output_tokens: f64,
    /// Prefill instances.
    pub prefill: Phase,
    /// Decode instances.
    pub decode: Phase,
    /// Most sequences that one of those decodes at a time.
    pub decode_batch: u32,
}

/// The balance of a system under `requests`, of which so many are looked at as are given. `None` for systems without one pool for
/// each phase, for those whose instances change roles or whose prompts may skip prefill, and for workloads without a second token.
#[must_use]
pub fn balance(
    system: &SystemSpec,
    requests: impl IntoIterator<Item = RequestSpec>,
) -> Option<Balance> {
    let [a, b] = &system.pools[..] else {
        return None;
    };
    if system.roles != RoleRule::Fixed || system.skip != SkipPrefill::default() {
        return None;
    }
    let (prefill, decode) = match (a.role, b.role) {
        (Role::Prefill, Role::Decode) => (a, b),
        (Role::Decode, Role::Prefill) => (b, a),
        _ => return None,
    };
    let (mut n, mut input, mut output, mut prompts) = (0u32, 0.0, 0.0, 0.0);
    for request in requests {
        n += 1;
        input += f64::from(request.input_tokens);
        output += f64::from(request.output_tokens);
        prompts += prompt_seconds(prefill, request.input_tokens);
    }
    if n == 0 || output <= f64::from(n) {
        return None;
    }
    let count = f64::from(n);
    let (input_tokens, output_tokens) = (input / count, output / count);
    let batch = largest_batch(decode, input_tokens + output_tokens);
    let context = input_tokens + output_tokens / 2.0;
    // Each stage works on its share of the sequences at a time.
    let in_stage = batch.div_ceil(decode.pp);
    let step = step_seconds(decode, &[], in_stage, f64::from(in_stage) * context);
    let steps = match system.first_token {
        FirstToken::Prefill => output_tokens - 1.0,
        FirstToken::Decode => output_tokens,
    };
    Some(Balance {
        input_tokens,
        output_tokens,
        prefill: Phase {
            instances: prefill.instances,
            seconds: prompts / count,
        },
        decode: Phase {
            instances: decode.instances,
            seconds: steps * step / f64::from(in_stage),
        },
        decode_batch: batch,
    })
}

/// Seats, and KV memory at `tokens` per sequence; 256 where neither says anything, as engines do by default.
fn largest_batch(pool: &PoolSpec, tokens: f64) -> u32 {
    let blocks_each = (tokens / f64::from(pool.kv.block_tokens)).ceil().max(1.0);
    let held = pool.kv.blocks.map(|blocks| blocks as f64 / blocks_each);
    let seats = match (pool.limits.max_seqs, held) {
        (u32::MAX, None) => 256.0,
        (seats, held) => held.unwrap_or(f64::INFINITY).min(f64::from(seats)),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most the seats, which are a u32"
    )]
    let batch = seats.max(1.0) as u32;
    batch
}

/// Seconds per prompt in a step as full as its limits let prompts of that length make it.
fn prompt_seconds(pool: &PoolSpec, tokens: u32) -> f64 {
    let limits = pool.limits;
    let fit = (limits.max_step_tokens / tokens.max(1)).min(limits.max_step_prompts);
    let prompts = fit.min(limits.max_seqs).clamp(1, MOST_PROMPTS);
    let chunk = Chunk {
        new: tokens,
        past: 0,
        last: true,
    };
    let chunks = vec![chunk; prompts as usize];
    step_seconds(pool, &chunks, 0, 0.0) / chunks.len() as f64
}

/// Seconds between two steps: those of the slowest pipeline stage.
fn step_seconds(pool: &PoolSpec, chunks: &[Chunk], decodes: u32, context: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of tokens"
    )]
    let shape = StepShape {
        chunks,
        decodes,
        context: context as u64,
    };
    let of = pool.pp;
    let stages = (0..of).map(|index| pool.latency.step_time(&shape, Stage { index, of }));
    stages.max().map_or(0.0, SimDuration::as_secs_f64)
}
