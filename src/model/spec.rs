//! The shape of a transformer.

use super::dtype::WeightDtype;

/// How a model is spread over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Parallelism {
    /// Tensor-parallel degree, at least 1.
    pub tp: u32,
    /// Pipeline-parallel degree: stages, at least 1.
    pub pp: u32,
    /// Expert-parallel degree, at least 1; experts are spread over this many of the instance's ranks, each
    /// expert whole. 1: experts are cut by `tp`.
    pub ep: u32,
    /// Attention data-parallel degree, at least 1: ranks hold different sequences.
    pub dp: u32,
}

impl Parallelism {
    /// One GPU.
    pub const SINGLE: Self = Self::new(1, 1);

    /// Tensor and pipeline parallelism only.
    #[must_use]
    pub const fn new(tp: u32, pp: u32) -> Self {
        Self {
            tp,
            pp,
            ep: 1,
            dp: 1,
        }
    }

    /// GPUs of an instance.
    #[must_use]
    pub const fn gpus(self) -> u32 {
        self.tp * self.pp * self.dp
    }
}

/// Which projections carry a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bias {
    /// None.
    None,
    /// Query, key and value.
    Qkv,
    /// Query, key, value and output.
    All,
}

/// Layers that look back over a window only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Tokens a query sees, itself included.
    pub tokens: u32,
    /// How many of the layers are so limited.
    pub layers: u32,
}

/// Multi-head or grouped-query attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupedAttention {
    /// Query heads.
    pub heads: u32,
    /// Key/value heads; equal to `heads` for multi-head attention.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Biases.
    pub bias: Bias,
    /// Norm on queries and keys.
    pub qk_norm: bool,
    /// Sliding-window layers.
    pub window: Option<Window>,
}

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentAttention {
    /// Query heads.
    pub heads: u32,
    /// Rank of the query compression; `None` where queries are projected directly.
    pub q_lora_rank: Option<u32>,
    /// Rank of the joint key/value compression: what is cached.
    pub kv_lora_rank: u32,
    /// Head elements without rotary position.
    pub qk_nope_head_dim: u32,
    /// Rotary head elements, cached once for all heads.
    pub qk_rope_head_dim: u32,
    /// Value elements per head.
    pub v_head_dim: u32,
}

/// The attention of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// Keys and values per head.
    Grouped(GroupedAttention),
    /// One latent per token.
    Latent(LatentAttention),
}

impl Attention {
    /// Query heads.
    #[must_use]
    pub const fn heads(&self) -> u32 {
        match self {
            Self::Grouped(a) => a.heads,
            Self::Latent(a) => a.heads,
        }
    }
}

/// A dense feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ffn {
    /// Inner size.
    pub size: u32,
    /// Gate and up projections (`SwiGLU`) or up alone.
    pub gated: bool,
    /// Biases.
    pub bias: bool,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moe {
    /// Routed experts per layer.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Inner size of an expert.
    pub size: u32,
    /// Inner size of the shared experts together, 0 without.
    pub shared_size: u32,
    /// First layers with a dense block instead.
    pub first_dense_layers: u32,
    /// After those, every so many layers is a mixture, the others are dense.
    pub every: u32,
    /// Biases.
    pub bias: bool,
}

/// One model architecture.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// Name as in scenarios: `opt-13b`.
    pub name: String,
    /// Where the shape comes from.
    pub source: String,
    /// Total parameters as published, where stated.
    pub published_parameters: Option<f64>,
    /// Transformer layers.
    pub layers: u32,
    /// Residual width.
    pub hidden: u32,
    /// Vocabulary rows.
    pub vocab: u32,
    /// LM head shares the embedding's weights.
    pub tied_embeddings: bool,
    /// Rows of learned position embeddings, 0 for rotary or linear biases.
    pub learned_positions: u32,
    /// Norms carry a bias.
    pub norm_bias: bool,
    /// Format the weights are published in.
    pub native_weights: WeightDtype,
    /// Attention.
    pub attention: Attention,
    /// Dense feed-forward block; of the dense layers only in a mixture.
    pub ffn: Option<Ffn>,
    /// Mixture of experts.
    pub moe: Option<Moe>,
}

impl ModelSpec {
    /// Whether layer `index` (from 0) has a mixture of experts.
    #[must_use]
    pub fn is_moe_layer(&self, index: u32) -> bool {
        self.moe.is_some_and(|m| {
            index >= m.first_dense_layers && (index - m.first_dense_layers) % m.every == m.every - 1
        })
    }

    /// Layers of pipeline stage `stage` of `pp` as a half-open range; earlier stages take the remainder.
    #[must_use]
    pub fn stage_layers(&self, stage: u32, pp: u32) -> std::ops::Range<u32> {
        let (each, rest) = (self.layers / pp, self.layers % pp);
        let start = stage * each + stage.min(rest);
        start..start + each + u32::from(stage < rest)
    }
}
