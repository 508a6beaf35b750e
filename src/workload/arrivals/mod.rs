//! Arrival processes: when requests enter the cluster.
//!
//! Every process is a sequence of gaps drawn at unit rate, squeezed and stretched by the intensity: a constant rate, or
//! one that varies over time. The gaps come from one random stream and the path of a random intensity from another, so
//! one seed gives the same gaps at every rate, and comparisons between rates are paired.

mod intensity;
mod modulated;
mod renewal;

pub use intensity::{Intensity, MAX_SEGMENTS, Segment};

pub(crate) use renewal::Renewal;

use crate::rng::{self, Rng};
use crate::units::SimTime;
use crate::workload::draw;
use crate::workload::error::{WorkloadError, positive};
use crate::workload::trace::Trace;

/// A process of arrivals with a mean rate in requests per second.
///
/// The first request of a random process arrives one gap after time zero.
#[derive(Debug, Clone)]
pub enum ArrivalProcess {
    /// All at time zero: for a client that sends whenever it may.
    AtOnce,
    /// Equal gaps of 1/rate.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// Exponential gaps: independent users.
    Poisson {
        /// Mean requests per second.
        rate: f64,
    },
    /// Exponential gaps scaled so that the last of `n` requests arrives at exactly n/rate, as `vllm bench serve` sends
    /// them; needs a number of requests.
    PoissonRescaled {
        /// Requests per second, met exactly.
        rate: f64,
    },
    /// Gamma gaps: burstier than Poisson above a coefficient of variation of 1, smoother below. vLLM's `burstiness` is
    /// 1/cv².
    Gamma {
        /// Mean requests per second.
        rate: f64,
        /// Coefficient of variation of the gaps (standard deviation / mean), above 0.
        cv: f64,
    },
    /// Gaps of one kind under an intensity that varies over time.
    Modulated {
        /// Mean requests per second over a long time (over its length, for a schedule that ends).
        rate: f64,
        /// The gaps at unit rate.
        gaps: Gaps,
        /// How the intensity varies.
        intensity: Intensity,
    },
    /// The arrivals of a recorded trace, to be given other lengths; ends with the trace. Another rate stretches time.
    Replay(Trace),
}

/// Gaps at unit rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gaps {
    /// All equal.
    Constant,
    /// Exponential.
    Exponential,
    /// Gamma with a coefficient of variation.
    Gamma {
        /// Standard deviation / mean, above 0.
        cv: f64,
    },
}

impl Gaps {
    /// Draws a gap of mean 1.
    pub(crate) fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::Exponential => draw::exponential(rng),
            Self::Gamma { cv } => draw::gamma(rng, cv),
        }
    }
}

impl ArrivalProcess {
    /// The mean rate in requests per second; 0 where all requests arrive at once.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match self {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::PoissonRescaled { rate }
            | Self::Gamma { rate, .. }
            | Self::Modulated { rate, .. } => *rate,
            Self::AtOnce => 0.0,
            Self::Replay(trace) => trace.rate().unwrap_or(0.0),
        }
    }

    /// The same process at another mean rate: the same unit-rate gaps and the same path of the intensity.
    ///
    /// # Errors
    /// When `new` is not a finite number above 0, a replayed trace cannot be stretched to it, or there is no rate.
    pub fn with_rate(&self, new: f64) -> Result<Self, WorkloadError> {
        positive("rate", new)?;
        let mut process = self.clone();
        match &mut process {
            Self::Constant { rate }
            | Self::Poisson { rate }
            | Self::PoissonRescaled { rate }
            | Self::Gamma { rate, .. }
            | Self::Modulated { rate, .. } => *rate = new,
            Self::AtOnce => {
                let allowed = "no rate, since a closed loop without a plan sends whenever it may,";
                return Err(WorkloadError::new("rate", new, allowed));
            }
            Self::Replay(trace) => *trace = trace.with_rate(new)?,
        }
        Ok(process)
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// Names the first key with an impossible value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        match self {
            Self::AtOnce | Self::Replay(_) => return Ok(()),
            Self::Gamma { cv, .. } => positive("arrivals.gamma.cv", *cv)?,
            Self::Modulated {
                gaps: Gaps::Gamma { cv },
                ..
            } => positive("arrivals.gaps.cv", *cv)?,
            _ => 1.0,
        };
        positive("rate", self.rate())?;
        if let Self::Modulated { intensity, .. } = self {
            intensity.validate()?;
        }
        Ok(())
    }

    /// Streams the arrivals under `seed` in order, in constant memory; `requests` is how many will be taken, if known.
    pub(crate) fn stream(
        &self,
        seed: u64,
        requests: Option<u64>,
    ) -> Box<dyn Iterator<Item = SimTime> + Send> {
        let gaps = rng::stream(seed, "arrivals");
        match self {
            Self::AtOnce => Box::new(std::iter::repeat(SimTime::ZERO)),
            Self::Constant { rate } => Box::new(Renewal::new(Gaps::Constant, *rate, gaps)),
            Self::Poisson { rate } => Box::new(Renewal::new(Gaps::Exponential, *rate, gaps)),
            Self::Gamma { rate, cv } => {
                Box::new(Renewal::new(Gaps::Gamma { cv: *cv }, *rate, gaps))
            }
            Self::PoissonRescaled { rate } => {
                let n = requests.unwrap_or(1).max(1);
                // The first pass over the same gaps gives their sum, so nothing has to be kept.
                let mut again = gaps.clone();
                let sum: f64 = (0..n).map(|_| draw::exponential(&mut again)).sum();
                let scaled = *rate * sum / n as f64;
                Box::new(Renewal::new(Gaps::Exponential, scaled, gaps))
            }
            Self::Modulated {
                rate,
                gaps: kind,
                intensity,
            } => {
                let path = rng::stream(seed, "arrival intensity");
                modulated::stream(*rate, *kind, intensity, gaps, path)
            }
            Self::Replay(trace) => Box::new(trace.stream().map(|request| request.arrival)),
        }
    }
}

#[cfg(test)]
mod tests;
