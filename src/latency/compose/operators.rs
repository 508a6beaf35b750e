//! The list of kernels of a step: one place for their order, shapes and counts.

use super::super::Chunk;
use super::super::kernels::{
    Collective, CollectiveKind, Dispatch, Experts, Gemm, HeadLayout, Kernels, LatentLayout, Timed,
};
use super::Formats;
use super::prompts::Prompts;
use crate::model::{
    Attention, Ffn, GroupedAttention, LatentAttention, ModelSpec, Moe, Parallelism, WeightDtype,
};

/// Bytes of an activation element.
const ACTIVATION: f64 = 2.0;

/// Name of the engine's time in a breakdown.
const ENGINE: &str = "engine overhead";

/// One kind of kernel in a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// What it is: `qkv`, `decode attention`, …
    pub name: &'static str,
    /// How often it runs; fractional where layers of a kind are spread over stages.
    pub count: f64,
    /// Time of one.
    pub each: Timed,
    /// Floating-point operations of one.
    pub flops: f64,
    /// Bytes read and written by one; for collectives, of the message.
    pub bytes: f64,
}

impl Operator {
    /// Seconds of all of them.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.count * self.each.seconds
    }

    /// Whether this is the engine's time, not a kernel's.
    #[must_use]
    pub fn is_engine(&self) -> bool {
        self.name == ENGINE
    }

    /// Engine overhead.
    pub(super) const fn cpu(seconds: f64) -> Self {
        Self {
            name: ENGINE,
            count: 1.0,
            each: Timed::unmeasured(seconds),
            flops: 0.0,
            bytes: 0.0,
        }
    }
}

/// Seconds of a list.
pub(super) fn total(operators: &[Operator]) -> f64 {
    operators.iter().map(Operator::seconds).sum()
}

/// How many layers of each kind a stage has.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerCounts {
    /// With a dense feed-forward block.
    pub dense: f64,
    /// With a mixture of experts.
    pub moe: f64,
    /// Attending to everything.
    pub full: f64,
    /// Attending to a window.
    pub windowed: f64,
}

/// The kernels of a model on one GPU type.
#[derive(Debug)]
pub(super) struct Operators<K> {
    pub(super) model: ModelSpec,
    pub(super) kernels: K,
    pub(super) p: Parallelism,
    pub(super) formats: Formats,
    pub(super) layers: Vec<LayerCounts>,
    /// Prompts in layers of the full layout (or the latent one) and in those of the windowed one.
    pub(super) prompts: [Option<Prompts>; 2],
}

impl<K: Kernels> Operators<K> {
    pub(super) fn new(model: ModelSpec, kernels: K, p: Parallelism, formats: Formats) -> Self {
        let layers = (0..p.pp).map(|s| count_layers(&model, s, p.pp)).collect();
        let mut operators = Self {
            model,
            kernels,
            p,
            formats,
            layers,
            prompts: [None, None],
        };
        operators.tabulate_prompts();
        operators
    }

    /// Sequences on one of the attention data-parallel ranks.
    pub(super) fn rank_rows(&self, rows: u64) -> u64 {
        rows.div_ceil(u64::from(self.p.dp))
    }

    /// Tokens on the fullest of those ranks.
    pub(super) fn rank_tokens(&self, chunks: &[Chunk], decodes: u32) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sums of whole numbers far below 2^53"
        )]
        let prompts = self.on_fullest(chunks, |chunk| f64::from(chunk.new)) as u64;
        prompts + self.rank_rows(u64::from(decodes))
    }

    fn gemm(&self, name: &'static str, count: f64, m: u64, n: u64, k: u64) -> Operator {
        self.gemm_in(self.formats.weights, name, count, m, n, k)
    }

    fn gemm_in(
        &self,
        format: WeightDtype,
        name: &'static str,
        count: f64,
        m: u64,
        n: u64,
        k: u64,
    ) -> Operator {
        // MXFP4 covers the experts alone.
        let format = if format == WeightDtype::Mxfp4 {
            WeightDtype::Bf16
        } else {
            format
        };
        let gemm = Gemm { format, m, n, k };
        Operator {
            name,
            count,
            each: self.kernels.gemm(gemm),
            flops: gemm.flops(),
            bytes: gemm.bytes(),
        }
    }

    fn elementwise(&self, name: &'static str, count: f64, bytes: f64) -> Operator {
        Operator {
            name,
            count,
            each: self.kernels.elementwise(bytes),
            flops: 0.0,
            bytes,
        }
    }

    fn collective(
        &self,
        name: &'static str,
        count: f64,
        kind: CollectiveKind,
        bytes: f64,
        ranks: u32,
    ) -> Operator {
        let collective = Collective { kind, bytes, ranks };
        Operator {
            name,
            count,
            each: self.kernels.collective(collective),
            flops: 0.0,
            bytes,
        }
    }

    /// Routed experts of the layers of stage `index` for a step of `m` tokens on all ranks.
    pub(super) fn experts_part(&self, m: u64, index: u32) -> Option<Operator> {
        let count = self.layers[index as usize].moe;
        let moe = self.model.moe.filter(|_| m > 0 && count > 0.0)?;
        let experts = Experts {
            format: self.formats.weights,
            tokens: m,
            hidden: self.model.hidden,
            size: moe.size,
            top_k: moe.top_k,
            experts: moe.experts,
            tp: if self.p.ep > 1 {
                1
            } else {
                self.p.tp * self.p.dp
            },
            ep: self.p.ep,
        };
        Some(Operator {
            name: "experts",
            count,
            each: self.kernels.experts(&experts),
            flops: experts.flops(),
            bytes: experts.bytes(),
        })
    }

    /// Linears, collectives and elementwise kernels of the layers of stage `index` for a step with `rank_m` tokens on the
    /// fullest attention data-parallel rank; all but the routed experts.
    pub(super) fn token_part(&self, rank_m: u64, index: u32) -> Vec<Operator> {
        if rank_m == 0 {
            return Vec::new();
        }
        let c = self.layers[index as usize];
        let all = c.dense + c.moe;
        let mut ops = match &self.model.attention {
            Attention::Grouped(a) => self.grouped_linears(a, all, rank_m),
            Attention::Latent(a) => self.latent_linears(a, all, rank_m),
        };
        let hidden = f64::from(self.model.hidden);
        let rows = rank_m as f64;
        // Two norms with residual additions: read and write the residual and the normed copy.
        ops.push(self.elementwise("norms", 2.0 * all, rows * hidden * 4.0 * ACTIVATION));
        if self.p.tp > 1 {
            let bytes = rows * hidden * ACTIVATION;
            let per_layer = if self.moe_reduces() {
                c.dense + c.moe
            } else {
                c.dense
            };
            let count = all + per_layer;
            ops.push(self.collective(
                "all-reduce",
                count,
                CollectiveKind::AllReduce,
                bytes,
                self.p.tp,
            ));
        }
        if let Some(ffn) = self.model.ffn
            && c.dense > 0.0
        {
            ops.extend(self.dense_block(ffn, c.dense, rank_m));
        }
        if let Some(moe) = self.model.moe
            && c.moe > 0.0
        {
            ops.extend(self.moe_block(moe, c.moe, rank_m));
        }
        ops
    }

    /// Whether experts end in an all-reduce of the tensor-parallel group and not in the return of dispatched tokens.
    const fn moe_reduces(&self) -> bool {
        self.p.dp == 1 || self.p.ep == 1
    }

    /// The way of the tokens to the routed experts of other ranks and back, where sequences are on ranks of their own.
    fn moe_exchange(&self, moe: Moe, count: f64, rank_m: u64) -> Vec<Operator> {
        let (tp, dp) = (self.p.tp, self.p.dp);
        if dp == 1 {
            return Vec::new();
        }
        if self.p.ep == 1 {
            // A part of every expert is on every rank, so that each needs all tokens and has a part of all sums. Among
            // the `dp` GPUs with the same part of the attention; the all-reduce over `tp` does the rest of the sum. Ranks
            // with fewer tokens are filled up to the fullest, as collectives take equal parts.
            let hidden = f64::from(self.model.hidden);
            let bytes = f64::from(dp) * rank_m as f64 * hidden * ACTIVATION;
            let (gather, scatter) = (CollectiveKind::AllGather, CollectiveKind::ReduceScatter);
            return vec![
                self.collective("expert all-gather", count, gather, bytes, dp),
                self.collective("expert reduce-scatter", count, scatter, bytes, dp),
            ];
        }
        // Every rank sends its share of the tokens to the ranks of their experts and gets the results back.
        let dispatch = Dispatch {
            tokens: rank_m.div_ceil(u64::from(tp)),
            hidden: self.model.hidden,
            top_k: moe.top_k,
            ranks: tp * dp,
        };
        vec![Operator {
            name: "expert dispatch and combine",
            count,
            each: self.kernels.dispatch(dispatch),
            flops: 0.0,
            bytes: dispatch.bytes(),
        }]
    }

    fn grouped_linears(&self, a: &GroupedAttention, count: f64, m: u64) -> Vec<Operator> {
        let hidden = u64::from(self.model.hidden);
        let out = u64::from(a.heads / self.p.tp) * u64::from(a.head_dim);
        let rotary = m as f64 * a.qkv_columns(self.p.tp) as f64 * 2.0 * ACTIVATION;
        vec![
            self.gemm("qkv", count, m, a.qkv_columns(self.p.tp), hidden),
            self.elementwise("rotary and cache write", count, rotary),
            self.gemm("attention output", count, m, hidden, out),
        ]
    }

    fn latent_linears(&self, a: &LatentAttention, count: f64, m: u64) -> Vec<Operator> {
        let hidden = u64::from(self.model.hidden);
        let heads = u64::from(a.heads / self.p.tp);
        let rank = a.q_lora_rank.map_or(0, u64::from);
        let q_columns = heads * a.qk_head_dim();
        let down = rank + a.cached_elements();
        let mut ops = Vec::new();
        if rank > 0 {
            ops.push(self.gemm("query and latent down", count, m, down, hidden));
            ops.push(self.gemm("query up", count, m, q_columns, rank));
        } else {
            ops.push(self.gemm("query", count, m, q_columns, hidden));
            ops.push(self.gemm("latent down", count, m, down, hidden));
        }
        let unfold = u64::from(a.qk_nope_head_dim + a.v_head_dim);
        // Prefill unfolds the latent to keys and values; decode folds the same matrices into query and output
        // instead: equal work per token.
        ops.push(self.gemm_in(
            WeightDtype::Bf16,
            "latent up",
            count,
            m,
            heads * unfold,
            u64::from(a.kv_lora_rank),
        ));
        ops.push(self.elementwise(
            "rotary and cache write",
            count,
            m as f64 * (q_columns + down) as f64 * 2.0 * ACTIVATION,
        ));
        ops.push(self.gemm(
            "attention output",
            count,
            m,
            hidden,
            heads * u64::from(a.v_head_dim),
        ));
        ops
    }

    fn dense_block(&self, ffn: Ffn, count: f64, m: u64) -> Vec<Operator> {
        let hidden = u64::from(self.model.hidden);
        let size = u64::from(ffn.size).div_ceil(u64::from(self.p.tp));
        let columns = if ffn.gated { 2 * size } else { size };
        let name = if ffn.gated { "gate and up" } else { "up" };
        vec![
            self.gemm(name, count, m, columns, hidden),
            self.elementwise(
                "activation",
                count,
                m as f64 * (columns + size) as f64 * ACTIVATION,
            ),
            self.gemm("down", count, m, hidden, size),
        ]
    }

    /// What surrounds the routed experts.
    fn moe_block(&self, moe: Moe, count: f64, rank_m: u64) -> Vec<Operator> {
        let hidden = u64::from(self.model.hidden);
        let mut ops = vec![self.gemm_in(
            WeightDtype::Bf16,
            "router",
            count,
            rank_m,
            u64::from(moe.experts),
            hidden,
        )];
        ops.extend(self.moe_exchange(moe, count, rank_m));
        if moe.shared_size > 0 {
            let shared = Ffn {
                size: moe.shared_size,
                gated: true,
                bias: false,
            };
            let mut block = self.dense_block(shared, count, rank_m);
            block[0].name = "shared gate and up";
            block[1].name = "shared activation";
            block[2].name = "shared down";
            ops.extend(block);
        }
        ops
    }

    /// Embedding on the first stage and the way of the activations to the next stage on all but the last.
    pub(super) fn ends(&self, rank_m: u64, index: u32) -> Vec<Operator> {
        let mut ops = Vec::new();
        if rank_m == 0 {
            return ops;
        }
        let bytes = rank_m as f64 * f64::from(self.model.hidden) * ACTIVATION;
        if index == 0 {
            ops.push(self.elementwise("embedding", 1.0, 2.0 * bytes));
        }
        if index + 1 < self.p.pp {
            let kind = CollectiveKind::SendRecv;
            ops.push(self.collective("send to next stage", 1.0, kind, bytes, 2));
        }
        ops
    }

    /// LM head of `rows` sampled rows on the last stage.
    pub(super) fn head(&self, rows: u64, index: u32) -> Vec<Operator> {
        if rows == 0 || index + 1 < self.p.pp {
            return Vec::new();
        }
        let columns = u64::from(self.model.vocab).div_ceil(u64::from(self.p.tp));
        let rows = self.rank_rows(rows);
        let hidden = u64::from(self.model.hidden);
        let mut ops = vec![self.gemm_in(WeightDtype::Bf16, "lm head", 1.0, rows, columns, hidden)];
        if self.p.tp > 1 {
            let bytes = rows as f64 * f64::from(self.model.vocab) * ACTIVATION;
            let kind = CollectiveKind::AllGather;
            ops.push(self.collective("gather logits", 1.0, kind, bytes, self.p.tp));
        }
        ops
    }

    /// The layouts of grouped attention on one rank: full and windowed.
    pub(super) fn layout(&self, a: &GroupedAttention, windowed: bool) -> HeadLayout {
        HeadLayout {
            heads: a.heads / self.p.tp,
            kv_heads: a.kv_heads_per_rank(self.p.tp),
            head_dim: a.head_dim,
            kv: self.formats.kv,
            window: a.window.filter(|_| windowed).map(|w| w.tokens),
        }
    }

    /// The layout of latent attention on one rank.
    pub(super) fn latent_layout(&self, a: &LatentAttention) -> LatentLayout {
        LatentLayout {
            heads: a.heads / self.p.tp,
            kv_lora_rank: a.kv_lora_rank,
            rope_dim: a.qk_rope_head_dim,
            qk_head_dim: a.qk_nope_head_dim + a.qk_rope_head_dim,
            v_head_dim: a.v_head_dim,
            kv: self.formats.kv,
        }
    }
}

/// Counts the layers of a stage by kind; windowed layers are taken as evenly spread over the model.
fn count_layers(model: &ModelSpec, stage: u32, pp: u32) -> LayerCounts {
    let range = model.stage_layers(stage, pp);
    let all = range.len() as f64;
    let moe = range.filter(|&l| model.is_moe_layer(l)).count() as f64;
    let share = match &model.attention {
        Attention::Grouped(a) => a
            .window
            .map_or(0.0, |w| f64::from(w.layers) / f64::from(model.layers)),
        Attention::Latent(_) => 0.0,
    };
    LayerCounts {
        dense: all - moe,
        moe,
        full: all * (1.0 - share),
        windowed: all * share,
    }
}
