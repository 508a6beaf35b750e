//! Length models: how many tokens a request brings and asks for.
//!
//! A model draws the prompt length first and the output length from a second uniform number, either independently,
//! or tied by a Gaussian copula, or from the distribution that belongs to the prompt's length band. Every request
//! takes exactly two uniform numbers, so changing one model's parameters never shifts the draws of later requests.
//!
//! It does not model drift over time or correlation between requests that follow each other.

mod fit;
mod grid;
mod marginal;
mod named;
mod spec;

use std::sync::Arc;

pub use fit::{Fit, FitShape, fit};
pub use grid::{Bands, Quantiles};
pub use marginal::Marginal;
pub use named::{Named, Provenance, named, names};
pub use spec::{BandsSpec, LengthsSpec, LognormalSpec, MarginalSpec, QuantilesSpec};

use crate::rng::Rng;
use crate::workload::draw;
use crate::workload::error::WorkloadError;

/// The joint distribution of prompt and output tokens; cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub struct LengthModel {
    input: Marginal,
    output: Output,
    max_total: Option<u32>,
}

/// How the output length depends on the prompt length.
#[derive(Debug, Clone, PartialEq)]
enum Output {
    /// A Gaussian copula; correlation 0 is independence.
    Copula {
        marginal: Marginal,
        correlation: f64,
    },
    /// A distribution for each band of the prompt's rank.
    Bands(Arc<Bands>),
}

impl LengthModel {
    /// Draws both lengths independently.
    #[must_use]
    pub const fn independent(input: Marginal, output: Marginal) -> Self {
        let output = Output::Copula {
            marginal: output,
            correlation: 0.0,
        };
        Self {
            input,
            output,
            max_total: None,
        }
    }

    /// Ties the two lengths by a Gaussian copula with the given correlation of the underlying normals.
    ///
    /// # Errors
    /// When `correlation` is not strictly between -1 and 1.
    pub fn copula(
        input: Marginal,
        output: Marginal,
        correlation: f64,
    ) -> Result<Self, WorkloadError> {
        if !(correlation > -1.0 && correlation < 1.0) {
            return Err(WorkloadError::new(
                "lengths.correlation",
                correlation,
                "a number between -1 and 1, exclusive",
            ));
        }
        let output = Output::Copula {
            marginal: output,
            correlation,
        };
        Ok(Self {
            input,
            output,
            max_total: None,
        })
    }

    /// Draws the output from the distribution that belongs to the prompt's rank.
    #[must_use]
    pub fn banded(input: Marginal, output: Bands) -> Self {
        Self {
            input,
            output: Output::Bands(Arc::new(output)),
            max_total: None,
        }
    }

    /// Caps prompt + output: a longer prompt is cut to leave one token, then the output to what is left.
    ///
    /// # Errors
    /// When `max_total` is below 2.
    pub fn with_max_total(mut self, max_total: u32) -> Result<Self, WorkloadError> {
        if max_total < 2 {
            return Err(WorkloadError::new(
                "lengths.max_total",
                max_total,
                "a whole number of at least 2",
            ));
        }
        self.max_total = Some(max_total);
        Ok(self)
    }

    /// Draws `(prompt tokens, output tokens)`, both at least 1.
    #[must_use]
    pub fn draw(&self, rng: &mut Rng) -> (u32, u32) {
        let (first, second) = (draw::uniform(rng), draw::uniform(rng));
        self.at(first, second)
    }

    /// The lengths that belong to two independent uniform numbers.
    fn at(&self, first: f64, second: f64) -> (u32, u32) {
        let mut input = self.input.quantile(first);
        let mut output = match &self.output {
            Output::Copula {
                marginal,
                correlation,
            } => marginal.quantile(tie(first, second, *correlation)),
            Output::Bands(bands) => bands.quantile(first, second),
        };
        if let Some(total) = self.max_total {
            input = input.min(total - 1);
            output = output.min(total - input);
        }
        (input, output)
    }

    /// The longest prompt the model can draw.
    #[must_use]
    pub fn max_input(&self) -> u32 {
        let longest = self.input.max();
        self.max_total
            .map_or(longest, |total| longest.min(total - 1))
    }

    /// The longest output the model can draw.
    #[must_use]
    pub fn max_output(&self) -> u32 {
        let longest = match &self.output {
            Output::Copula { marginal, .. } => marginal.max(),
            Output::Bands(bands) => bands.max(),
        };
        self.max_total
            .map_or(longest, |total| longest.min(total - 1))
    }

    /// The mean prompt and output tokens, from a fixed lattice of quantiles (good to about 0.1 %).
    #[must_use]
    pub fn means(&self) -> (f64, f64) {
        const SIDE: u32 = 256;
        let at = |i: u32| (f64::from(i) + 0.5) / f64::from(SIDE);
        let (mut inputs, mut outputs) = (0.0, 0.0);
        for i in 0..SIDE {
            for j in 0..SIDE {
                let (input, output) = self.at(at(i), at(j));
                inputs += f64::from(input);
                outputs += f64::from(output);
            }
        }
        let n = f64::from(SIDE * SIDE);
        (inputs / n, outputs / n)
    }
}

/// The second uniform number of a Gaussian copula, given the first and an independent one.
fn tie(first: f64, second: f64, correlation: f64) -> f64 {
    if correlation.abs() < f64::EPSILON {
        return second;
    }
    let own = libm::sqrt(1.0 - correlation * correlation);
    let z = correlation * draw::normal_quantile(first) + own * draw::normal_quantile(second);
    draw::normal_cdf(z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    fn fixed(tokens: u32) -> Marginal {
        Marginal::fixed("tokens", tokens).unwrap()
    }

    #[test]
    fn max_total_cuts_the_prompt_first_and_the_output_to_what_is_left() {
        let model = LengthModel::independent(fixed(100), fixed(50));
        let draw = |total| {
            let capped = model.clone().with_max_total(total).unwrap();
            capped.draw(&mut stream(1, "lengths"))
        };
        assert_eq!(draw(200), (100, 50));
        assert_eq!(draw(120), (100, 20));
        assert_eq!(draw(100), (99, 1));
        assert!(model.with_max_total(1).is_err());
    }

    #[test]
    fn a_copula_gives_the_rank_correlation_of_its_normals() {
        let uniform = || Marginal::uniform("u", 1, 1_000_000).unwrap();
        let model = LengthModel::copula(uniform(), uniform(), 0.7).unwrap();
        let mut rng = stream(5, "lengths");
        let n = 100_000;
        let (mut x, mut y, mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            let (a, b) = model.draw(&mut rng);
            let (a, b) = (f64::from(a) / 1e6, f64::from(b) / 1e6);
            x += a;
            y += b;
            xy += a * b;
            xx += a * a;
            yy += b * b;
        }
        let n = f64::from(n);
        let seen =
            (xy / n - x * y / n / n) / ((xx / n - x * x / n / n) * (yy / n - y * y / n / n)).sqrt();
        // Spearman's rho of a Gaussian copula: 6/pi asin(r/2).
        let expected = 6.0 / std::f64::consts::PI * (0.35_f64).asin();
        assert!(
            (seen - expected).abs() < 0.01,
            "{seen} instead of {expected}"
        );
    }

    #[test]
    fn impossible_correlations_name_their_key() {
        for r in [1.0, -1.0, f64::NAN] {
            let error = LengthModel::copula(fixed(1), fixed(1), r).unwrap_err();
            assert_eq!(error.key, "lengths.correlation");
        }
    }
}
