//! What a simulated system is made of, resolved to numbers and models.

use std::sync::Arc;

use crate::latency::LatencyModel;
use crate::policy::batch::{BatchRule, StepLimits};
use crate::policy::router::RouterRule;
use crate::units::SimDuration;

/// What the instances of a pool do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Prefill and decode.
    Both,
    /// Prompts only; the KV cache then travels to a decode instance.
    Prefill,
    /// Output tokens only (and the recomputation of sequences it has preempted).
    Decode,
}

/// Who emits the first output token of a request whose KV cache travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FirstToken {
    /// The prefill instance, when the prompt is done; `n` output tokens take `n − 1` decode steps.
    Prefill,
    /// The decode instance, at the end of its first step; `n` output tokens take `n` decode steps.
    Decode,
}

/// The KV pool of each instance of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvSpec {
    /// Tokens per block, at least 1.
    pub block_tokens: u32,
    /// Blocks per instance; `None` for unlimited memory.
    pub blocks: Option<u64>,
    /// Blocks left free when prompts are admitted.
    pub watermark_blocks: u64,
    /// Bytes per token over all layers and ranks: what a KV transfer carries.
    pub bytes_per_token: u64,
    /// Whether prompt blocks stay cached after use, for prompts that start alike. Of no effect on decode pools.
    pub prefix_cache: bool,
}

/// One pool of equal instances.
#[derive(Debug, Clone)]
pub struct PoolSpec {
    /// Name for reports: `colocated`, `prefill`, `decode`.
    pub name: String,
    /// What its instances do.
    pub role: Role,
    /// How many instances.
    pub instances: u32,
    /// GPU type, for reports.
    pub gpu: String,
    /// Tensor-parallel degree.
    pub tp: u32,
    /// Pipeline-parallel degree: stages per instance.
    pub pp: u32,
    /// Step times.
    pub latency: Arc<dyn LatencyModel>,
    /// How steps are formed.
    pub batch: BatchRule,
    /// Limits on a step.
    pub limits: StepLimits,
    /// KV memory.
    pub kv: KvSpec,
}

impl PoolSpec {
    /// GPUs of the whole pool.
    #[must_use]
    pub const fn gpus(&self) -> u32 {
        self.instances * self.tp * self.pp
    }
}

/// How a KV cache travels from a prefill to a decode instance.
///
/// Each prefill instance sends over one link, one transfer at a time in order of readiness.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransferSpec {
    /// Fixed time per transfer.
    pub base: SimDuration,
    /// Link rate in bytes per second; infinite is allowed.
    pub bytes_per_sec: f64,
}

/// A complete system: pools, routing and hand-off.
#[derive(Debug, Clone)]
pub struct SystemSpec {
    /// Name for reports.
    pub name: String,
    /// One pool of role `Both`, or any number of prefill and decode pools.
    pub pools: Vec<PoolSpec>,
    /// Chooses where a prompt is computed.
    pub prefill_router: RouterRule,
    /// Chooses where tokens are decoded, when the KV cache travels.
    pub decode_router: RouterRule,
    /// Who emits the first token.
    pub first_token: FirstToken,
    /// The hand-off; unused without prefill pools.
    pub transfer: TransferSpec,
    /// Evaluate whole decode runs in closed form; `false` steps every token (the slow twin, same results).
    pub fast_forward: bool,
}

impl SystemSpec {
    /// GPUs of the whole system.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.pools.iter().map(PoolSpec::gpus).sum()
    }
}
