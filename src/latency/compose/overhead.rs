//! Time an engine spends outside kernels.

use super::super::Stage;
use crate::units::SimDuration;

/// CPU time per step: scheduling, batch preparation, launches, sampling. Kernels do not overlap it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overhead {
    /// Once per step, on the first stage.
    pub step: SimDuration,
    /// Per sequence of the step (prompt or decode), on the first stage.
    pub per_sequence: SimDuration,
    /// Per token of the step, on the first stage.
    pub per_token: SimDuration,
    /// Once per step on every stage.
    pub stage: SimDuration,
}

impl Overhead {
    /// None at all.
    pub const NONE: Self = Self {
        step: SimDuration::ZERO,
        per_sequence: SimDuration::ZERO,
        per_token: SimDuration::ZERO,
        stage: SimDuration::ZERO,
    };

    /// Seconds of one step on `stage`.
    #[must_use]
    pub fn seconds(&self, stage: Stage, tokens: u64, sequences: u64) -> f64 {
        let every = self.stage.as_secs_f64();
        if !stage.is_first() {
            return every;
        }
        every
            + self.step.as_secs_f64()
            + self.per_sequence.as_secs_f64() * sequences as f64
            + self.per_token.as_secs_f64() * tokens as f64
    }
}
