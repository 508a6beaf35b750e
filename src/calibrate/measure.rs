//! The measurement loop: warm up, time, repeat until the median stands still.

use super::device::{Device, DeviceError};
use super::program::Program;
use super::work::Work;

/// How long to measure a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Seconds of running before anything counts.
    pub warm_up_s: f64,
    /// Seconds a trial lasts at least, in whole replays.
    pub trial_s: f64,
    /// Fewest trials.
    pub min_trials: usize,
    /// Most trials.
    pub max_trials: usize,
    /// Standard error of the median, relative, at which to stop.
    pub precision: f64,
}

impl Settings {
    /// For `--quick`.
    #[must_use]
    pub const fn quick() -> Self {
        Self {
            warm_up_s: 0.003,
            trial_s: 0.001,
            min_trials: 5,
            max_trials: 20,
            precision: 0.01,
        }
    }

    /// For a full calibration.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            warm_up_s: 0.008,
            trial_s: 0.002,
            min_trials: 7,
            max_trials: 40,
            precision: 0.005,
        }
    }
}

/// The time of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Median over the trials, in seconds.
    pub seconds: f64,
    /// Interquartile range over the median.
    pub spread: f64,
    /// Trials.
    pub trials: usize,
    /// Whether the median stood still before the trials ran out.
    pub stable: bool,
}

/// Measures a program.
///
/// # Errors
/// When the device cannot load or run it, or its clock gives no time.
pub fn measure(
    device: &mut dyn Device,
    work: &Work,
    program: &Program,
    settings: &Settings,
) -> Result<Measured, DeviceError> {
    device.load(work, program)?;
    // The first replay pays for whatever is set up on first use.
    let first = device.replay(1)?;
    let each = device.replay(replays(settings.warm_up_s, first))?
        / f64::from(replays(settings.warm_up_s, first));
    let times = replays(settings.trial_s, each);
    let per_trial = f64::from(times) * program.rounds.len() as f64;
    let mut trials: Vec<f64> = Vec::new();
    while trials.len() < settings.max_trials {
        let seconds = device.replay(times)? / per_trial;
        if !(seconds.is_finite() && seconds > 0.0) {
            return Err(DeviceError::Driver {
                call: "timing a replay",
                reason: format!("the clock says {seconds} s"),
            });
        }
        trials.push(seconds);
        let so_far = summarise(&trials, settings);
        if trials.len() >= settings.min_trials && so_far.stable {
            return Ok(so_far);
        }
    }
    Ok(summarise(&trials, settings))
}

/// Replays of `each` seconds that fill `wanted` seconds.
fn replays(wanted: f64, each: f64) -> u32 {
    const MOST: u32 = 20_000;
    let count = (wanted / each.max(1e-9)).ceil();
    if count < f64::from(MOST) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number below the bound"
        )]
        let count = count as u32;
        count.max(1)
    } else {
        MOST
    }
}

fn summarise(trials: &[f64], settings: &Settings) -> Measured {
    let mut sorted = trials.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile(&sorted, 0.5);
    let spread = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / median;
    // Of normal noise: a standard deviation is 0.741 interquartile ranges, and a median has 1.253 times the error of a mean.
    let error = 1.253 * 0.741 * spread / (trials.len() as f64).sqrt();
    Measured {
        seconds: median,
        spread,
        trials: trials.len(),
        stable: error <= settings.precision,
    }
}

/// The quantile of sorted values by linear interpolation.
pub(super) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of the slice"
    )]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::build::{Target, build};
    use crate::calibrate::fake::Fake;
    use crate::calibrate::{Gemm, GemmDtype};

    fn gemm() -> Work {
        Work::Gemm(Gemm {
            dtype: GemmDtype::Bf16,
            m: 64,
            n: 4096,
            k: 4096,
        })
    }

    fn run(fake: &mut Fake, settings: &Settings) -> Measured {
        let program = build(&gemm(), &Target::of(fake.facts())).unwrap();
        measure(fake, &gemm(), &program, settings).unwrap()
    }

    #[test]
    fn a_steady_device_is_measured_exactly_in_the_fewest_trials() {
        let mut fake = Fake::new();
        let truth = fake.seconds(&gemm());
        let measured = run(&mut fake, &Settings::full());
        assert!((measured.seconds / truth - 1.0).abs() < 1e-9);
        assert_eq!(measured.trials, Settings::full().min_trials);
        assert!(measured.stable && measured.spread < 1e-9);
    }

    #[test]
    fn noise_asks_for_more_trials_and_outliers_do_not_move_the_median() {
        let mut fake = Fake::new();
        fake.noise = 0.03;
        fake.outliers = 0.1;
        let truth = fake.seconds(&gemm());
        let measured = run(&mut fake, &Settings::full());
        assert!(measured.trials > Settings::full().min_trials);
        assert!(measured.spread > 0.005);
        assert!(
            (measured.seconds / truth - 1.0).abs() < 0.02,
            "{measured:?}"
        );
    }

    #[test]
    fn a_device_that_never_settles_is_given_up_and_marked() {
        let mut fake = Fake::new();
        fake.noise = 0.5;
        let measured = run(&mut fake, &Settings::quick());
        assert_eq!(measured.trials, Settings::quick().max_trials);
        assert!(!measured.stable);
    }

    #[test]
    fn quantiles_interpolate() {
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12);
        close(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        close(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
        close(quantile(&[7.0], 0.9), 7.0);
    }
}
