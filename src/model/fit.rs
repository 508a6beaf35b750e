//! What fits in the memory of an instance's GPUs.

use super::dtype::{KvDtype, WeightDtype};
use super::error::ModelError;
use super::spec::{Attention, ModelSpec, Parallelism};

/// The memory side of an instance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryPlan {
    /// Memory of one GPU in bytes.
    pub memory_bytes: u64,
    /// Share of it the engine may use.
    pub fraction: f64,
    /// Bytes per rank for activations and workspaces; see [`activation_estimate`].
    pub activation_bytes: u64,
    /// Format of the linear layers.
    pub weights: WeightDtype,
    /// Format of the KV cache.
    pub kv: KvDtype,
}

/// What is left for the KV cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KvCapacity {
    /// Tokens an instance can hold; with pipeline parallelism the fullest stage decides, with attention data
    /// parallelism all ranks together.
    pub tokens: u64,
    /// Weights on the fullest rank in bytes.
    pub weight_bytes: f64,
    /// KV bytes per token on the rank that decides.
    pub kv_bytes_per_token_rank: u64,
}

/// The model does not fit.
#[derive(Debug, Clone, PartialEq)]
pub enum DoesNotFit {
    /// The model cannot be cut that way.
    Shape(ModelError),
    /// Weights and activations leave no room for a single token.
    Memory {
        /// The model.
        model: String,
        /// The degrees asked for.
        parallelism: Parallelism,
        /// Needed on the fullest rank in bytes, without any KV cache.
        needed_bytes: f64,
        /// Allowed on a rank in bytes.
        allowed_bytes: f64,
        /// The smallest tensor-parallel degree (same pp) that leaves room for KV cache.
        fitting_tp: Option<u32>,
    },
}

impl std::fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const GIB: f64 = (1u64 << 30) as f64;
        match self {
            Self::Shape(e) => e.fmt(f),
            Self::Memory {
                model,
                parallelism: p,
                needed_bytes,
                allowed_bytes,
                fitting_tp,
            } => {
                write!(
                    f,
                    "{model} at tp {} pp {}{} does not fit: weights and activations need {:.1} GiB per GPU, {:.1} GiB are \
                     allowed, {:.1} GiB too much",
                    p.tp,
                    p.pp,
                    if p.dp > 1 {
                        format!(" dp {}", p.dp)
                    } else {
                        String::new()
                    },
                    needed_bytes / GIB,
                    allowed_bytes / GIB,
                    (needed_bytes - allowed_bytes) / GIB
                )?;
                match fitting_tp {
                    Some(tp) => write!(f, "; tp {tp} would fit"),
                    None => write!(
                        f,
                        "; no tp up to 64 would fit, raise pp or use fewer bits per weight"
                    ),
                }
            }
        }
    }
}

impl std::error::Error for DoesNotFit {}

/// Estimates the peak bytes of activations on one rank for steps of up to `step_tokens` tokens: residual, norm and
/// projection outputs plus the widest inner tensor at 16 bits, and 256 rows of logits at 32 bits. An estimate of what
/// an engine's own profiling run would find, not a measurement.
#[must_use]
pub fn activation_estimate(model: &ModelSpec, tp: u32, step_tokens: u32) -> u64 {
    let (hidden, tp) = (u64::from(model.hidden), u64::from(tp));
    let heads = u64::from(model.attention.heads())
        * match &model.attention {
            Attention::Grouped(a) => u64::from(a.head_dim),
            Attention::Latent(a) => a.qk_head_dim(),
        };
    let ffn = model.ffn.map_or(0, |f| u64::from(f.size));
    let moe = model
        .moe
        .map_or(0, |m| u64::from(m.top_k) * u64::from(m.size));
    let inner = 3 * heads.max(ffn).max(moe) / tp;
    u64::from(step_tokens) * 2 * (3 * hidden + inner) + 256 * u64::from(model.vocab) * 4
}

impl ModelSpec {
    /// Checks that the model can be cut into these degrees.
    ///
    /// # Errors
    /// When tp does not divide the heads, pp exceeds the layers, a dense model is to have dp or ep, or ep is neither 1 nor all ranks
    /// of a stage.
    pub fn check_parallelism(&self, p: Parallelism) -> Result<(), ModelError> {
        self.check_tp(p.tp)?;
        if p.pp == 0 || p.pp > self.layers {
            return Err(ModelError::BadPp {
                model: self.name.clone(),
                pp: p.pp,
                layers: self.layers,
            });
        }
        self.check_experts(p)
    }

    /// Ranks have equal shares of the heads; of key/value heads, too, or as many ranks hold a copy of each.
    fn check_tp(&self, tp: u32) -> Result<(), ModelError> {
        let heads = self.attention.heads();
        let kv_heads = match &self.attention {
            Attention::Grouped(a) => a.kv_heads,
            // The latent is on every rank.
            Attention::Latent(_) => 1,
        };
        let of_heads = |tp: u32| tp > 0 && heads.is_multiple_of(tp);
        let of_kv_heads = |tp: u32| kv_heads.is_multiple_of(tp) || tp.is_multiple_of(kv_heads);
        if of_heads(tp) && of_kv_heads(tp) {
            return Ok(());
        }
        let possible: Vec<String> = (1..=heads.min(64))
            .filter(|&tp| of_heads(tp) && of_kv_heads(tp))
            .map(|tp| tp.to_string())
            .collect();
        let (model, possible) = (self.name.clone(), possible.join(", "));
        Err(if of_heads(tp) {
            ModelError::BadKvTp {
                model,
                tp,
                kv_heads,
                possible,
            }
        } else {
            ModelError::BadTp {
                model,
                tp,
                heads,
                possible,
            }
        })
    }

    /// Checks the degrees that need experts.
    fn check_experts(&self, p: Parallelism) -> Result<(), ModelError> {
        let experts = self.moe.map_or(0, |m| m.experts);
        let model = || self.name.clone();
        if p.dp == 0 {
            return Err(ModelError::NoRanks { model: model() });
        }
        if p.dp > 1 && experts == 0 {
            return Err(ModelError::DenseDp {
                model: model(),
                dp: p.dp,
            });
        }
        let ranks = p.tp.saturating_mul(p.dp);
        let spread = experts > 0 && experts.is_multiple_of(ranks);
        if p.ep == 1 || (spread && p.ep == ranks) {
            return Ok(());
        }
        if experts == 0 {
            return Err(ModelError::DenseEp {
                model: model(),
                ep: p.ep,
            });
        }
        Err(ModelError::BadEp {
            model: model(),
            ep: p.ep,
            ranks,
            experts,
            allowed: if spread && ranks > 1 {
                format!("1 (experts cut like the rest) or {ranks} (whole experts on each rank)")
            } else {
                "1".to_owned()
            },
        })
    }

    /// Bytes of weights on one rank of pipeline stage `stage`.
    #[must_use]
    pub fn rank_weight_bytes(&self, stage: u32, p: Parallelism, weights: WeightDtype) -> f64 {
        let layers = self.stage_layers(stage, p.pp);
        let experts = self.expert_bytes(layers.clone(), weights);
        let rest = self.layer_bytes(layers, weights) - experts;
        let (first, last) = (stage == 0, stage + 1 == p.pp);
        let mut ends = 0.0;
        if first {
            ends += self.embedding_parameters() as f64 * 2.0;
        }
        // A tied head on another stage than the embedding is a copy.
        if last && !(self.tied_embeddings && first) {
            ends += self.head_parameters() as f64 * 2.0;
        }
        // Experts are cut over all ranks of the stage, by tensor or by expert; the rest is replicated over dp.
        let expert_ranks = f64::from(p.tp * p.dp);
        (rest + ends) / f64::from(p.tp) + experts / expert_ranks
    }
}

/// How many KV tokens an instance holds.
///
/// Per stage: (memory × fraction − weights − activations) / (bytes per token on a rank); the fullest stage decides.
///
/// # Errors
/// When the model cannot be cut so or does not fit: by how much, and which tp would.
pub fn kv_capacity(
    model: &ModelSpec,
    p: Parallelism,
    plan: &MemoryPlan,
) -> Result<KvCapacity, DoesNotFit> {
    model.check_parallelism(p).map_err(DoesNotFit::Shape)?;
    capacity(model, p, plan).map_err(|needed_bytes| {
        let fitting_tp = (p.tp + 1..=64).find(|&tp| {
            let ep = if p.ep > 1 { tp * p.dp } else { 1 };
            let wider = Parallelism { tp, ep, ..p };
            model.check_parallelism(wider).is_ok() && capacity(model, wider, plan).is_ok()
        });
        DoesNotFit::Memory {
            model: model.name.clone(),
            parallelism: p,
            needed_bytes,
            allowed_bytes: plan.memory_bytes as f64 * plan.fraction,
            fitting_tp,
        }
    })
}

/// The capacity, or the bytes needed on the fullest rank when there is no room for a token.
fn capacity(model: &ModelSpec, p: Parallelism, plan: &MemoryPlan) -> Result<KvCapacity, f64> {
    let allowed = plan.memory_bytes as f64 * plan.fraction;
    let per_layer = model.kv_bytes_per_token_layer_rank(plan.kv, p.tp);
    let mut fullest: Option<KvCapacity> = None;
    let mut most_needed = 0.0f64;
    for stage in 0..p.pp {
        let weight_bytes = model.rank_weight_bytes(stage, p, plan.weights);
        let needed = weight_bytes + plan.activation_bytes as f64;
        most_needed = most_needed.max(needed);
        let kv_bytes_per_token_rank = per_layer * model.stage_layers(stage, p.pp).len() as u64;
        let room = (allowed - needed) / kv_bytes_per_token_rank as f64 * f64::from(p.dp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "negative room saturates to zero, which means no token fits"
        )]
        let tokens = room as u64;
        if fullest.is_none_or(|f| tokens < f.tokens) {
            fullest = Some(KvCapacity {
                tokens,
                weight_bytes,
                kv_bytes_per_token_rank,
            });
        }
    }
    fullest.filter(|f| f.tokens > 0).ok_or(most_needed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::model;

    fn plan(gib: u64) -> MemoryPlan {
        MemoryPlan {
            memory_bytes: gib << 30,
            fraction: 0.9,
            activation_bytes: 0,
            weights: WeightDtype::Bf16,
            kv: KvDtype::Bf16,
        }
    }

    #[test]
    fn opt_13b_on_80_gib_matches_a_hand_computation() {
        let spec = model("opt-13b").unwrap();
        let fit = kv_capacity(&spec, Parallelism::SINGLE, &plan(80)).unwrap();
        let room = 0.9 * (80u64 << 30) as f64 - 2.0 * spec.parameters() as f64;
        let by_hand = (room / (2.0 * 5120.0 * 40.0 * 2.0)).floor();
        assert!((fit.tokens as f64 - by_hand).abs() <= 1.0, "{fit:?}");
    }

    #[test]
    fn a_model_too_large_says_by_how_much_and_what_would_fit() {
        let spec = model("llama-3.1-70b").unwrap();
        let error = kv_capacity(&spec, Parallelism::SINGLE, &plan(80)).unwrap_err();
        let DoesNotFit::Memory { fitting_tp, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(*fitting_tp, Some(2));
        let message = error.to_string();
        assert!(
            message.contains("59.4 GiB too much; tp 2 would fit"),
            "{message}"
        );
    }

    #[test]
    fn no_ranks_are_told_from_no_experts() {
        let refused = |name: &str, dp| {
            let cut = Parallelism {
                dp,
                ..Parallelism::SINGLE
            };
            let error = model(name).unwrap().check_parallelism(cut).unwrap_err();
            error.to_string()
        };
        let uneven = model("qwen2.5-7b").unwrap().check_tp(7).unwrap_err();
        assert_eq!(
            uneven.to_string(),
            "tp 7 and the 4 key/value heads of qwen2.5-7b do not divide one another, so ranks would be unequal; possible: 1, 2, 4, 28"
        );
        assert!(
            model("glm-4.5").unwrap().check_tp(12).is_err(),
            "8 key/value heads"
        );
        assert!(model("qwen2.5-7b").unwrap().check_tp(4).is_ok());
        assert_eq!(
            refused("deepseek-v3", 0),
            "dp 0 leaves deepseek-v3 no ranks; expected at least 1"
        );
        assert_eq!(
            refused("llama-3.1-8b", 2),
            "dp 2 needs a mixture of experts, and llama-3.1-8b has none; give it more instances instead"
        );
    }

    #[test]
    fn the_fullest_stage_decides() {
        let spec = model("llama-3.1-8b").unwrap();
        let one = kv_capacity(&spec, Parallelism::new(1, 1), &plan(24)).unwrap();
        let three = kv_capacity(&spec, Parallelism::new(1, 3), &plan(24)).unwrap();
        // Stages of 11, 11 and 10 layers: a stage holds at most 11/32 of a token's bytes.
        assert_eq!(
            three.kv_bytes_per_token_rank * 32,
            one.kv_bytes_per_token_rank * 11
        );
        assert!(three.tokens > 3 * one.tokens);
    }

    #[test]
    fn replicated_heads_do_not_shrink_below_one() {
        let spec = model("qwen2.5-7b").unwrap();
        let bytes = |tp| spec.kv_bytes_per_token_layer_rank(KvDtype::Bf16, tp);
        assert_eq!(bytes(4), bytes(7));
        assert_eq!(bytes(1), 4 * bytes(4));
    }

    #[test]
    fn ranks_of_data_parallel_attention_hold_all_but_experts_and_their_own_tokens() {
        let spec = model("deepseek-v3").unwrap();
        let plan = MemoryPlan {
            weights: WeightDtype::Fp8Block,
            ..plan(141)
        };
        let cut = |tp, dp| Parallelism {
            ep: 8,
            dp,
            ..Parallelism::new(tp, 1)
        };
        let (tensor, data) = (
            kv_capacity(&spec, cut(8, 1), &plan).unwrap(),
            kv_capacity(&spec, cut(1, 8), &plan).unwrap(),
        );
        // Experts are an eighth of the whole either way; the other 17 GB are on every rank.
        let experts = spec.expert_bytes(0..61, WeightDtype::Fp8Block);
        let others = spec.weight_bytes(WeightDtype::Fp8Block) - experts;
        let more = data.weight_bytes - tensor.weight_bytes;
        assert!(
            (more / others - 7.0 / 8.0).abs() < 0.01,
            "{more} of {others}"
        );
        // Every tensor-parallel rank holds the latent of every token.
        assert_eq!(data.kv_bytes_per_token_rank, tensor.kv_bytes_per_token_rank);
        assert!(data.tokens > 5 * tensor.tokens, "{data:?} {tensor:?}");
    }

    #[test]
    fn spreads_of_experts_that_do_not_work_say_which_do() {
        let told = |name: &str, tp, dp, ep| {
            let p = Parallelism {
                dp,
                ep,
                ..Parallelism::new(tp, 1)
            };
            model(name)
                .unwrap()
                .check_parallelism(p)
                .map_err(|e| e.to_string())
        };
        assert_eq!(told("deepseek-v3", 2, 8, 16), Ok(()));
        assert_eq!(told("deepseek-v3", 2, 8, 1), Ok(()));
        let wrong = told("deepseek-v3", 2, 8, 8).unwrap_err();
        assert!(
            wrong.contains(
                "ep 8 is not possible: deepseek-v3 has 256 experts, a stage has 16 ranks"
            ),
            "{wrong}"
        );
        assert!(
            wrong.ends_with(
                "allowed: 1 (experts cut like the rest) or 16 (whole experts on each rank)"
            ),
            "{wrong}"
        );
        assert!(
            told("mixtral-8x7b", 1, 16, 16)
                .unwrap_err()
                .ends_with("allowed: 1")
        );
        let dense = told("llama-3.1-8b", 1, 2, 1).unwrap_err();
        assert!(
            dense.contains("dp 2 needs a mixture of experts") && dense.contains("more instances"),
            "{dense}"
        );
        assert!(
            told("llama-3.1-8b", 2, 1, 2)
                .unwrap_err()
                .contains("ep 2 needs a mixture of experts, and llama-3.1-8b has none")
        );
    }

    #[test]
    fn degrees_that_do_not_divide_the_heads_are_refused() {
        let spec = model("opt-13b").unwrap();
        let message = kv_capacity(&spec, Parallelism::new(3, 1), &plan(80))
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("tp 3 does not divide the 40 attention heads"),
            "{message}"
        );
    }
}
