//! Arrival processes: when requests enter the cluster.

mod renewal;

use crate::rng::Rng;
use crate::units::SimTime;
use crate::workload::error::{WorkloadError, positive};

/// A random process of arrivals with a mean rate in requests per second.
///
/// The first request arrives one gap after time zero. Gaps are drawn at unit rate and divided by the rate, so that
/// one seed gives the same pattern, stretched, at every rate.
#[derive(Debug, Clone, PartialEq)]
pub enum ArrivalProcess {
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
    /// Gamma gaps: burstier than Poisson above a coefficient of variation of 1, smoother below.
    Gamma {
        /// Mean requests per second.
        rate: f64,
        /// Coefficient of variation of the gaps (standard deviation / mean), above 0.
        cv: f64,
    },
}

impl ArrivalProcess {
    /// The mean rate in requests per second.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        match *self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::Gamma { rate, .. } => rate,
        }
    }

    /// The same process at another mean rate: the same unit-rate gaps for the same seed.
    ///
    /// # Errors
    /// When `new` is not a finite number above 0.
    pub fn with_rate(mut self, new: f64) -> Result<Self, WorkloadError> {
        positive("rate", new)?;
        match &mut self {
            Self::Constant { rate } | Self::Poisson { rate } | Self::Gamma { rate, .. } => {
                *rate = new;
            }
        }
        Ok(self)
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// Names the first key with an impossible value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        positive("rate", self.rate())?;
        if let Self::Gamma { cv, .. } = *self {
            positive("arrivals.gamma.cv", cv)?;
        }
        Ok(())
    }

    /// Streams the arrivals in order, in constant memory; ends only at the end of the clock's range.
    pub(crate) fn times(&self, rng: Rng) -> impl Iterator<Item = SimTime> + Send + use<> {
        renewal::Renewal::new(self.clone(), rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::units::PS_PER_S;

    fn gaps(process: &ArrivalProcess, seed: u64, n: usize) -> Vec<f64> {
        let mut last = SimTime::ZERO;
        process
            .times(stream(seed, "arrivals"))
            .take(n)
            .map(|t| {
                let gap = (t - last).as_secs_f64();
                last = t;
                gap
            })
            .collect()
    }

    #[test]
    fn constant_arrivals_are_equally_spaced() {
        let times: Vec<u64> = ArrivalProcess::Constant { rate: 4.0 }
            .times(stream(1, "arrivals"))
            .take(3)
            .map(SimTime::as_ps)
            .collect();
        assert_eq!(times, [PS_PER_S / 4, PS_PER_S / 2, PS_PER_S * 3 / 4]);
    }

    #[test]
    fn another_rate_keeps_the_unit_gaps() {
        for process in [
            ArrivalProcess::Poisson { rate: 1.0 },
            ArrivalProcess::Gamma { rate: 1.0, cv: 2.5 },
        ] {
            let slow = gaps(&process, 3, 1000);
            let fast = gaps(&process.with_rate(8.0).unwrap(), 3, 1000);
            for (a, b) in slow.iter().zip(&fast) {
                // One picosecond of rounding in each gap.
                assert!((a - b * 8.0).abs() <= 9e-12, "{a} against {b}");
            }
        }
    }

    #[test]
    fn the_mean_rate_is_the_asked_one() {
        for process in [
            ArrivalProcess::Poisson { rate: 20.0 },
            ArrivalProcess::Gamma {
                rate: 20.0,
                cv: 2.0,
            },
        ] {
            let n = 200_000;
            let span: f64 = gaps(&process, 11, n).iter().sum();
            assert!(
                (n as f64 / span / 20.0 - 1.0).abs() < 0.025,
                "{process:?}: {}",
                n as f64 / span
            );
        }
    }

    #[test]
    fn impossible_parameters_name_their_key() {
        let bad = ArrivalProcess::Gamma { rate: 1.0, cv: 0.0 }
            .validate()
            .unwrap_err();
        assert_eq!(bad.key, "arrivals.gamma.cv");
        for rate in [0.0, -2.0, f64::NAN] {
            assert_eq!(
                ArrivalProcess::Poisson { rate }.validate().unwrap_err().key,
                "rate"
            );
            assert_eq!(
                ArrivalProcess::Poisson { rate: 1.0 }
                    .with_rate(rate)
                    .unwrap_err()
                    .key,
                "rate"
            );
        }
    }
}
