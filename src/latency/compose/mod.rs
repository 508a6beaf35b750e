//! Composes a step of a transformer from its kernels.
//!
//! ```text
//! t = overhead(m, sequences of a rank)
//!   + Σ layers of the stage [ linears(m) + exchanges(m) + elementwise(m)        tabulated in m
//!                           + experts(M)                                        tabulated in M
//!                           + prefill_attention(chunks)                         causal, with past; from tables
//!                           + decode_attention(n, K) ]                          a piecewise-linear curve in K
//!   + embedding(m) on the first stage, LM head(sampled rows) on the last, activations to the next stage between
//! ```
//!
//! M = new prompt tokens + decoding sequences; m = those on the fullest attention data-parallel rank, M where `dp` is 1.
//! Of the ranks the slowest counts, part by part, as they meet at every layer: decodes are spread evenly, chunks are dealt
//! by their tokens for the linears and by their time for attention.
//!
//! Not modelled: imbalance of contexts within a decode batch (n sequences with K tokens in all are taken as equal),
//! sequences that stay with a rank, overlap of kernels on different streams, sampling time beyond the engine overhead.

mod attention;
mod operators;
mod overhead;
mod prompts;
mod stage;

pub use operators::Operator;
pub use overhead::Overhead;

use std::sync::{Arc, OnceLock};

use super::kernels::Kernels;
use super::share::{SharedKernels, Slowdown, share_kernels};
use super::{DecodeCurve, LatencyError, LatencyModel, Segment, Stage, StepShape};
use crate::model::{KvDtype, ModelSpec, Parallelism, WeightDtype};
use crate::units::{Fine, SimDuration};
use operators::Operators;
use stage::StageCost;

/// Steps with up to this many tokens are tabulated; larger ones are evaluated kernel by kernel.
const TABLE: usize = 4096;

/// Batches up to this size keep their attention curve once it was asked for.
const CURVES: usize = 1024;

/// Number formats of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Linear layers.
    pub weights: WeightDtype,
    /// KV cache.
    pub kv: KvDtype,
}

impl Formats {
    /// 16 bits throughout.
    pub const BF16: Self = Self {
        weights: WeightDtype::Bf16,
        kv: KvDtype::Bf16,
    };
}

/// A step-time model composed from the kernels of one GPU type.
#[derive(Debug)]
pub struct Composed<K> {
    operators: Operators<K>,
    overhead: Overhead,
    stages: Vec<StageCost>,
    /// Attention of decodes by stage and batch size, filled when first asked for.
    curves: Vec<Box<[OnceLock<DecodeCurve>]>>,
}

impl<K: Kernels> Composed<K> {
    /// Composes the steps of `model` over `parallelism`.
    ///
    /// # Errors
    /// When the model cannot be cut so.
    pub fn new(
        model: &ModelSpec,
        kernels: K,
        parallelism: Parallelism,
        formats: Formats,
        overhead: Overhead,
    ) -> Result<Self, LatencyError> {
        model.check_parallelism(parallelism)?;
        let operators = Operators::new(model.clone(), kernels, parallelism, formats);
        let stages: Vec<StageCost> = (0..parallelism.pp)
            .map(|index| StageCost::new(index, parallelism.dp > 1))
            .collect();
        let curves = stages
            .iter()
            .map(|_| (0..=CURVES).map(|_| OnceLock::new()).collect())
            .collect();
        Ok(Self {
            operators,
            overhead,
            stages,
            curves,
        })
    }

    /// The kernels of one step on one stage with their times, engine overhead included as an operator of its own.
    #[must_use]
    pub fn operators(&self, shape: &StepShape<'_>, stage: Stage) -> Vec<Operator> {
        let (tokens, on_rank) = self.tokens(shape);
        let mut all = self.operators.token_part(on_rank, stage.index);
        all.extend(self.operators.experts_part(tokens, stage.index));
        all.extend(self.operators.ends(on_rank, stage.index));
        all.extend(self.operators.head(rows(shape), stage.index));
        all.extend(self.operators.prefill(shape.chunks, stage.index));
        if shape.decodes > 0 {
            all.extend(
                self.operators
                    .decode(shape.decodes, shape.context as f64, stage.index),
            );
        }
        all.push(Operator::cpu(self.engine(shape, on_rank, stage)));
        all
    }

    /// Engine seconds of the step on the fullest rank, where `on_rank` tokens are: each rank has an engine of its own.
    fn engine(&self, shape: &StepShape<'_>, on_rank: u64, stage: Stage) -> f64 {
        let [decodes, chunks] = [u64::from(shape.decodes), shape.chunks.len() as u64]
            .map(|sequences| self.operators.rank_rows(sequences));
        self.overhead.seconds(stage, on_rank, decodes + chunks)
    }

    /// Time of a decode-only step of `batch` sequences without attention.
    fn decode_base(&self, batch: u32, stage: Stage) -> Fine {
        let shape = StepShape {
            chunks: &[],
            decodes: batch,
            context: 0,
        };
        let (tokens, rows) = (self.tokens(&shape), u64::from(batch));
        Fine::from_secs_f64(
            self.stages[stage.index as usize].seconds(&self.operators, tokens, rows)
                + self.engine(&shape, tokens.1, stage),
        )
    }

    /// Applies `f` to the attention time of `batch` sequences as a curve of their total context.
    fn with_attention<T>(&self, batch: u32, stage: Stage, f: impl FnOnce(&DecodeCurve) -> T) -> T {
        let make = || {
            let at = |k: u64| {
                let seconds = self.operators.decode_seconds(batch, k as f64, stage.index);
                Fine::from_secs_f64(seconds)
            };
            interpolant(&self.operators.decode_knots(batch), at)
        };
        match self.curves[stage.index as usize].get(batch as usize) {
            Some(slot) => f(slot.get_or_init(make)),
            None => f(&make()),
        }
    }

    /// Prompt tokens and decoding sequences of a step, and those of them on the fullest attention data-parallel rank.
    fn tokens(&self, shape: &StepShape<'_>) -> (u64, u64) {
        let tokens = shape.prefill_tokens() + u64::from(shape.decodes);
        if self.operators.p.dp == 1 {
            return (tokens, tokens);
        }
        let on_rank = self.operators.rank_tokens(shape.chunks, shape.decodes);
        (tokens, on_rank)
    }

    fn attention(&self, batch: u32, context: u64, stage: Stage) -> Fine {
        self.with_attention(batch, stage, |curve| curve.at(context))
    }
}

/// Rows of the LM head: every decoding sequence and every finished prompt.
fn rows(shape: &StepShape<'_>) -> u64 {
    let finished = shape.chunks.iter().filter(|c| c.last).count();
    u64::from(shape.decodes) + finished as u64
}

/// The piecewise-linear interpolant of a non-decreasing function at `knots` (at least two, the first 0).
fn interpolant(knots: &[u64], at: impl Fn(u64) -> Fine) -> DecodeCurve {
    let mut base = at(knots[0]);
    let mut pieces = Vec::with_capacity(knots.len());
    for pair in knots.windows(2) {
        let width = pair[1] - pair[0];
        // Kernel times never decrease; this keeps the curve so through rounding as well.
        let next = at(pair[1]).max(base);
        let slope = Fine((next.0 - base.0) / width);
        pieces.push(Segment {
            from: pair[0],
            base,
            slope,
        });
        base = next;
    }
    DecodeCurve::from_segments(pieces)
}

impl<K: Kernels + Clone + 'static> LatencyModel for Composed<K> {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        debug_assert_eq!(stage.of as usize, self.stages.len(), "pp of the model");
        let attention = if shape.decodes > 0 {
            self.attention(shape.decodes, shape.context, stage)
        } else {
            Fine(0)
        };
        if shape.chunks.is_empty() && shape.decodes > 0 {
            let base = self.decode_base(shape.decodes, stage);
            return Fine(base.0.saturating_add(attention.0)).ceil();
        }
        let (tokens, rows) = (self.tokens(shape), rows(shape));
        let seconds = self.stages[stage.index as usize].seconds(&self.operators, tokens, rows)
            + self.engine(shape, tokens.1, stage)
            + self.operators.prefill_seconds(shape.chunks, stage.index);
        Fine(Fine::from_secs_f64(seconds).0.saturating_add(attention.0)).ceil()
    }

    fn formats(&self) -> Option<Formats> {
        Some(self.operators.formats)
    }

    fn breakdown(&self, shape: &StepShape<'_>, stage: Stage) -> Option<Vec<Operator>> {
        Some(self.operators(shape, stage))
    }

    fn on_shared_gpu(&self, slowdown: Slowdown) -> Option<Arc<dyn LatencyModel>> {
        let operators = &self.operators;
        let whole: Arc<dyn Kernels> = Arc::new(operators.kernels.clone());
        let made = Composed::new(
            &operators.model,
            share_kernels(whole, slowdown),
            operators.p,
            operators.formats,
            self.overhead,
        );
        let shared: Composed<SharedKernels> =
            made.expect("a model that could be cut so can still be");
        Some(Arc::new(shared))
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        let base = self.decode_base(batch, stage);
        let raise = |s: &Segment| Segment {
            base: Fine(s.base.0.saturating_add(base.0)),
            ..*s
        };
        self.with_attention(batch, stage, |curve| {
            DecodeCurve::from_segments(curve.segments().iter().map(raise).collect())
        })
    }
}
