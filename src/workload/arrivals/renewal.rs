//! Renewal processes: independent gaps of one distribution.

use crate::rng::Rng;
use crate::units::{SimDuration, SimTime};
use crate::workload::arrivals::ArrivalProcess;
use crate::workload::draw;

/// The arrivals of a renewal process, one after the other.
#[derive(Debug)]
pub(super) struct Renewal {
    process: ArrivalProcess,
    rng: Rng,
    now: SimTime,
}

impl Renewal {
    /// Starts the process at time zero.
    pub(super) fn new(process: ArrivalProcess, rng: Rng) -> Self {
        Self {
            process,
            rng,
            now: SimTime::ZERO,
        }
    }
}

impl Iterator for Renewal {
    type Item = SimTime;

    fn next(&mut self) -> Option<SimTime> {
        let unit = match self.process {
            ArrivalProcess::Constant { .. } => 1.0,
            ArrivalProcess::Poisson { .. } => draw::exponential(&mut self.rng),
            ArrivalProcess::Gamma { cv, .. } => draw::gamma(&mut self.rng, cv),
        };
        let gap = SimDuration::from_secs_f64(unit / self.process.rate()).ok()?;
        self.now = self.now.saturating_add(gap);
        (self.now < SimTime::NEVER).then_some(self.now)
    }
}
