//! The `systems:` section: policies, pools and what tunes them.

use serde::{Deserialize, Serialize};

use super::value::{Bandwidth, KvBlocks, Limit, Span, WordOr};

/// How a system divides prefill and decode among its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Whole prompts first, on the same instances that decode.
    Colocated,
    /// Decodes first, prompts in chunks beside them, on the same instances.
    Chunked,
    /// Prefill and decode on pools of their own.
    Disaggregated,
}

/// Who emits the first output token of a request whose KV cache travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Most tokens in a step where prompts are chunked.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub chunk_budget: Option<u32>,
            /// Most prompt tokens in a step where prompts are whole.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub max_step_tokens: Option<u32>,
            /// Most prompts in a step.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub max_step_prompts: Option<u32>,
            /// Most sequences on an instance at a time.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub max_seqs: Option<u32>,
            /// Most context tokens in a decode step.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub max_decode_context: Option<Limit>,
            /// Tokens per KV block.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub block_tokens: Option<u32>,
            /// Share of the GPU memory the engine may use.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub memory_fraction: Option<f64>,
            /// Share of the KV blocks kept free when prompts are admitted.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub kv_watermark: Option<f64>,
            /// KV blocks per instance.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub kv_blocks: Option<KvBlocks>,
            /// CPU time of the engine per step, on top of the GPU's.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub step_overhead: Option<Span>,
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
                    block_tokens: self.block_tokens,
                    memory_fraction: self.memory_fraction,
                    kv_watermark: self.kv_watermark,
                    kv_blocks: self.kv_blocks,
                    step_overhead: self.step_overhead,
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
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model: Option<String>,
        /// Engine preset, if not the scenario's.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub engine: Option<String>,
        /// Step-time model of pools that name none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub latency: Option<WordOr<LatencyKind>>,
        /// The instances of a colocated or chunked system.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pool: Option<Pool>,
        /// The prefill instances of a disaggregated system.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prefill: Option<Pool>,
        /// The decode instances of a disaggregated system.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub decode: Option<Pool>,
        /// How KV caches travel.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub transfer: Option<Transfer>,
        /// Who emits the first token.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub first_token: Option<FirstToken>,
        /// Where requests go: one rule, or one per phase.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub router: Option<WordOr<RouterPair>>,
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
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tp: Option<u32>,
        /// Pipeline-parallel degree.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub pp: Option<u32>,
        /// Step-time model.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub latency: Option<WordOr<LatencyKind>>,
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
    pub block_tokens: Option<u32>,
    pub memory_fraction: Option<f64>,
    pub kv_watermark: Option<f64>,
    pub kv_blocks: Option<KvBlocks>,
    pub step_overhead: Option<Span>,
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
            block_tokens: self.block_tokens.or(fallback.block_tokens),
            memory_fraction: self.memory_fraction.or(fallback.memory_fraction),
            kv_watermark: self.kv_watermark.or(fallback.kv_watermark),
            kv_blocks: self.kv_blocks.or(fallback.kv_blocks),
            step_overhead: self.step_overhead.or(fallback.step_overhead),
        }
    }
}

/// Router rules by phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterPair {
    /// Chooses where a prompt is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<String>,
    /// Chooses where tokens are decoded, when the KV cache travels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<String>,
}

/// The hand-off of a disaggregated system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The link KV caches travel over.
    pub link: Link,
}

/// A link by name (`nvlink`, `pcie`, `nic`, `none`) or by its figures.
pub type Link = WordOr<LinkSpeed>;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpeed {
    /// Bytes or bits per second of one prefill instance.
    pub bandwidth: Bandwidth,
    /// Fixed time per transfer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
}

/// A step-time model by its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyKind {
    /// Constant times, for theory and tests.
    Fixed(FixedLatency),
    /// DistServe-style polynomials in the tokens of a step.
    Polynomial(PolynomialLatency),
    /// Datasheet peaks times efficiencies.
    Roofline(RooflineLatency),
}

/// Constant step times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLatency {
    /// Time of a step with prompts.
    pub prefill: Span,
    /// Time of a step with decodes only.
    pub decode: Span,
}

/// A shipped set of coefficients, or coefficients written out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolynomialLatency {
    /// Name of a shipped set: `distserve` or `vllm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
}

/// Efficiencies in place of the stated ones.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RooflineLatency {
    /// Share of the peak FLOP/s that matrix products reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_efficiency: Option<f64>,
    /// Share of the peak memory bandwidth that reads reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_efficiency: Option<f64>,
}
