//! Requests that an instance on their way could never hold, refused at arrival.
//!
//! A request that needs more KV blocks than an instance has in all would wait there for ever. The rule knows the true output length,
//! which no engine does: it keeps a simulation from standing still, and is not a policy. It goes by every pool of a
//! role, the smallest included: a router that saw only the instances large enough would learn from it how long an output will be.

use super::spec::{KvReserve, KvSpec, PoolSpec, Role};
use super::state::Cluster;
use crate::ids::PoolId;
use crate::kv::blocks_for;
use crate::workload::RequestSpec;

/// What a request would have needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The first pool that cannot hold it.
    pub pool: PoolId,
    /// KV blocks that it needs on one instance.
    pub needed: u64,
    /// KV blocks that an instance has, or one of its attention data-parallel ranks.
    pub available: u64,
}

impl KvSpec {
    /// KV blocks that a request needs at its longest on an instance of `role`; `returning`: preempted sequences may come back to
    /// prefill instances.
    #[must_use]
    pub fn blocks_at_longest(&self, role: Role, request: &RequestSpec, returning: bool) -> u64 {
        let prompt = u64::from(request.input_tokens);
        // The last output token is never stored.
        let with = |output: u32| prompt + u64::from(output) - 1;
        let tokens = match (role, self.reserve) {
            (Role::Prefill, _) if !returning => prompt,
            (Role::Both | Role::Decode, KvReserve::MaxOutput) => {
                with(request.max_output.max(request.output_tokens))
            }
            _ => with(request.output_tokens),
        };
        blocks_for(tokens, self.block_tokens)
    }
}

/// Tokens that an instance of any of `pools` holds, or one of its attention data-parallel ranks.
pub(super) fn tokens_everywhere(pools: &[PoolSpec]) -> u64 {
    let tokens = pools.iter().filter_map(|pool| {
        let block = u64::from(pool.kv.block_tokens);
        Some(pool.blocks_of_a_rank()?.saturating_mul(block))
    });
    tokens.min().unwrap_or(u64::MAX)
}

impl Cluster {
    /// What a request lacks on its way, if a pool there could not hold it even alone.
    pub(super) fn never_fits(&self, request: &RequestSpec) -> Option<Shortage> {
        let longest = u64::from(request.input_tokens)
            + u64::from(request.max_output.max(request.output_tokens));
        if longest <= self.always_fits {
            return None;
        }
        // Short prompts see a prefill instance only when they are preempted and sent back.
        let skips = self.skips_by_length(request.input_tokens) && !self.returning;
        let pools = self.pools.iter().enumerate();
        pools
            .map(|(index, pool)| {
                // Where roles change, a request may stay where its prompt was computed.
                let moves = self.roles.is_some();
                (index, pool, if moves { Role::Both } else { pool.role })
            })
            .filter(|(.., role)| *role != Role::Prefill || !skips)
            .find_map(|(index, pool, role)| {
                let available = pool.blocks_of_a_rank?;
                let needed = pool.kv.blocks_at_longest(role, request, self.returning);
                (needed > available).then_some(Shortage {
                    pool: PoolId::new(index),
                    needed,
                    available,
                })
            })
    }
}
