//! The file format of a model description.

use serde::{Deserialize, Serialize};

use super::dtype::WeightDtype;
use super::error::ModelError;
use super::spec::{
    Attention, Bias, Ffn, GroupedAttention, LatentAttention, ModelSpec, Moe, Window,
};

/// Newest model format this build reads and the one it writes.
pub(super) const FORMAT: u32 = 1;

/// A model description as written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFile {
    pub format: u32,
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_parameters: Option<f64>,
    pub layers: u32,
    pub hidden: u32,
    pub vocab: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub tied_embeddings: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub learned_positions: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm_bias: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_weights: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention: Option<GroupedSection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mla: Option<LatentSection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn: Option<FfnSection>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moe: Option<MoeSection>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupedSection {
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<BiasName>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub qk_norm: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowSection>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BiasName {
    Qkv,
    All,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowSection {
    pub tokens: u32,
    pub layers: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LatentSection {
    pub heads: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_lora_rank: Option<u32>,
    pub kv_lora_rank: u32,
    pub qk_nope_head_dim: u32,
    pub qk_rope_head_dim: u32,
    pub v_head_dim: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FfnSection {
    pub size: u32,
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub gated: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub bias: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MoeSection {
    pub experts: u32,
    pub top_k: u32,
    pub size: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared_size: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_dense_layers: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub every: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub bias: bool,
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
const fn is_yes(x: &bool) -> bool {
    *x
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
const fn is_one(x: &u32) -> bool {
    *x == 1
}

fn is_default<T: Default + PartialEq>(x: &T) -> bool {
    *x == T::default()
}

impl ModelFile {
    /// Parses a description; `path` names it in messages.
    pub(super) fn parse(text: &str, path: &str) -> Result<Self, ModelError> {
        let deserializer = serde_yaml::Deserializer::from_str(text);
        serde_path_to_error::deserialize(deserializer).map_err(|e| ModelError::Parse {
            path: path.to_owned(),
            reason: format!("{}: {}", e.path(), e.inner()),
        })
    }

    /// Validates and resolves.
    pub(super) fn resolve(self, path: &str) -> Result<ModelSpec, ModelError> {
        let bad = |key, value: String, allowed: String| ModelError::BadValue {
            path: path.to_owned(),
            key,
            value,
            allowed,
        };
        if self.format > FORMAT {
            let allowed =
                format!("this pdsim reads formats up to {FORMAT}; a newer pdsim wrote the file");
            return Err(bad("format", self.format.to_string(), allowed));
        }
        let native_weights = match &self.native_weights {
            None => WeightDtype::Bf16,
            Some(name) => WeightDtype::from_name(name).ok_or_else(|| {
                let all = WeightDtype::ALL.map(WeightDtype::name).join(", ");
                bad(
                    "native_weights",
                    format!("`{name}`"),
                    format!("it is one of {all}"),
                )
            })?,
        };
        let spec = ModelSpec {
            attention: self.attention(path)?,
            name: self.name,
            source: self.source,
            published_parameters: self.published_parameters,
            layers: self.layers,
            hidden: self.hidden,
            vocab: self.vocab,
            tied_embeddings: self.tied_embeddings,
            learned_positions: self.learned_positions,
            norm_bias: self.norm_bias,
            native_weights,
            ffn: self.ffn.map(|f| Ffn {
                size: f.size,
                gated: f.gated,
                bias: f.bias,
            }),
            moe: self.moe.map(|m| Moe {
                experts: m.experts,
                top_k: m.top_k,
                size: m.size,
                shared_size: m.shared_size,
                first_dense_layers: m.first_dense_layers,
                every: m.every,
                bias: m.bias,
            }),
        };
        spec.validate(path)?;
        Ok(spec)
    }

    fn attention(&self, path: &str) -> Result<Attention, ModelError> {
        match (&self.attention, &self.mla) {
            (Some(a), None) => Ok(Attention::Grouped(GroupedAttention {
                heads: a.heads,
                kv_heads: a.kv_heads,
                head_dim: a.head_dim,
                bias: match a.bias {
                    None => Bias::None,
                    Some(BiasName::Qkv) => Bias::Qkv,
                    Some(BiasName::All) => Bias::All,
                },
                qk_norm: a.qk_norm,
                window: a.window.as_ref().map(|w| Window {
                    tokens: w.tokens,
                    layers: w.layers,
                }),
            })),
            (None, Some(m)) => Ok(Attention::Latent(LatentAttention {
                heads: m.heads,
                q_lora_rank: m.q_lora_rank,
                kv_lora_rank: m.kv_lora_rank,
                qk_nope_head_dim: m.qk_nope_head_dim,
                qk_rope_head_dim: m.qk_rope_head_dim,
                v_head_dim: m.v_head_dim,
            })),
            (None, None) => Err(ModelError::Parse {
                path: path.to_owned(),
                reason: "one of `attention` and `mla` is needed".to_owned(),
            }),
            (Some(_), Some(_)) => Err(ModelError::Parse {
                path: path.to_owned(),
                reason: "only one of `attention` and `mla` is allowed".to_owned(),
            }),
        }
    }
}

impl ModelSpec {
    fn validate(&self, path: &str) -> Result<(), ModelError> {
        let bad = |key, value: u32, allowed: &str| {
            Err(ModelError::BadValue {
                path: path.to_owned(),
                key,
                value: value.to_string(),
                allowed: allowed.to_owned(),
            })
        };
        for (key, value) in self.positive_values() {
            if value == 0 || value > 1 << 24 {
                return bad(key, value, "it must be at least 1 and at most 16777216");
            }
        }
        if let Attention::Grouped(a) = &self.attention {
            if a.heads % a.kv_heads != 0 {
                return bad(
                    "attention.kv_heads",
                    a.kv_heads,
                    "it must divide attention.heads",
                );
            }
            if let Some(w) = a.window
                && (w.layers > self.layers || w.tokens == 0)
            {
                return bad(
                    "attention.window.layers",
                    w.layers,
                    "at most `layers`, with tokens above zero",
                );
            }
        }
        self.validate_blocks(path)
    }

    /// Key and value of all sizes that must be above zero.
    fn positive_values(&self) -> Vec<(&'static str, u32)> {
        let mut positive = vec![
            ("layers", self.layers),
            ("hidden", self.hidden),
            ("vocab", self.vocab),
        ];
        match &self.attention {
            Attention::Grouped(a) => positive.extend([
                ("attention.heads", a.heads),
                ("attention.kv_heads", a.kv_heads),
                ("attention.head_dim", a.head_dim),
            ]),
            Attention::Latent(a) => positive.extend([
                ("mla.heads", a.heads),
                ("mla.kv_lora_rank", a.kv_lora_rank),
                ("mla.qk_nope_head_dim", a.qk_nope_head_dim),
                ("mla.qk_rope_head_dim", a.qk_rope_head_dim),
                ("mla.v_head_dim", a.v_head_dim),
            ]),
        }
        if let Some(m) = &self.moe {
            positive.extend([
                ("moe.experts", m.experts),
                ("moe.top_k", m.top_k),
                ("moe.size", m.size),
                ("moe.every", m.every),
            ]);
        }
        if let Some(f) = &self.ffn {
            positive.push(("ffn.size", f.size));
        }
        positive
    }

    fn validate_blocks(&self, path: &str) -> Result<(), ModelError> {
        if let Some(m) = &self.moe
            && m.top_k > m.experts
        {
            return Err(ModelError::BadValue {
                path: path.to_owned(),
                key: "moe.top_k",
                value: m.top_k.to_string(),
                allowed: format!("at most moe.experts ({})", m.experts),
            });
        }
        let dense = (0..self.layers).any(|l| !self.is_moe_layer(l));
        if dense && self.ffn.is_none() {
            return Err(ModelError::Parse {
                path: path.to_owned(),
                reason: "`ffn` is needed: some layers are not a mixture of experts".to_owned(),
            });
        }
        Ok(())
    }
}
