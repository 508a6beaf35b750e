//! The distribution of one length.

use std::sync::Arc;

use crate::workload::draw;
use crate::workload::error::{WorkloadError, positive};
use crate::workload::lengths::grid::Quantiles;

/// Longest length a lognormal draws when no maximum is given: the context of today's long-context models.
pub(crate) const DEFAULT_MAX: u32 = 131_072;

/// Most lengths of a power law, each of which takes 8 bytes.
const ZIPF_LENGTHS: u32 = 1 << 20;

/// The distribution of one length in tokens, at least 1; cheap to clone. Drawn by its quantile function.
#[derive(Debug, Clone, PartialEq)]
pub struct Marginal(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Fixed(u32),
    Uniform {
        min: u32,
        max: u32,
    },
    Lognormal {
        mu: f64,
        sigma: f64,
        min: u32,
        max: u32,
    },
    Zipf {
        min: u32,
        /// The chance of every length up to this one.
        up_to: Arc<[f64]>,
    },
    Quantiles(Arc<Quantiles>),
}

impl Marginal {
    /// Always `tokens`. `key` is the path named by the error, here and below.
    ///
    /// # Errors
    /// When `tokens` is 0.
    pub fn fixed(key: &str, tokens: u32) -> Result<Self, WorkloadError> {
        at_least_one(key, tokens)?;
        Ok(Self(Kind::Fixed(tokens)))
    }

    /// Every whole number from `min` to `max`, both included, with equal chance.
    ///
    /// # Errors
    /// When `min` is 0 or above `max`.
    pub fn uniform(key: &str, min: u32, max: u32) -> Result<Self, WorkloadError> {
        ordered(key, min, max)?;
        Ok(Self(Kind::Uniform { min, max }))
    }

    /// `median × exp(sigma × normal)`, rounded to whole tokens and clamped to `min..=max`.
    ///
    /// # Errors
    /// When `median` or `sigma` is not a finite number above 0, or `min` is 0 or above `max`.
    pub fn lognormal(
        key: &str,
        median: f64,
        sigma: f64,
        min: u32,
        max: u32,
    ) -> Result<Self, WorkloadError> {
        positive(&format!("{key}.median"), median)?;
        positive(&format!("{key}.sigma"), sigma)?;
        ordered(key, min, max)?;
        Ok(Self(Kind::Lognormal {
            mu: libm::log(median),
            sigma,
            min,
            max,
        }))
    }

    /// A power law: the chance of `n` tokens in `min..=max` is proportional to `n^-alpha`.
    ///
    /// # Errors
    /// When `alpha` is not a finite number above 0, `min` is 0 or above `max`, or the range is beyond a million lengths.
    pub fn zipf(key: &str, alpha: f64, min: u32, max: u32) -> Result<Self, WorkloadError> {
        positive(&format!("{key}.alpha"), alpha)?;
        ordered(key, min, max)?;
        if max - min >= ZIPF_LENGTHS {
            let allowed = format!("at most {ZIPF_LENGTHS} lengths from `min`, which is {min}");
            return Err(WorkloadError::new(format!("{key}.max"), max, allowed));
        }
        // Relative to the shortest, so that no weight under- or overflows before its sum.
        let weight = |n: u32| libm::pow(f64::from(n) / f64::from(min), -alpha);
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (min..=max)
            .map(|n| {
                sum += weight(n);
                sum
            })
            .collect();
        for share in &mut up_to {
            *share /= sum;
        }
        Ok(Self(Kind::Zipf {
            min,
            up_to: up_to.into(),
        }))
    }

    /// The quantile grid of a recorded length.
    #[must_use]
    pub fn quantiles(grid: Quantiles) -> Self {
        Self(Kind::Quantiles(Arc::new(grid)))
    }

    /// The length at probability `p` in (0, 1).
    #[must_use]
    pub fn quantile(&self, p: f64) -> u32 {
        match &self.0 {
            Kind::Fixed(tokens) => *tokens,
            Kind::Uniform { min, max } => {
                let span = f64::from(max - min) + 1.0;
                whole(f64::from(*min) + (p * span).floor(), *min, *max)
            }
            Kind::Lognormal {
                mu,
                sigma,
                min,
                max,
            } => {
                let length = libm::exp(mu + sigma * draw::normal_quantile(p));
                whole(length.round(), *min, *max)
            }
            Kind::Zipf { min, up_to } => {
                let at = up_to.partition_point(|share| *share < p);
                min + count(at.min(up_to.len() - 1))
            }
            Kind::Quantiles(grid) => grid.quantile(p),
        }
    }

    /// The longest length it can draw.
    #[must_use]
    pub fn max(&self) -> u32 {
        match &self.0 {
            Kind::Fixed(tokens) => *tokens,
            Kind::Uniform { max, .. } | Kind::Lognormal { max, .. } => *max,
            Kind::Zipf { min, up_to } => min + count(up_to.len() - 1),
            Kind::Quantiles(grid) => grid.max(),
        }
    }
}

/// A place in the table of a power law.
fn count(at: usize) -> u32 {
    u32::try_from(at).expect("the range of a power law is bounded")
}

/// Clamps a whole float to `min..=max`.
pub(super) fn whole(value: f64, min: u32, max: u32) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to two u32 beforehand, and the caller hands a whole number"
    )]
    let tokens = value.clamp(f64::from(min), f64::from(max)) as u32;
    tokens
}

fn at_least_one(key: &str, tokens: u32) -> Result<(), WorkloadError> {
    if tokens == 0 {
        return Err(WorkloadError::new(
            key,
            tokens,
            "a whole number of at least 1 token",
        ));
    }
    Ok(())
}

fn ordered(key: &str, min: u32, max: u32) -> Result<(), WorkloadError> {
    at_least_one(&format!("{key}.min"), min)?;
    if min > max {
        return Err(WorkloadError::new(
            format!("{key}.max"),
            max,
            format!("at least `min`, which is {min}"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_reaches_both_ends_with_equal_chance() {
        let uniform = Marginal::uniform("u", 10, 19).unwrap();
        let mut counts = [0; 10];
        for i in 0..1000 {
            let tokens = uniform.quantile((f64::from(i) + 0.5) / 1000.0);
            counts[tokens as usize - 10] += 1;
        }
        assert_eq!(counts, [100; 10]);
    }

    #[test]
    fn lognormal_has_its_median_and_respects_its_clamps() {
        let lognormal = Marginal::lognormal("l", 300.0, 1.0, 5, 4000).unwrap();
        assert_eq!(lognormal.quantile(0.5), 300);
        assert_eq!(lognormal.quantile(1e-12), 5);
        assert_eq!(lognormal.quantile(1.0 - 1e-12), 4000);
        // exp(1) above the median at one standard deviation.
        assert_eq!(lognormal.quantile(draw::normal_cdf(1.0)), 815);
    }

    #[test]
    fn zipf_follows_its_power_law() {
        let zipf = Marginal::zipf("z", 1.5, 10, 1000).unwrap();
        let n = 200_000;
        let mut counts = vec![0_u32; 1001];
        for i in 0..n {
            counts[zipf.quantile((f64::from(i) + 0.5) / f64::from(n)) as usize] += 1;
        }
        assert_eq!(counts[..10].iter().sum::<u32>(), 0);
        let total: f64 = (10..=1000).map(|k| f64::from(k).powf(-1.5)).sum();
        for k in [10_u16, 11, 20, 100] {
            let share = f64::from(counts[usize::from(k)]) / f64::from(n);
            let expected = f64::from(k).powf(-1.5) / total;
            assert!(
                (share - expected).abs() < 1.0 / f64::from(n),
                "{k}: {share}"
            );
        }
        assert_eq!((zipf.quantile(1.0 - 1e-12), zipf.max()), (1000, 1000));
    }

    #[test]
    fn impossible_parameters_name_their_key() {
        let key = |result: Result<Marginal, WorkloadError>| result.unwrap_err().key;
        assert_eq!(
            key(Marginal::fixed("lengths.input.fixed", 0)),
            "lengths.input.fixed"
        );
        assert_eq!(key(Marginal::uniform("u", 0, 4)), "u.min");
        assert_eq!(key(Marginal::uniform("u", 5, 4)), "u.max");
        assert_eq!(
            key(Marginal::lognormal("l", f64::NAN, 1.0, 1, 4)),
            "l.median"
        );
        assert_eq!(key(Marginal::lognormal("l", 10.0, 0.0, 1, 4)), "l.sigma");
        assert_eq!(key(Marginal::lognormal("l", 10.0, 1.0, 1, 0)), "l.max");
        assert_eq!(key(Marginal::zipf("z", -1.0, 1, 4)), "z.alpha");
        assert_eq!(key(Marginal::zipf("z", 1.0, 5, 4)), "z.max");
        assert_eq!(key(Marginal::zipf("z", 1.0, 1, u32::MAX)), "z.max");
    }
}
