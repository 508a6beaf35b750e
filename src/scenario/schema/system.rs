//! The `systems:` section: policies, pools and what tunes them.

use serde::Deserialize;

use super::dtype::{KvFormat, Weights};
use super::kv::{CpuCache, DecodeChoice, KvReserve, Preemption, Reservation, SkipPrefill};
use super::multiplex::Multiplex;
use super::queue::{LongPrompts, QueueKind};
use super::roles::Roles;
use super::router::RouterPair;
use super::transfer::Transfer;
use super::value::{Bandwidth, KvBlocks, Limit, Span, WordOr};
use crate::latency::polynomial::{DecodeTerms, Terms};

/// How a system divides prefill and decode among its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Batches that run to completion, on the same instances.
    Static,
    /// Whole prompts first, on the same instances that decode.
    Colocated,
    /// Decodes first, prompts in chunks beside them, on the same instances.
    Chunked,
    /// Prefill and decode on pools of their own.
    Disaggregated,
    /// The same, with a mixed pool that takes instances of a side without room.
    MixedPool,
    /// The same, with instances that switch sides when queues ask for it.
    Dynamic,
    /// Prefill and decode at the same time on the same GPUs, each on part of the SMs.
    Multiplexed,
}

impl Policy {
    /// Whether there are a prefill and a decode pool, between which KV caches travel.
    #[must_use]
    pub const fn splits(self) -> bool {
        matches!(self, Self::Disaggregated | Self::MixedPool | Self::Dynamic)
    }

    /// Whether instances change roles.
    #[must_use]
    pub const fn moves(self) -> bool {
        matches!(self, Self::MixedPool | Self::Dynamic)
    }
}

/// How the steps of a pool are formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchKind {
    /// Whole prompts first, decodes stall behind them.
    PrefillFirst,
    /// Decodes first, prompts in chunks beside them.
    DecodeFirst,
    /// Whole prompts first, decodes beside them.
    Mixed,
    /// A batch ends before the next one starts.
    RunToCompletion,
    /// Prompts and decodes at the same time.
    SharedSm,
}

/// Who emits the first output token of a request whose KV cache travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstToken {
    /// The prefill instance.
    Prefill,
    /// The decode instance.
    Decode,
}

/// Adds the keys that tune a system or, more specifically, one of its pools. (`serde(flatten)` would lose the line
/// of an error.)
macro_rules! tuned {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Most tokens in a step where prompts are chunked.
            pub chunk_budget: Option<u32>,
            /// Most prompt tokens in a step where prompts are whole.
            pub max_step_tokens: Option<u32>,
            /// Most prompts in a step.
            pub max_step_prompts: Option<u32>,
            /// Most sequences on an instance at a time.
            pub max_seqs: Option<u32>,
            /// Most context tokens in a decode step.
            pub max_decode_context: Option<Limit>,
            /// Cap of long prompts in a step.
            pub long_prompts: Option<LongPrompts>,
            /// Tokens per KV block.
            pub block_tokens: Option<u32>,
            /// Share of the GPU memory the engine may use.
            pub memory_fraction: Option<f64>,
            /// Share of the KV blocks kept free when prompts are admitted.
            pub kv_watermark: Option<f64>,
            /// KV blocks per instance.
            pub kv_blocks: Option<KvBlocks>,
            /// How many KV blocks a sequence is given.
            pub kv_reserve: Option<KvReserve>,
            /// What becomes of a sequence that loses its KV blocks.
            pub preemption: Option<Preemption>,
            /// Rate at which an instance swaps.
            pub swap_bandwidth: Option<Bandwidth>,
            /// Whether prompt blocks stay cached for prompts that start alike.
            pub prefix_cache: Option<bool>,
            /// Format of the weights of the linear layers.
            pub weight_dtype: Option<Weights>,
            /// Format of the KV cache.
            pub kv_dtype: Option<KvFormat>,
            /// Host memory for what the prefix cache drops.
            pub cpu_cache: Option<CpuCache>,
        }

        impl $name {
            /// The tuning keys of this level.
            #[must_use]
            pub fn tuning(&self) -> Tuning {
                Tuning {
                    chunk_budget: self.chunk_budget,
                    max_step_tokens: self.max_step_tokens,
                    max_step_prompts: self.max_step_prompts,
                    max_seqs: self.max_seqs,
                    max_decode_context: self.max_decode_context,
                    long_prompts: self.long_prompts,
                    block_tokens: self.block_tokens,
                    memory_fraction: self.memory_fraction,
                    kv_watermark: self.kv_watermark,
                    kv_blocks: self.kv_blocks,
                    kv_reserve: self.kv_reserve,
                    preemption: self.preemption,
                    swap_bandwidth: self.swap_bandwidth,
                    prefix_cache: self.prefix_cache,
                    weight_dtype: self.weight_dtype,
                    kv_dtype: self.kv_dtype,
                    cpu_cache: self.cpu_cache,
                }
            }
        }
    };
}

tuned! {
    /// One system under comparison.
    pub struct System {
        /// How prefill and decode share the GPUs.
        pub policy: Policy,
        /// Model, if not the scenario's.
        pub model: Option<String>,
        /// Engine preset, if not the scenario's.
        pub engine: Option<String>,
        /// Step-time model of pools that name none.
        pub latency: Option<WordOr<LatencyKind>>,
        /// The instances of a system whose instances do both.
        pub pool: Option<Pool>,
        /// The prefill instances of a disaggregated system.
        pub prefill: Option<Pool>,
        /// The decode instances of a disaggregated system.
        pub decode: Option<Pool>,
        /// How prompts and decodes share the GPUs of a multiplexed system.
        pub multiplex: Option<Multiplex>,
        /// How KV caches travel.
        pub transfer: Option<Transfer>,
        /// When instances change roles.
        pub roles: Option<Roles>,
        /// Which prompts do not use the prefill pool.
        pub skip_prefill: Option<SkipPrefill>,
        /// When decode blocks are reserved, when the KV cache travels.
        pub reservation: Option<Reservation>,
        /// When the decode instance is chosen.
        pub decode_choice: Option<DecodeChoice>,
        /// Who emits the first token.
        pub first_token: Option<FirstToken>,
        /// Where requests go: one rule, or one per phase.
        pub router: Option<WordOr<RouterPair>>,
        /// In which order prompts wait on an instance.
        pub queue: Option<WordOr<QueueKind>>,
    }
}

tuned! {
    /// Equal instances with one role.
    pub struct Pool {
        /// How many.
        pub instances: u32,
        /// GPU type, or path of a GPU profile.
        pub gpu: String,
        /// Tensor-parallel degree.
        pub tp: Option<u32>,
        /// Pipeline-parallel degree.
        pub pp: Option<u32>,
        /// Attention data-parallel degree.
        pub dp: Option<u32>,
        /// Expert-parallel degree.
        pub ep: Option<u32>,
        /// The group of nodes it stands on, if not with the others.
        pub group: Option<String>,
        /// How its steps are formed, if not as the policy has it.
        pub batch: Option<BatchKind>,
        /// Step-time model.
        pub latency: Option<WordOr<LatencyKind>>,
        /// Price of a GPU-hour in US dollars, instead of the GPU profile's.
        pub price_per_hour_usd: Option<f64>,
        /// Power of a GPU in watts, instead of the GPU profile's.
        pub power_w: Option<f64>,
    }
}

/// The keys that an engine preset gives defaults for; a pool's win over its system's.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[expect(
    missing_docs,
    reason = "each field is documented where it is written, in `System`"
)]
pub struct Tuning {
    pub chunk_budget: Option<u32>,
    pub max_step_tokens: Option<u32>,
    pub max_step_prompts: Option<u32>,
    pub max_seqs: Option<u32>,
    pub max_decode_context: Option<Limit>,
    pub long_prompts: Option<LongPrompts>,
    pub block_tokens: Option<u32>,
    pub memory_fraction: Option<f64>,
    pub kv_watermark: Option<f64>,
    pub kv_blocks: Option<KvBlocks>,
    pub kv_reserve: Option<KvReserve>,
    pub preemption: Option<Preemption>,
    pub swap_bandwidth: Option<Bandwidth>,
    pub prefix_cache: Option<bool>,
    pub weight_dtype: Option<Weights>,
    pub kv_dtype: Option<KvFormat>,
    pub cpu_cache: Option<CpuCache>,
}

impl Tuning {
    /// These keys, and those of `fallback` where there are none.
    #[must_use]
    pub fn or(self, fallback: Self) -> Self {
        Self {
            chunk_budget: self.chunk_budget.or(fallback.chunk_budget),
            max_step_tokens: self.max_step_tokens.or(fallback.max_step_tokens),
            max_step_prompts: self.max_step_prompts.or(fallback.max_step_prompts),
            max_seqs: self.max_seqs.or(fallback.max_seqs),
            max_decode_context: self.max_decode_context.or(fallback.max_decode_context),
            long_prompts: self.long_prompts.or(fallback.long_prompts),
            block_tokens: self.block_tokens.or(fallback.block_tokens),
            memory_fraction: self.memory_fraction.or(fallback.memory_fraction),
            kv_watermark: self.kv_watermark.or(fallback.kv_watermark),
            kv_blocks: self.kv_blocks.or(fallback.kv_blocks),
            kv_reserve: self.kv_reserve.or(fallback.kv_reserve),
            preemption: self.preemption.or(fallback.preemption),
            swap_bandwidth: self.swap_bandwidth.or(fallback.swap_bandwidth),
            prefix_cache: self.prefix_cache.or(fallback.prefix_cache),
            weight_dtype: self.weight_dtype.or(fallback.weight_dtype),
            kv_dtype: self.kv_dtype.or(fallback.kv_dtype),
            cpu_cache: self.cpu_cache.or(fallback.cpu_cache),
        }
    }
}

/// A step-time model by its parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// Constant times, for theory and tests.
    Fixed(FixedLatency),
    /// DistServe-style polynomials in the tokens of a step.
    Polynomial(PolynomialLatency),
    /// Datasheet peaks times efficiencies.
    Roofline(RooflineLatency),
    /// Kernel timings of the GPU's profile.
    Calibrated(CalibratedLatency),
}

/// Constant step times; what is not given is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLatency {
    /// Once per step with prompts.
    pub prefill: Option<Span>,
    /// Per prompt token computed.
    pub prefill_per_token: Option<Span>,
    /// Once per step with decodes.
    pub decode: Option<Span>,
    /// Per decoding sequence.
    pub decode_per_sequence: Option<Span>,
}

/// A shipped set of coefficients, or coefficients written out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolynomialLatency {
    /// Name of a shipped set: `distserve` or `vllm`.
    pub set: Option<String>,
    /// Coefficients of prompts in ms, instead of a set.
    pub prefill_ms: Option<Terms>,
    /// Coefficients of decodes in ms, instead of a set.
    pub decode_ms: Option<DecodeTerms>,
    /// Added to a step with prompts on every pipeline stage, times the number of stages.
    pub prefill_stage_overhead: Option<Span>,
    /// Added to every step on the first stage.
    pub step_overhead: Option<Span>,
    /// Added on the first stage per prompt token computed and context token held.
    pub step_overhead_per_token: Option<Span>,
}

/// What the surfaces of a GPU profile do not say.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratedLatency {
    /// Exponent of the power law by which tokens visit experts; 0 is even.
    pub expert_skew: Option<f64>,
    /// Time of the engine per step, on top of the kernels'.
    pub step_overhead: Option<Span>,
    /// The same per sequence of the step.
    pub step_overhead_per_sequence: Option<Span>,
}

/// Shares of the data-sheet peaks that kernels reach, and fixed times.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RooflineLatency {
    /// Matrix products, of the tensor-core peak.
    pub gemm: Option<f64>,
    /// Prefill attention, of the tensor-core peak.
    pub prefill_attention: Option<f64>,
    /// Anything that reads memory, of its bandwidth.
    pub memory: Option<f64>,
    /// Collectives, of the link between GPUs.
    pub link: Option<f64>,
    /// Fixed time of a kernel.
    pub kernel_time: Option<Span>,
    /// Fixed time of a collective.
    pub collective_time: Option<Span>,
    /// Time of the engine per step, on top of the kernels'.
    pub step_overhead: Option<Span>,
    /// The same per sequence of the step.
    pub step_overhead_per_sequence: Option<Span>,
}
