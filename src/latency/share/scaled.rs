//! Models that are not composed of kernels, scaled as a whole.

use std::sync::Arc;

use super::Slowdown;
use crate::latency::{DecodeCurve, LatencyModel, Segment, Stage, StepShape};
use crate::units::{Fine, SimDuration};

/// A factor of at least 1 in units of 2⁻³², so that scaling is exact integer arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Factor(u64);

impl Factor {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "factors lie between 1 and some thousands"
    )]
    fn new(factor: f64) -> Self {
        let unit = 1u64 << 32;
        Self(((factor * unit as f64).round() as u64).max(unit))
    }

    fn product(self, amount: u64) -> u128 {
        u128::from(amount) * u128::from(self.0)
    }

    /// `amount` times the factor, rounded up; saturates.
    fn up(self, amount: u64) -> u64 {
        u64::try_from(self.product(amount).div_ceil(1 << 32)).unwrap_or(u64::MAX)
    }

    /// `amount` times the factor, rounded down; saturates. Never below `amount`.
    fn down(self, amount: u64) -> u64 {
        u64::try_from(self.product(amount) >> 32).unwrap_or(u64::MAX)
    }
}

/// Steps with prompts times the compute factor, decode steps times the memory factor, both times the contention.
#[derive(Debug)]
pub(super) struct Scaled {
    whole: Arc<dyn LatencyModel>,
    prompts: Factor,
    decodes: Factor,
}

impl Scaled {
    pub(super) fn new(whole: Arc<dyn LatencyModel>, slowdown: Slowdown) -> Self {
        Self {
            whole,
            prompts: Factor::new(slowdown.compute * slowdown.contention),
            decodes: Factor::new(slowdown.memory * slowdown.contention),
        }
    }
}

impl LatencyModel for Scaled {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        if shape.chunks.is_empty() && shape.decodes > 0 {
            let curve = self.decode_curve(shape.decodes, stage);
            return curve.at(shape.context).ceil();
        }
        let whole = self.whole.step_time(shape, stage);
        SimDuration::from_ps(self.prompts.up(whole.as_ps()))
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        // Slopes round down and starts up: the curve stays non-decreasing where pieces meet.
        let scale = |s: &Segment| Segment {
            from: s.from,
            base: Fine(self.decodes.up(s.base.0)),
            slope: Fine(self.decodes.down(s.slope.0)),
        };
        let whole = self.whole.decode_curve(batch, stage);
        DecodeCurve::from_segments(whole.segments().iter().map(scale).collect())
    }
}
