//! What a simulated system is made of, resolved to numbers and models.

use std::sync::Arc;

use crate::latency::LatencyModel;
use crate::latency::share::Streams;
use crate::net::Topology;
use crate::policy::batch::{BatchRule, StepLimits};
use crate::policy::queue::QueueRule;
pub use crate::policy::roles::Role;
use crate::policy::roles::RoleRule;
use crate::policy::router::RouterRule;
use crate::units::SimDuration;

/// Who emits the first output token of a request whose KV cache travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FirstToken {
    /// The prefill instance, when the prompt is done; `n` output tokens take `n − 1` decode steps.
    Prefill,
    /// The decode instance, at the end of its first step; `n` output tokens take `n` decode steps.
    Decode,
}

/// How many KV blocks a sequence is given where it decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KvReserve {
    /// Those of its prompt, then one at a time (paged attention, vLLM).
    #[default]
    Paged,
    /// At once those of its prompt and of all that the client lets it emit: what contiguous memory must do (Orca's "max").
    MaxOutput,
    /// At once those it will need. An oracle: it looks at the true output length, which no engine knows.
    Oracle,
    /// Those of its prompt, and before its first decode step all that it will need (Splitwise's simulator). An oracle, too.
    OracleAtDecode,
}

/// What becomes of a sequence that loses its KV blocks because others need them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Preemption {
    /// Its KV cache is dropped; its prompt and what it has emitted are computed again here.
    #[default]
    Recompute,
    /// Its KV cache moves to host memory and back, in line with the steps of the instance.
    Swap {
        /// Rate of the instance's links to the host together.
        bytes_per_sec: f64,
    },
    /// Its KV cache is dropped; prompt and emitted tokens are computed again on a prefill instance, then travel again. For decode
    /// pools only, and once for each sequence: the next time it is computed again where it is.
    ReturnToPrefill,
}

/// When the KV blocks of a request whose KV cache travels are reserved on its decode instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Reservation {
    /// When its prompt is done; until then it waits in the prefill instance's memory.
    #[default]
    AtHandoff,
    /// When its prompt is done, but the decode instance is chosen at arrival: its router sees requests that are to come.
    AtHandoffChosenAtArrival,
    /// At arrival, before its prompt may enter a queue: the decode instance is chosen then. Not with
    /// [`Preemption::ReturnToPrefill`]: each side could wait for the other's memory.
    Early,
}

/// The KV pool of each instance of a pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KvSpec {
    /// Tokens per block, at least 1.
    pub block_tokens: u32,
    /// Blocks per instance; `None` for unlimited memory.
    pub blocks: Option<u64>,
    /// Blocks left free when prompts are admitted.
    pub watermark_blocks: u64,
    /// Bytes per token over all layers and ranks: what a KV transfer carries.
    pub bytes_per_token: u64,
    /// How many blocks a sequence is given. One that is to decode elsewhere gets those of its prompt only.
    pub reserve: KvReserve,
    /// What becomes of a preempted sequence.
    pub preemption: Preemption,
    /// Whether prompt blocks stay cached after use, for prompts that start alike. What a decode instance has does not travel to it again.
    pub prefix_cache: bool,
    /// Host memory for what the prefix cache drops.
    pub cpu_cache: Option<CpuTier>,
}

/// Host memory behind the prefix cache of an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuTier {
    /// KV blocks it holds.
    pub blocks: u64,
    /// Rate at which an instance loads them.
    pub bytes_per_sec: f64,
}

/// What a GPU costs and takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bill {
    /// US dollars per GPU-hour; `None` where nobody states a price.
    pub usd_per_hour: Option<f64>,
    /// Board power limit in watts.
    pub power_w: f64,
}

/// One pool of equal instances.
#[derive(Debug, Clone)]
pub struct PoolSpec {
    /// Name for reports: `colocated`, `prefill`, `decode`.
    pub name: String,
    /// What its instances do, at first where a rule changes roles.
    pub role: Role,
    /// How many instances.
    pub instances: u32,
    /// GPU type, for reports.
    pub gpu: String,
    /// What a GPU costs and takes, for reports.
    pub bill: Bill,
    /// Tensor-parallel degree.
    pub tp: u32,
    /// Pipeline-parallel degree: stages per instance.
    pub pp: u32,
    /// Attention data-parallel degree: ranks that hold different sequences. Their batches and KV memory are taken as even.
    pub dp: u32,
    /// Expert-parallel degree, for reports.
    pub ep: u32,
    /// Step times.
    pub latency: Arc<dyn LatencyModel>,
    /// Step times of two streams that run prompts and decodes at the same time; `None`: one step at a time. With role
    /// [`Role::Both`], one stage and [`BatchRule::SharedSm`], which needs it.
    pub multiplex: Option<Streams>,
    /// How steps are formed.
    pub batch: BatchRule,
    /// In which order prompts wait.
    pub queue: QueueRule,
    /// Limits on a step.
    pub limits: StepLimits,
    /// KV memory.
    pub kv: KvSpec,
}

impl PoolSpec {
    /// GPUs of the whole pool.
    #[must_use]
    pub const fn gpus(&self) -> u32 {
        self.instances * self.tp * self.pp * self.dp
    }

    /// KV blocks that one sequence may take: those of its rank. `None` for unlimited memory.
    #[must_use]
    pub fn blocks_of_a_rank(&self) -> Option<u64> {
        Some(self.kv.blocks? / u64::from(self.dp))
    }
}

/// Which prompts are computed on a decode instance instead of the prefill pool: conditional disaggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SkipPrefill {
    /// Those of fewer tokens.
    pub below: u32,
    /// Those of which fewer tokens are missing in the prefix cache of their decode instance; 0: none for that reason. Only where that
    /// instance is known by then: with [`Reservation::AtHandoffChosenAtArrival`].
    pub uncached_below: u32,
    /// All, while so many prompts are queued or computed on the prefill instance that the router would take; `None`: never for
    /// that reason. Not with [`Reservation::Early`].
    pub at_queue: Option<u64>,
}

/// What of a KV cache travels while its prompt is still being computed. Needs blocks reserved early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Overlap {
    /// Nothing.
    #[default]
    None,
    /// The chunks before the last one.
    Chunk,
    /// Every layer but the last of the last chunk.
    Layerwise {
        /// How many the model has.
        layers: u32,
    },
}

/// A network that transfers share, max-min fair at both ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// Nodes and ports.
    pub topology: Topology,
    /// Most transfers that the instance which posts them has in flight, at least 1.
    pub in_flight: u32,
}

/// Who posts a transfer: there it queues, and there transfers in flight are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TransferMode {
    /// The prefill instance, which writes into the decode instance's blocks.
    #[default]
    Push,
    /// The decode instance, which reads from the prefill instance's blocks. It learns of them when the prompt is done, so nothing
    /// travels earlier.
    Pull,
}

/// Whole copies to host memory before a transfer, and from host memory after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Staging {
    /// Rate of the copies to the host of one prefill instance, in bytes per second.
    pub out_bytes_per_sec: f64,
    /// Rate of the copies from the host of one decode instance, in bytes per second.
    pub into_bytes_per_sec: f64,
}

/// How a KV cache travels from a prefill to a decode instance: `t = base + blocks × per_block + bytes / rate`.
///
/// Each instance that posts transfers has one link, which carries one transfer at a time in order of readiness, unless transfers share a
/// network.
#[derive(Debug, Clone, PartialEq)]
pub struct TransferSpec {
    /// Fixed time per transfer.
    pub base: SimDuration,
    /// Time to post the descriptors of a KV block, before bytes flow.
    pub per_block: SimDuration,
    /// Rate of an instance's link in bytes per second; infinite is allowed.
    pub bytes_per_sec: f64,
    /// What travels early. Not with [`TransferMode::Pull`], nor with `staging`.
    pub overlap: Overlap,
    /// Who posts.
    pub mode: TransferMode,
    /// Whole copies through host memory, if any. Staging that moves on piece by piece is a matter of rates.
    pub staging: Option<Staging>,
    /// The network, if transfers share one; `None`: links do not disturb each other.
    pub sharing: Option<Sharing>,
}

impl TransferSpec {
    /// A link of each prefill instance's own, `t = base + bytes / rate`.
    #[must_use]
    pub const fn link(base: SimDuration, bytes_per_sec: f64) -> Self {
        Self {
            base,
            per_block: SimDuration::ZERO,
            bytes_per_sec,
            overlap: Overlap::None,
            mode: TransferMode::Push,
            staging: None,
            sharing: None,
        }
    }
}

/// A complete system: pools, routing and hand-off.
#[derive(Debug, Clone)]
pub struct SystemSpec {
    /// Name for reports.
    pub name: String,
    /// One pool of role `Both`, or any number of prefill and decode pools.
    pub pools: Vec<PoolSpec>,
    /// Whether and how instances change roles. A rule that places requests itself chooses the decode instance at arrival and has its
    /// blocks reserved at hand-off: routers, `skip` and `reservation` are then of no effect, and nobody may return to prefill.
    pub roles: RoleRule,
    /// Chooses where a prompt is computed.
    pub prefill_router: RouterRule,
    /// Chooses where tokens are decoded, when the KV cache travels.
    pub decode_router: RouterRule,
    /// Which prompts do not use the prefill pools.
    pub skip: SkipPrefill,
    /// When decode blocks are reserved, when the KV cache travels.
    pub reservation: Reservation,
    /// Who emits the first token.
    pub first_token: FirstToken,
    /// The hand-off; unused without prefill pools.
    pub transfer: TransferSpec,
    /// Evaluate whole decode runs in closed form; `false` steps every token (the slow twin, same results).
    pub fast_forward: bool,
}

impl SystemSpec {
    /// Why requests of such a system could wait for each other for ever, if they could.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let early = self.reservation == Reservation::Early;
        (early && self.returns_to_prefill()).then_some(
            "decode blocks are reserved early and preempted sequences return to prefill instances: prompts that come back would hold \
             prefill memory while they wait for decode blocks, and those that have decode blocks would wait for prefill memory",
        )
    }

    /// Whether some decode pool sends preempted sequences back to prefill instances.
    #[must_use]
    pub fn returns_to_prefill(&self) -> bool {
        self.pools.iter().any(|pool| {
            pool.role == Role::Decode && pool.kv.preemption == Preemption::ReturnToPrefill
        })
    }

    /// GPUs of the whole system.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.pools.iter().map(PoolSpec::gpus).sum()
    }
}
