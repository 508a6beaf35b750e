//! Quantile grids: recorded length distributions as a few numbers.

use crate::workload::error::WorkloadError;
use crate::workload::lengths::marginal::whole;

/// A quantile function given at a few probabilities, linear between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantiles {
    at: Vec<f64>,
    tokens: Vec<u32>,
}

/// One output quantile function for each band of the prompt's rank, all at the same probabilities.
#[derive(Debug, Clone, PartialEq)]
pub struct Bands {
    up_to: Vec<f64>,
    grids: Vec<Quantiles>,
}

impl Quantiles {
    /// Makes the grid with `tokens[i]` at probability `at[i]`.
    ///
    /// # Errors
    /// When `at` does not rise strictly from 0 to 1, or `tokens` has another length, falls, or holds a 0. `key` is
    /// the path named by the error.
    pub fn new(key: &str, at: Vec<f64>, tokens: Vec<u32>) -> Result<Self, WorkloadError> {
        let rises = at.windows(2).all(|pair| pair[0] < pair[1]);
        let ends = at.first().is_some_and(|p| p.abs() < f64::EPSILON)
            && at.last().is_some_and(|p| (p - 1.0).abs() < f64::EPSILON);
        if !rises || !ends || at.len() < 2 {
            let allowed = "probabilities that rise strictly from 0 to 1";
            return Err(WorkloadError::new(
                format!("{key}.at"),
                format!("{at:?}"),
                allowed,
            ));
        }
        let falls = tokens.windows(2).any(|pair| pair[0] > pair[1]);
        if tokens.len() != at.len() || tokens.first() == Some(&0) || falls {
            let allowed = format!("{} whole numbers of at least 1 that never fall", at.len());
            return Err(WorkloadError::new(
                format!("{key}.tokens"),
                format!("{tokens:?}"),
                allowed,
            ));
        }
        Ok(Self { at, tokens })
    }

    /// The length at probability `p` in (0, 1).
    #[must_use]
    pub fn quantile(&self, p: f64) -> u32 {
        let right = self
            .at
            .partition_point(|at| *at <= p)
            .clamp(1, self.at.len() - 1);
        let left = right - 1;
        let share = (p - self.at[left]) / (self.at[right] - self.at[left]);
        let (low, high) = (self.tokens[left], self.tokens[right]);
        whole(
            (f64::from(low) + share * f64::from(high - low)).round(),
            low,
            high,
        )
    }

    /// The longest length.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.tokens[self.tokens.len() - 1]
    }

    /// The probabilities of the grid.
    #[must_use]
    pub fn at(&self) -> &[f64] {
        &self.at
    }

    /// The lengths at those probabilities.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl Bands {
    /// Makes the bands whose prompt ranks end at `up_to[i]` with the output grid `grids[i]`.
    ///
    /// # Errors
    /// When `up_to` does not rise strictly to 1, or there is not one grid for each band.
    pub fn new(key: &str, up_to: Vec<f64>, grids: Vec<Quantiles>) -> Result<Self, WorkloadError> {
        let rises = up_to.windows(2).all(|pair| pair[0] < pair[1]);
        let starts = up_to.first().is_some_and(|p| *p > 0.0);
        let ends = up_to.last().is_some_and(|p| (p - 1.0).abs() < f64::EPSILON);
        if !rises || !starts || !ends {
            let allowed = "probabilities above 0 that rise strictly to 1";
            return Err(WorkloadError::new(
                format!("{key}.up_to"),
                format!("{up_to:?}"),
                allowed,
            ));
        }
        if grids.len() != up_to.len() {
            let allowed = format!("one row for each of the {} bands", up_to.len());
            return Err(WorkloadError::new(
                format!("{key}.tokens"),
                format!("{} rows", grids.len()),
                allowed,
            ));
        }
        Ok(Self { up_to, grids })
    }

    /// The output length at probability `p` for a prompt of rank `prompt`.
    #[must_use]
    pub fn quantile(&self, prompt: f64, p: f64) -> u32 {
        let band = self.up_to.partition_point(|end| *end <= prompt);
        self.grids[band.min(self.grids.len() - 1)].quantile(p)
    }

    /// The longest output.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.grids.iter().map(Quantiles::max).max().unwrap_or(1)
    }

    /// The end of each band as a rank of the prompt.
    #[must_use]
    pub fn up_to(&self) -> &[f64] {
        &self.up_to
    }

    /// The output grid of each band.
    #[must_use]
    pub fn grids(&self) -> &[Quantiles] {
        &self.grids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_exact_at_its_points_and_linear_between() {
        let grid = Quantiles::new("q", vec![0.0, 0.5, 1.0], vec![10, 20, 120]).unwrap();
        assert_eq!(grid.quantile(0.25), 15);
        assert_eq!(grid.quantile(0.5), 20);
        assert_eq!(grid.quantile(0.75), 70);
        assert_eq!(grid.quantile(1.0 - 1e-12), 120);
    }

    #[test]
    fn a_bad_grid_names_its_key() {
        let key = |at: &[f64], tokens: &[u32]| {
            Quantiles::new("q", at.to_vec(), tokens.to_vec())
                .unwrap_err()
                .key
        };
        assert_eq!(key(&[0.0, 0.9], &[1, 2]), "q.at");
        assert_eq!(key(&[0.0, 0.5, 0.5, 1.0], &[1, 2, 3, 4]), "q.at");
        assert_eq!(key(&[0.0, f64::NAN, 1.0], &[1, 2, 3]), "q.at");
        assert_eq!(key(&[], &[]), "q.at");
        assert_eq!(key(&[0.0, 1.0], &[2, 1]), "q.tokens");
        assert_eq!(key(&[0.0, 1.0], &[0, 1]), "q.tokens");
        assert_eq!(key(&[0.0, 1.0], &[1]), "q.tokens");
    }

    #[test]
    fn a_band_is_chosen_by_the_rank_of_the_prompt() {
        let grid = |tokens| Quantiles::new("q", vec![0.0, 1.0], vec![tokens, tokens]).unwrap();
        let bands = Bands::new("b", vec![0.3, 1.0], vec![grid(5), grid(9)]).unwrap();
        assert_eq!(bands.quantile(0.29, 0.5), 5);
        assert_eq!(bands.quantile(0.3, 0.5), 9);
        assert_eq!(bands.quantile(0.999, 0.5), 9);
        assert_eq!(
            Bands::new("b", vec![0.3], vec![grid(5)]).unwrap_err().key,
            "b.up_to"
        );
        assert_eq!(
            Bands::new("b", vec![0.3, 1.0], vec![grid(5)])
                .unwrap_err()
                .key,
            "b.tokens"
        );
    }
}
