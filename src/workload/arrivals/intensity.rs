//! Intensities that vary over time, relative to a mean of 1.

use std::sync::Arc;

use crate::units::SimDuration;
use crate::workload::error::{WorkloadError, positive};

/// Most segments or states of an intensity.
pub const MAX_SEGMENTS: usize = 100_000;

/// How the rate varies around its mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Intensity {
    /// `1 + amplitude × sin(2π (t / period + phase))`: a day as a smooth curve.
    Sinusoid {
        /// Time from peak to peak.
        period: SimDuration,
        /// Relative height of the peak above the mean, 0 to 1.
        amplitude: f64,
        /// Share of a period by which the curve is ahead, 0 to 1; 0.75 starts in the trough.
        phase: f64,
    },
    /// Segments one after the other; then again from the start, or no more arrivals.
    Schedule {
        /// At least one, with a rate above 0 somewhere. Rates are relative to each other; the process's mean rate scales
        /// them.
        segments: Arc<[Segment]>,
        /// Whether the schedule starts again when it ends.
        repeat: bool,
    },
    /// A Markov-modulated intensity: exponential stays in states, each left for any other with equal chance. The process
    /// starts in a state drawn from the long-run shares.
    Markov {
        /// At least two, with a rate above 0 somewhere; `span` is the mean stay.
        states: Arc<[Segment]>,
    },
}

/// A stretch of time at one relative rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// How long, above 0 (on average, for a Markov state).
    pub span: SimDuration,
    /// Relative rate, at least 0.
    pub rate: f64,
}

impl Intensity {
    /// ON/OFF bursts: exponential stays in a busy state and in one whose rate is `off_share` of the busy one's.
    #[must_use]
    pub fn on_off(on: SimDuration, off: SimDuration, off_share: f64) -> Self {
        let states = [(on, 1.0), (off, off_share)].map(|(span, rate)| Segment { span, rate });
        Self::Markov {
            states: Arc::from(states),
        }
    }

    /// A day of 24 hourly rates that repeats.
    #[must_use]
    pub fn day(hourly: [f64; 24]) -> Self {
        let span = SimDuration::from_ms(3_600_000);
        Self::Schedule {
            segments: hourly.map(|rate| Segment { span, rate }).into(),
            repeat: true,
        }
    }

    /// The mean of the relative rates as written, over a cycle or in the long run.
    ///
    /// A Markov chain that leaves a state for any other with equal chance visits all equally often, so its long-run
    /// shares of time are those of the mean stays, and one formula serves both.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Sinusoid { .. } => 1.0,
            Self::Schedule { segments, .. } | Self::Markov { states: segments } => {
                let time: f64 = segments.iter().map(|s| s.span.as_secs_f64()).sum();
                segments
                    .iter()
                    .map(|s| s.rate * s.span.as_secs_f64())
                    .sum::<f64>()
                    / time
            }
        }
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// Names the first key with an impossible value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        match self {
            Self::Sinusoid {
                period,
                amplitude,
                phase,
            } => {
                let key = "arrivals.sinusoid";
                positive(&format!("{key}.period"), period.as_secs_f64())?;
                for (name, value) in [("amplitude", *amplitude), ("phase", *phase)] {
                    if !(0.0..=1.0).contains(&value) {
                        return Err(WorkloadError::new(
                            format!("{key}.{name}"),
                            value,
                            "a number from 0 to 1",
                        ));
                    }
                }
                Ok(())
            }
            Self::Schedule { segments, .. } => check("arrivals.schedule", segments, 1),
            Self::Markov { states } => check("arrivals.mmpp", states, 2),
        }
    }
}

fn check(key: &str, segments: &[Segment], least: usize) -> Result<(), WorkloadError> {
    if !(least..=MAX_SEGMENTS).contains(&segments.len()) {
        let allowed = format!("{least} to {MAX_SEGMENTS} entries");
        return Err(WorkloadError::new(
            key,
            format!("{} entries", segments.len()),
            allowed,
        ));
    }
    for (i, segment) in segments.iter().enumerate() {
        positive(&format!("{key}[{i}].for"), segment.span.as_secs_f64())?;
        if !(segment.rate.is_finite() && segment.rate >= 0.0) {
            return Err(WorkloadError::new(
                format!("{key}[{i}].rate"),
                segment.rate,
                "a finite rate of at least 0",
            ));
        }
    }
    if segments.iter().all(|segment| segment.rate <= 0.0) {
        return Err(WorkloadError::new(
            key,
            "no rate above 0",
            "a rate above 0 in at least one entry",
        ));
    }
    Ok(())
}
