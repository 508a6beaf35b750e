//! Several seeds: means with confidence intervals, and paired differences.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean over seeds with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Seeds that have the figure.
    pub seeds: u32,
    /// Mean over them.
    pub mean: f64,
    /// Half the width of the 95 % interval, Student's t over seeds; none for a single seed.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// The mean of one value per seed; none without values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let seeds = u32::try_from(values.len()).ok().filter(|n| *n > 0)?;
        let n = f64::from(seeds);
        let mean = values.iter().sum::<f64>() / n;
        let half_width = (seeds > 1).then(|| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
            student_975(seeds - 1) * (variance / n).sqrt()
        });
        Some(Self {
            seeds,
            mean,
            half_width,
        })
    }

    /// The mean of `a − b` seed by seed, for values of the same seeds in the same order.
    ///
    /// None when the lists differ in length or are empty. Pairing removes what the arrivals have in common: the
    /// interval is narrower than that of the difference of two means.
    #[must_use]
    pub fn paired(a: &[f64], b: &[f64]) -> Option<Self> {
        if a.len() != b.len() {
            return None;
        }
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        Self::of(&differences)
    }

    /// Whether zero lies outside the interval; unknown (`None`) for a single seed.
    #[must_use]
    pub fn differs_from_zero(&self) -> Option<bool> {
        self.half_width.map(|h| self.mean.abs() > h)
    }
}

/// The 0.975 quantile of Student's t.
fn student_975(freedom: u32) -> f64 {
    StudentsT::new(0.0, 1.0, f64::from(freedom))
        .expect("at least one degree of freedom")
        .inverse_cdf(0.975)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // t(0.975, 4) = 2.7764451; sd of 1..5 = 1.5811388; / sqrt 5 = 0.7071068.
        let e = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((e.mean - 3.0).abs() < 1e-12);
        assert!((e.half_width.unwrap() - 1.963_243).abs() < 1e-5);
    }

    #[test]
    fn one_seed_has_no_interval_and_none_has_no_mean() {
        assert_eq!(Estimate::of(&[2.0]).unwrap().half_width, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn pairing_removes_common_noise() {
        let a = [10.1, 20.2, 30.1];
        let b = [9.0, 19.0, 29.1];
        let paired = Estimate::paired(&a, &b).unwrap();
        assert_eq!(paired.differs_from_zero(), Some(true));
        assert!(paired.half_width.unwrap() < 0.3);
        assert_eq!(Estimate::paired(&a, &b[..2]), None);
    }
}
