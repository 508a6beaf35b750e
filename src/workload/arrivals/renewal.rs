//! Renewal processes: independent gaps of one distribution at a constant rate.

use crate::rng::Rng;
use crate::units::{SimDuration, SimTime};
use crate::workload::arrivals::Gaps;

/// The arrivals of a renewal process, one after the other; ends only at the end of the clock's range.
#[derive(Debug)]
pub(crate) struct Renewal {
    gaps: Gaps,
    rate: f64,
    rng: Rng,
    now: SimTime,
}

impl Renewal {
    /// Starts the process at time zero.
    pub(crate) fn new(gaps: Gaps, rate: f64, rng: Rng) -> Self {
        Self {
            gaps,
            rate,
            rng,
            now: SimTime::ZERO,
        }
    }
}

impl Iterator for Renewal {
    type Item = SimTime;

    fn next(&mut self) -> Option<SimTime> {
        let unit = self.gaps.draw(&mut self.rng);
        let gap = SimDuration::from_secs_f64(unit / self.rate).ok()?;
        self.now = self.now.saturating_add(gap);
        (self.now < SimTime::NEVER).then_some(self.now)
    }
}
