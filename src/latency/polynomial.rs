//! Step times from fitted polynomials (DistServe, arXiv 2401.09670, and its simulator).
//!
//! On one of `pp` stages, in ms, over the prompts' lengths L and the decoding sequences' contexts:
//!
//! ```text
//! prefill  (a + b·ΣL + c·ΣL²)/pp + prefill_stage_overhead·pp
//! decode   (a + b·Σ(context + 1) + c·n)/pp            a, b, c by batch size: small, or large from a batch on
//! first stage adds  step_overhead + step_overhead_per_token·(ΣL + Σcontext)
//! ```
//!
//! A prompt's chunk of `new` tokens after `past` costs `b·new + c·((past + new)² − past²)`, so the chunks of a prompt
//! add up to its whole. A step with chunks and decodes pays one intercept, the larger of the two, and both variable
//! parts. Not modelled: anything the coefficients were not fitted on. Published coefficients may make a step *faster*
//! where the large-batch set takes over; that is kept.

mod published;

pub use published::{PolynomialError, published, published_sets};

use serde::{Deserialize, Serialize};

use super::{DecodeCurve, LatencyModel, Stage, StepShape};
use crate::units::{Fine, SimDuration};

/// Coefficients of one polynomial, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Intercept.
    pub a: f64,
    /// Per token: of the prompts, or of the context.
    pub b: f64,
    /// Prefill: per squared token; decode: per sequence.
    pub c: f64,
}

/// Decode coefficients by batch size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeTerms {
    /// Below `large_batch_from`.
    pub small: Terms,
    /// From `large_batch_from` on.
    pub large: Terms,
    /// First batch size of the large set.
    pub large_batch_from: u32,
}

/// All coefficients of a (GPU, engine, model, tp).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// Prompts.
    pub prefill: Terms,
    /// Decoding sequences.
    pub decode: DecodeTerms,
    /// Added to a step with prompts on every stage, times pp, in ms.
    #[serde(default)]
    pub prefill_stage_overhead: f64,
    /// Added to every step on the first stage, in ms.
    #[serde(default)]
    pub step_overhead: f64,
    /// Added on the first stage per prompt token computed and per context token held before the step, in ms.
    #[serde(default)]
    pub step_overhead_per_token: f64,
}

/// A step-time model of fitted polynomials.
#[derive(Debug, Clone, PartialEq)]
pub struct Polynomial {
    coefficients: Coefficients,
}

/// Milliseconds to [`Fine`].
fn fine(ms: f64) -> Fine {
    Fine::from_secs_f64(ms * 1e-3)
}

impl Polynomial {
    /// Makes a model from coefficients.
    ///
    /// # Errors
    /// When a coefficient is not finite or makes a step cost nothing or shrink with its tokens or context; the
    /// quadratic prefill term alone may be negative, as fits on short prompts sometimes are: the cost of a prompt
    /// then stays at its largest value beyond the vertex.
    pub fn new(coefficients: Coefficients) -> Result<Self, PolynomialError> {
        let c = &coefficients;
        let at_least_zero = [
            ("prefill.a", c.prefill.a),
            ("prefill.b", c.prefill.b),
            ("decode.small.a", c.decode.small.a),
            ("decode.small.b", c.decode.small.b),
            ("decode.small.c", c.decode.small.c),
            ("decode.large.a", c.decode.large.a),
            ("decode.large.b", c.decode.large.b),
            ("decode.large.c", c.decode.large.c),
            ("prefill_stage_overhead", c.prefill_stage_overhead),
            ("step_overhead", c.step_overhead),
            ("step_overhead_per_token", c.step_overhead_per_token),
        ];
        for (key, value) in at_least_zero {
            if !(value.is_finite() && value >= 0.0) {
                return Err(PolynomialError::BadCoefficient { key, value });
            }
        }
        if !c.prefill.c.is_finite() {
            return Err(PolynomialError::BadCoefficient {
                key: "prefill.c",
                value: c.prefill.c,
            });
        }
        Ok(Self { coefficients })
    }

    /// The coefficients.
    #[must_use]
    pub const fn coefficients(&self) -> &Coefficients {
        &self.coefficients
    }

    fn decode_terms(&self, batch: u32) -> Terms {
        let d = &self.coefficients.decode;
        if batch >= d.large_batch_from {
            d.large
        } else {
            d.small
        }
    }

    /// Variable cost of a prompt's first `tokens` tokens in ms: `b·x + c·x²`, held at its vertex where c < 0.
    fn prompt_cost(&self, tokens: f64) -> f64 {
        let Terms { b, c, .. } = self.coefficients.prefill;
        let x = if c < 0.0 {
            tokens.min(-b / (2.0 * c))
        } else {
            tokens
        };
        b * x + c * x * x
    }

    /// Cost of the decodes in ms: the part without context and the growth per context token.
    fn decode_parts(&self, batch: u32, stage: Stage) -> (f64, f64, f64) {
        let Terms { a, b, c } = self.decode_terms(batch);
        let (n, pp) = (f64::from(batch), f64::from(stage.of));
        let per_context = if stage.is_first() {
            self.coefficients.step_overhead_per_token
        } else {
            0.0
        };
        (a / pp, (b + c) * n / pp, b / pp + per_context)
    }
}

impl LatencyModel for Polynomial {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        if shape.chunks.is_empty() {
            if shape.decodes == 0 {
                return SimDuration::ZERO;
            }
            return self
                .decode_curve(shape.decodes, stage)
                .at(shape.context)
                .ceil();
        }
        let c = &self.coefficients;
        let pp = f64::from(stage.of);
        let prompts: f64 = shape
            .chunks
            .iter()
            .map(|k| {
                let past = f64::from(k.past);
                self.prompt_cost(past + f64::from(k.new)) - self.prompt_cost(past)
            })
            .sum();
        let mut ms = prompts / pp + c.prefill_stage_overhead * pp;
        let mut intercept = c.prefill.a / pp;
        if stage.is_first() {
            ms += c.step_overhead + c.step_overhead_per_token * shape.prefill_tokens() as f64;
        }
        if shape.decodes > 0 {
            let (a, per_batch, per_context) = self.decode_parts(shape.decodes, stage);
            intercept = intercept.max(a);
            ms += per_batch + per_context * shape.context as f64;
        }
        fine(ms + intercept).ceil()
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        let (a, per_batch, per_context) = self.decode_parts(batch, stage);
        let overhead = if stage.is_first() {
            self.coefficients.step_overhead
        } else {
            0.0
        };
        DecodeCurve::linear(fine(a + per_batch + overhead), fine(per_context))
    }
}

#[cfg(test)]
mod tests;
