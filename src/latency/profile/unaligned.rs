//! What the host of a benchmark added to products whose rows do not fill a block.
//!
//! Kernels with block scales pad m to a multiple of four; done one call at a time, that is a few more launches. The
//! published timings of these kernels on Blackwell were taken so: every product below some size shows the time of the host,
//! and one with an unaligned m shows that of its longer path. Engines replay recorded graphs, in which no host takes
//! part, so this time belongs to the comparison with samples and to no step.

use serde::{Deserialize, Serialize};

use super::samples::Sample;

/// Rows of a block that kernels pad to.
const MULTIPLE: u32 = 4;

/// The least a product with an unaligned m took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unaligned {
    /// m is aligned when it is a multiple of this.
    pub multiple: u32,
    /// Microseconds of the host's path for others.
    pub least_us: f64,
}

impl Unaligned {
    /// The time of `m` rows as the benchmark saw it, from that of an aligned product.
    #[must_use]
    pub fn as_timed(&self, m: f64, seconds: f64) -> f64 {
        if m % f64::from(self.multiple) == 0.0 {
            seconds
        } else {
            seconds.max(self.least_us * 1e-6)
        }
    }

    /// Whether a sample is aligned.
    pub(super) fn aligned(sample: &Sample) -> bool {
        sample.point[0] % f64::from(MULTIPLE) == 0.0
    }

    /// The host time that explains the unaligned samples best, given what aligned products of their shapes take: the one
    /// with the smallest sum of |ln(predicted / sample)|.
    pub(super) fn of(samples: &[&Sample], seconds: impl Fn(&Sample) -> f64) -> Option<Self> {
        let rows: Vec<(f64, f64)> = samples
            .iter()
            .filter(|s| !Self::aligned(s))
            .map(|s| (s.seconds, seconds(s)))
            .collect();
        let mut times: Vec<f64> = rows.iter().map(|r| r.0).collect();
        times.sort_by(f64::total_cmp);
        let miss = |least: f64| -> f64 {
            rows.iter()
                .map(|(t, p)| (p.max(least) / t).ln().abs())
                .sum()
        };
        // The sum is piecewise smooth between the samples' own times; a hundred of those find it within a percent.
        let best = times
            .iter()
            .step_by(times.len() / 100 + 1)
            .min_by(|a, b| miss(**a).total_cmp(&miss(**b)))?;
        Some(Self {
            multiple: MULTIPLE,
            least_us: (best * 1e7).round() / 10.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::shapes::SurfaceKind;
    use super::*;
    use crate::model::WeightDtype;

    #[test]
    fn the_host_time_of_unaligned_rows_is_found_and_hides_behind_long_kernels() {
        let sample = |m: f64, us: f64| Sample {
            kind: SurfaceKind::Gemm(WeightDtype::Fp8Block),
            point: vec![m, 4096.0, 4096.0],
            site: String::new(),
            seconds: us * 1e-6,
        };
        let samples: Vec<Sample> = [(4.0, 175.0), (5.0, 240.0), (7.0, 235.0), (9.0, 232.0)]
            .iter()
            .map(|&(m, us)| sample(m, us))
            .chain([sample(8193.0, 900.0)])
            .collect();
        let kernel = |s: &Sample| if s.point[0] > 100.0 { 900e-6 } else { 175e-6 };
        let found = Unaligned::of(&samples.iter().collect::<Vec<_>>(), kernel).unwrap();
        assert_eq!(found.multiple, 4);
        assert!((found.least_us - 235.0).abs() < 0.05, "{found:?}");
        assert!((found.as_timed(6.0, 175e-6) - 235e-6).abs() < 1e-12);
        assert!((found.as_timed(8.0, 175e-6) - 175e-6).abs() < 1e-12);
        assert!((found.as_timed(8193.0, 900e-6) - 900e-6).abs() < 1e-12);
    }
}
