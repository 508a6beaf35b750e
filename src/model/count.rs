//! Counts of parameters and bytes.

use super::dtype::{KvDtype, WeightDtype};
use super::spec::{Attention, Bias, Ffn, GroupedAttention, LatentAttention, ModelSpec, Moe};

impl GroupedAttention {
    /// Output columns of the fused query/key/value projection on one of `tp` ranks; key/value heads are
    /// replicated where there are fewer than ranks.
    #[must_use]
    pub fn qkv_columns(&self, tp: u32) -> u64 {
        u64::from(self.heads.div_ceil(tp) + 2 * self.kv_heads_per_rank(tp))
            * u64::from(self.head_dim)
    }

    /// Key/value heads on one of `tp` ranks.
    #[must_use]
    pub const fn kv_heads_per_rank(&self, tp: u32) -> u32 {
        self.kv_heads.div_ceil(tp)
    }

    fn parameters(&self, hidden: u64) -> u64 {
        let (q, kv) = (
            u64::from(self.heads) * u64::from(self.head_dim),
            u64::from(self.kv_heads) * u64::from(self.head_dim),
        );
        let bias = match self.bias {
            Bias::None => 0,
            Bias::Qkv => q + 2 * kv,
            Bias::All => q + 2 * kv + hidden,
        };
        let norm = if self.qk_norm {
            2 * u64::from(self.head_dim)
        } else {
            0
        };
        hidden * (q + 2 * kv) + q * hidden + bias + norm
    }
}

impl LatentAttention {
    /// Elements of a query or key head.
    #[must_use]
    pub fn qk_head_dim(&self) -> u64 {
        u64::from(self.qk_nope_head_dim + self.qk_rope_head_dim)
    }

    /// Elements cached per token and layer.
    #[must_use]
    pub fn cached_elements(&self) -> u64 {
        u64::from(self.kv_lora_rank + self.qk_rope_head_dim)
    }

    fn parameters(&self, hidden: u64) -> u64 {
        let heads = u64::from(self.heads);
        let q_columns = heads * self.qk_head_dim();
        let q = self.q_lora_rank.map_or(hidden * q_columns, |rank| {
            let rank = u64::from(rank);
            hidden * rank + rank + rank * q_columns
        });
        let latent = u64::from(self.kv_lora_rank);
        let v = u64::from(self.v_head_dim);
        q + hidden * self.cached_elements()
            + latent
            + latent * heads * (u64::from(self.qk_nope_head_dim) + v)
            + heads * v * hidden
    }
}

impl Ffn {
    fn parameters(&self, hidden: u64) -> u64 {
        let size = u64::from(self.size);
        let columns = if self.gated { 2 * size } else { size };
        hidden * columns + size * hidden + if self.bias { columns + hidden } else { 0 }
    }
}

impl Moe {
    fn expert_parameters(&self, hidden: u64) -> u64 {
        let size = u64::from(self.size);
        3 * hidden * size + if self.bias { 2 * size + hidden } else { 0 }
    }

    fn always_parameters(&self, hidden: u64) -> u64 {
        let router = hidden * u64::from(self.experts)
            + if self.bias {
                u64::from(self.experts)
            } else {
                0
            };
        router + 3 * hidden * u64::from(self.shared_size)
    }
}

impl ModelSpec {
    fn attention_parameters(&self) -> u64 {
        let hidden = u64::from(self.hidden);
        match &self.attention {
            Attention::Grouped(a) => a.parameters(hidden),
            Attention::Latent(a) => a.parameters(hidden),
        }
    }

    fn norm_parameters(&self) -> u64 {
        u64::from(self.hidden) * if self.norm_bias { 2 } else { 1 }
    }

    /// Parameters of one layer; `active` counts only the experts a token visits.
    fn layer_parameters(&self, layer: u32, active: bool) -> u64 {
        let hidden = u64::from(self.hidden);
        let block = match (&self.moe, &self.ffn) {
            (Some(moe), _) if self.is_moe_layer(layer) => {
                let experts = if active { moe.top_k } else { moe.experts };
                u64::from(experts) * moe.expert_parameters(hidden) + moe.always_parameters(hidden)
            }
            (_, Some(ffn)) => ffn.parameters(hidden),
            (_, None) => 0,
        };
        self.attention_parameters() + block + 2 * self.norm_parameters()
    }

    /// Parameters of the token and position embeddings.
    #[must_use]
    pub fn embedding_parameters(&self) -> u64 {
        u64::from(self.hidden) * u64::from(self.vocab + self.learned_positions)
    }

    /// Parameters of the LM head, shared with the embedding or not.
    #[must_use]
    pub fn head_parameters(&self) -> u64 {
        u64::from(self.hidden) * u64::from(self.vocab)
    }

    /// All parameters.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.count(false)
    }

    /// Parameters a token visits: all but the experts it is not routed to.
    #[must_use]
    pub fn active_parameters(&self) -> u64 {
        self.count(true)
    }

    fn count(&self, active: bool) -> u64 {
        let layers: u64 = (0..self.layers)
            .map(|l| self.layer_parameters(l, active))
            .sum();
        let head = if self.tied_embeddings {
            0
        } else {
            self.head_parameters()
        };
        layers + self.embedding_parameters() + head + self.norm_parameters()
    }

    /// Bytes of the layers `range`, embeddings not included. MXFP4 covers the experts alone, as published models do.
    #[must_use]
    pub fn layer_bytes(&self, range: std::ops::Range<u32>, weights: WeightDtype) -> f64 {
        range
            .map(|layer| {
                let all = self.layer_parameters(layer, false) as f64;
                let experts = self.expert_parameters_of(layer) as f64;
                let dense_bytes = if weights == WeightDtype::Mxfp4 {
                    2.0
                } else {
                    weights.bytes()
                };
                (all - experts) * dense_bytes + experts * weights.bytes()
            })
            .sum()
    }

    /// Parameters of the routed experts of a layer.
    fn expert_parameters_of(&self, layer: u32) -> u64 {
        self.moe
            .as_ref()
            .filter(|_| self.is_moe_layer(layer))
            .map_or(0, |m| {
                u64::from(m.experts) * m.expert_parameters(u64::from(self.hidden))
            })
    }

    /// Bytes of the routed experts of the layers `range`.
    #[must_use]
    pub fn expert_bytes(&self, range: std::ops::Range<u32>, weights: WeightDtype) -> f64 {
        range
            .map(|layer| self.expert_parameters_of(layer) as f64 * weights.bytes())
            .sum()
    }

    /// Bytes of all weights; embeddings and LM head at 16 bits.
    #[must_use]
    pub fn weight_bytes(&self, weights: WeightDtype) -> f64 {
        let head = if self.tied_embeddings {
            0
        } else {
            self.head_parameters()
        };
        self.layer_bytes(0..self.layers, weights)
            + (self.embedding_parameters() + head + self.norm_parameters()) as f64 * 2.0
    }

    /// Bytes of KV cache of one token in one layer over all ranks of an unreplicated instance.
    #[must_use]
    pub fn kv_bytes_per_token_layer(&self, kv: KvDtype) -> u64 {
        kv.bytes()
            * match &self.attention {
                Attention::Grouped(a) => 2 * u64::from(a.kv_heads) * u64::from(a.head_dim),
                Attention::Latent(a) => a.cached_elements(),
            }
    }

    /// Bytes of KV cache of one token over all layers: what a transfer carries. Sliding-window layers count in full,
    /// as in engines that keep one block table for all layers.
    #[must_use]
    pub fn kv_bytes_per_token(&self, kv: KvDtype) -> u64 {
        self.kv_bytes_per_token_layer(kv) * u64::from(self.layers)
    }

    /// Bytes of KV cache of one token in one layer on one of `tp` ranks; heads are replicated where there are fewer
    /// than ranks, and every rank holds the whole latent of latent attention.
    #[must_use]
    pub fn kv_bytes_per_token_layer_rank(&self, kv: KvDtype, tp: u32) -> u64 {
        match &self.attention {
            Attention::Grouped(a) => {
                kv.bytes() * 2 * u64::from(a.kv_heads_per_rank(tp)) * u64::from(a.head_dim)
            }
            Attention::Latent(_) => self.kv_bytes_per_token_layer(kv),
        }
    }

    /// Floating-point operations per token of the linear layers, LM head included, attention scores not.
    #[must_use]
    pub fn linear_flops_per_token(&self) -> f64 {
        let embeddings = self.embedding_parameters()
            + if self.tied_embeddings {
                0
            } else {
                self.head_parameters()
            };
        2.0 * (self.active_parameters() - embeddings + self.head_parameters()) as f64
    }
}
