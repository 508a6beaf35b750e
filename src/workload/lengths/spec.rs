//! The written form of a length model, as in a scenario or a file of `traces/lengths/`.
//!
//! ```yaml
//! input: {lognormal: {median: 500, sigma: 1.1, max: 8192}}
//! output: {fixed: 128}
//! correlation: 0.2      # optional, Gaussian copula
//! max_total: 8192       # optional
//! ```

use serde::Deserialize;

use crate::workload::draw;
use crate::workload::error::{WorkloadError, positive};
use crate::workload::lengths::marginal::DEFAULT_MAX;
use crate::workload::lengths::{Bands, LengthModel, Marginal, Quantiles};

/// A length model as written. Exactly one of `output` and `output_by_input` is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthsSpec {
    /// Prompt tokens.
    pub input: MarginalSpec,
    /// Output tokens.
    pub output: Option<MarginalSpec>,
    /// Output tokens by the rank of the prompt.
    pub output_by_input: Option<BandsSpec>,
    /// Correlation of the Gaussian copula between `input` and `output`; 0 when absent.
    pub correlation: Option<f64>,
    /// Most prompt + output tokens.
    pub max_total: Option<u32>,
}

/// One length as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MarginalSpec {
    /// Always the same.
    Fixed(u32),
    /// Every whole number in the range with equal chance.
    Uniform {
        /// The shortest.
        min: u32,
        /// The longest.
        max: u32,
    },
    /// Lognormal by a centre and a spread.
    Lognormal(LognormalSpec),
    /// A power law over the whole numbers of a range: the chance of n tokens is proportional to n to the power of −alpha.
    Zipf {
        /// The exponent, above 0.
        alpha: f64,
        /// The shortest, 1 when absent.
        min: Option<u32>,
        /// The longest.
        max: u32,
    },
    /// A quantile grid.
    Quantiles(QuantilesSpec),
}

/// A lognormal as written: `median` or `mean` with `sigma`, or `p50` with `p99`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LognormalSpec {
    /// Median tokens.
    pub median: Option<f64>,
    /// Mean tokens before clamping.
    pub mean: Option<f64>,
    /// Standard deviation of the logarithm.
    pub sigma: Option<f64>,
    /// The same as `median`.
    pub p50: Option<f64>,
    /// The 99th percentile in tokens.
    pub p99: Option<f64>,
    /// The shortest length, 1 when absent.
    pub min: Option<u32>,
    /// The longest length, 131072 when absent.
    pub max: Option<u32>,
}

/// A quantile grid as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantilesSpec {
    /// Probabilities, rising from 0 to 1.
    pub at: Vec<f64>,
    /// The length at each.
    pub tokens: Vec<u32>,
}

/// Output grids by the rank of the prompt, as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BandsSpec {
    /// End of each band as a probability of the prompt's distribution, rising to 1.
    pub up_to: Vec<f64>,
    /// Probabilities of the output, rising from 0 to 1, the same for all bands.
    pub at: Vec<f64>,
    /// The output length at each, one row a band.
    pub tokens: Vec<Vec<u32>>,
}

impl LengthsSpec {
    /// Checks the model and makes it.
    ///
    /// # Errors
    /// Names the first key (below `lengths`) with an impossible value.
    pub fn resolve(&self) -> Result<LengthModel, WorkloadError> {
        let input = self.input.resolve("lengths.input")?;
        let model = match (&self.output, &self.output_by_input) {
            (Some(output), None) => {
                let output = output.resolve("lengths.output")?;
                LengthModel::copula(input, output, self.correlation.unwrap_or(0.0))?
            }
            (None, Some(bands)) => {
                if let Some(correlation) = self.correlation {
                    let allowed =
                        "nothing beside `output_by_input`, which already ties the lengths";
                    return Err(WorkloadError::new(
                        "lengths.correlation",
                        correlation,
                        allowed,
                    ));
                }
                LengthModel::banded(input, bands.resolve("lengths.output_by_input")?)
            }
            (both, _) => {
                let seen = if both.is_some() { "both" } else { "neither" };
                let allowed = "exactly one of `output` and `output_by_input`";
                return Err(WorkloadError::new("lengths.output", seen, allowed));
            }
        };
        match self.max_total {
            Some(total) => model.with_max_total(total),
            None => Ok(model),
        }
    }
}

impl MarginalSpec {
    /// Checks the distribution and makes it; `key` is its path.
    ///
    /// # Errors
    /// Names the first key with an impossible value.
    pub fn resolve(&self, key: &str) -> Result<Marginal, WorkloadError> {
        match self {
            Self::Fixed(tokens) => Marginal::fixed(&format!("{key}.fixed"), *tokens),
            Self::Uniform { min, max } => Marginal::uniform(&format!("{key}.uniform"), *min, *max),
            Self::Zipf { alpha, min, max } => {
                Marginal::zipf(&format!("{key}.zipf"), *alpha, min.unwrap_or(1), *max)
            }
            Self::Lognormal(spec) => spec.resolve(&format!("{key}.lognormal")),
            Self::Quantiles(spec) => {
                let grid = Quantiles::new(
                    &format!("{key}.quantiles"),
                    spec.at.clone(),
                    spec.tokens.clone(),
                )?;
                Ok(Marginal::quantiles(grid))
            }
        }
    }
}

impl LognormalSpec {
    fn resolve(&self, key: &str) -> Result<Marginal, WorkloadError> {
        let (median, sigma) = match *self {
            Self {
                median: Some(median),
                sigma: Some(sigma),
                mean: None,
                p50: None,
                p99: None,
                ..
            } => (median, sigma),
            Self {
                mean: Some(mean),
                sigma: Some(sigma),
                median: None,
                p50: None,
                p99: None,
                ..
            } => {
                positive(&format!("{key}.mean"), mean)?;
                (mean * libm::exp(-sigma * sigma / 2.0), sigma)
            }
            Self {
                p50: Some(p50),
                p99: Some(p99),
                median: None,
                mean: None,
                sigma: None,
                ..
            } => {
                positive(&format!("{key}.p50"), p50)?;
                if !(p99.is_finite() && p99 > p50) {
                    return Err(WorkloadError::new(
                        format!("{key}.p99"),
                        p99,
                        "a finite number above `p50`",
                    ));
                }
                (p50, libm::log(p99 / p50) / draw::normal_quantile(0.99))
            }
            _ => {
                let allowed = "`median` and `sigma`, or `mean` and `sigma`, or `p50` and `p99`";
                return Err(WorkloadError::new(
                    key,
                    format!("{{{}}}", self.given()),
                    allowed,
                ));
            }
        };
        let (min, max) = (self.min.unwrap_or(1), self.max.unwrap_or(DEFAULT_MAX));
        Marginal::lognormal(key, median, sigma, min, max)
    }

    /// The names of the keys that are there.
    fn given(&self) -> String {
        let keys = [
            ("median", self.median),
            ("mean", self.mean),
            ("sigma", self.sigma),
            ("p50", self.p50),
            ("p99", self.p99),
        ];
        let given: Vec<&str> = keys
            .iter()
            .filter(|(_, value)| value.is_some())
            .map(|(key, _)| *key)
            .collect();
        given.join(", ")
    }
}

impl BandsSpec {
    fn resolve(&self, key: &str) -> Result<Bands, WorkloadError> {
        let grids: Result<Vec<Quantiles>, WorkloadError> = self
            .tokens
            .iter()
            .map(|row| Quantiles::new(key, self.at.clone(), row.clone()))
            .collect();
        Bands::new(key, self.up_to.clone(), grids?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(yaml: &str) -> Result<LengthModel, WorkloadError> {
        let de = serde_yaml::Deserializer::from_str(yaml);
        let spec: LengthsSpec = serde_yaml::with::singleton_map_recursive::deserialize(de).unwrap();
        spec.resolve()
    }

    #[test]
    fn the_written_forms_of_a_lognormal_agree() {
        let median =
            lengths("{input: {lognormal: {median: 100, sigma: 0.5}}, output: {fixed: 1}}").unwrap();
        let mean = lengths(
            "{input: {lognormal: {mean: 113.31484530668263, sigma: 0.5}}, output: {fixed: 1}}",
        )
        .unwrap();
        let tail =
            lengths("{input: {lognormal: {p50: 100, p99: 320.0}}, output: {fixed: 1}}").unwrap();
        for p in [0.01, 0.3, 0.5, 0.9, 0.99] {
            assert_eq!(median.at(p, 0.5), mean.at(p, 0.5));
        }
        assert_eq!(tail.at(0.5, 0.5).0, 100);
        assert_eq!(tail.at(0.99, 0.5).0, 320);
    }

    #[test]
    fn impossible_models_name_their_key() {
        let key = |yaml| lengths(yaml).unwrap_err().key;
        assert_eq!(
            key("{input: {fixed: 0}, output: {fixed: 1}}"),
            "lengths.input.fixed"
        );
        assert_eq!(key("{input: {fixed: 1}}"), "lengths.output");
        assert_eq!(
            key("{input: {lognormal: {median: 4}}, output: {fixed: 1}}"),
            "lengths.input.lognormal"
        );
        assert_eq!(
            key("{input: {lognormal: {median: .nan, sigma: 1}}, output: {fixed: 1}}"),
            "lengths.input.lognormal.median"
        );
        assert_eq!(
            key("{input: {lognormal: {p50: 9, p99: 9}}, output: {fixed: 1}}"),
            "lengths.input.lognormal.p99"
        );
        assert_eq!(
            key("{input: {fixed: 1}, output: {fixed: 1}, max_total: 1}"),
            "lengths.max_total"
        );
    }
}
