//! Percentiles: one function, one method.
//!
//! Linear interpolation between order statistics, the default of `NumPy` ("linear", Hyndman and Fan's type 7): with
//! `n` sorted values and `h = q·(n − 1)`, the `q`-quantile lies at fraction `h − ⌊h⌋` between the values of rank
//! `⌊h⌋` and `⌊h⌋ + 1` (from 0).

use super::result::Distribution;

/// Intervals of [`Distribution::quantiles_ms`].
const GRID: u32 = 200;

/// The `q`-quantile, `q` in 0..=1, of `count` values of which `value(rank)` is the `rank`-th smallest (from 0).
///
/// None without values.
pub fn quantile_by(count: u64, q: f64, value: impl Fn(u64) -> f64) -> Option<f64> {
    let last = count.checked_sub(1)?;
    let h = q.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 <= h <= last, a u64"
    )]
    let low = (h.floor() as u64).min(last);
    let t = h - low as f64;
    let (a, b) = (value(low), value((low + 1).min(last)));
    // Like NumPy: from the nearer end, so that equal neighbours come out exactly.
    Some(if t < 0.5 {
        a + (b - a) * t
    } else {
        b - (b - a) * (1.0 - t)
    })
}

/// The `q`-quantile of ascending values; none without values.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    quantile_by(sorted.len() as u64, q, |rank| {
        usize::try_from(rank)
            .ok()
            .and_then(|rank| sorted.get(rank))
            .copied()
            .unwrap_or(f64::NAN)
    })
}

impl Distribution {
    /// Describes values in milliseconds, which it sorts; none without values.
    #[must_use]
    pub fn of(values_ms: &mut [f64]) -> Option<Self> {
        values_ms.sort_unstable_by(f64::total_cmp);
        let count = values_ms.len() as u64;
        // Summed in ascending order, so that the order of the requests does not show.
        let mean_ms = values_ms.iter().sum::<f64>() / count as f64;
        Self::by_quantile(count, mean_ms, false, |q| quantile(values_ms, q))
    }

    /// Describes `count` values by their quantile function; none when that has no values.
    pub(super) fn by_quantile(
        count: u64,
        mean_ms: f64,
        binned: bool,
        at: impl Fn(f64) -> Option<f64>,
    ) -> Option<Self> {
        let quantiles_ms: Vec<f64> = (0..=GRID)
            .map(|i| at(f64::from(i) / f64::from(GRID)))
            .collect::<Option<_>>()?;
        Some(Self {
            count,
            mean_ms,
            min_ms: at(0.0)?,
            p50_ms: at(0.5)?,
            p90_ms: at(0.9)?,
            p95_ms: at(0.95)?,
            p99_ms: at(0.99)?,
            max_ms: at(1.0)?,
            binned,
            quantiles_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_numpy() {
        // numpy.percentile([1, 2, 4, 8, 16], [0, 10, 50, 90, 99, 100])
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (q, expected) in [
            (0.0, 1.0),
            (0.1, 1.4),
            (0.5, 4.0),
            (0.9, 12.8),
            (0.99, 15.68),
            (1.0, 16.0),
        ] {
            let seen = quantile(&values, q).unwrap();
            assert!((seen - expected).abs() < 1e-12, "{q}: {seen} vs {expected}");
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_one_value_is_all_of_them() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.5], 0.99), Some(3.5));
        assert_eq!(Distribution::of(&mut []), None);
    }

    #[test]
    fn a_distribution_sorts_first() {
        let d = Distribution::of(&mut [3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (d.min_ms, d.p50_ms, d.max_ms, d.mean_ms),
            (1.0, 2.0, 3.0, 2.0)
        );
        assert_eq!(d.quantiles_ms.len(), 201);
    }
}
