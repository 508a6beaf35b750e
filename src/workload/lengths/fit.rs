//! Fits a length model to recorded pairs.

use std::fmt::Write as _;

use crate::workload::error::WorkloadError;
use crate::workload::lengths::{Bands, LengthModel, Marginal, Quantiles};

/// How finely a fit follows the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitShape {
    /// Bands of the prompt's rank, each with its own output distribution.
    pub bands: usize,
}

impl Default for FitShape {
    fn default() -> Self {
        Self { bands: 12 }
    }
}

/// Probabilities of the prompt grid: every percent, finer in the tails.
fn input_grid() -> Vec<f64> {
    let mut at = vec![0.0, 0.0025, 0.005];
    at.extend((1..100).map(|i| f64::from(i) / 100.0));
    at.extend([0.995, 0.9975, 0.999, 1.0]);
    at
}

/// Probabilities of an output grid: every 4 %, finer in the tails.
fn output_grid() -> Vec<f64> {
    let mut at = vec![0.0, 0.01, 0.02];
    at.extend((1..25).map(|i| f64::from(i) / 25.0));
    at.extend([0.98, 0.99, 0.995, 1.0]);
    at
}

/// The fitted model together with its written form.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The model.
    pub model: LengthModel,
    /// The model as YAML, below a `lengths:` key.
    pub yaml: String,
}

/// Fits a quantile grid for the prompt, and one for the output in each band of the prompt's rank, to pairs of
/// (prompt, output) tokens.
///
/// # Errors
/// When there are fewer pairs than bands, or a pair holds a 0.
pub fn fit(pairs: &[(u32, u32)], shape: FitShape) -> Result<Fit, WorkloadError> {
    let bands = shape.bands.max(1);
    if pairs.len() < bands {
        let allowed = format!("at least one pair for each of {bands} bands");
        return Err(WorkloadError::new(
            "lengths",
            format!("{} pairs", pairs.len()),
            allowed,
        ));
    }
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let inputs: Vec<u32> = sorted.iter().map(|pair| pair.0).collect();
    let input = grid("lengths.input", &inputs, input_grid())?;
    let mut up_to = Vec::new();
    let mut grids = Vec::new();
    for band in 0..bands {
        let (start, end) = (
            band * sorted.len() / bands,
            (band + 1) * sorted.len() / bands,
        );
        let mut outputs: Vec<u32> = sorted[start..end].iter().map(|pair| pair.1).collect();
        outputs.sort_unstable();
        grids.push(grid("lengths.output_by_input", &outputs, output_grid())?);
        up_to.push(round(end as f64 / sorted.len() as f64));
    }
    let yaml = written(&input, &up_to, &grids);
    let bands = Bands::new("lengths.output_by_input", up_to, grids)?;
    let model = LengthModel::banded(Marginal::quantiles(input), bands);
    Ok(Fit { model, yaml })
}

/// Six decimals are finer than any sample and keep the written form equal to the model.
fn round(p: f64) -> f64 {
    (p * 1e6).round() / 1e6
}

fn grid(key: &str, sorted: &[u32], at: Vec<f64>) -> Result<Quantiles, WorkloadError> {
    let tokens = at.iter().map(|p| quantile(sorted, *p)).collect();
    Quantiles::new(key, at, tokens)
}

/// The percentile of the sorted lengths, by linear interpolation, rounded to a whole token.
fn quantile(sorted: &[u32], p: f64) -> u32 {
    let position = p * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 <= p <= 1, so the position lies inside the slice"
    )]
    let below = position as usize;
    let (low, high) = (sorted[below], sorted[(below + 1).min(sorted.len() - 1)]);
    let between = f64::from(low) + (position - below as f64) * f64::from(high - low);
    super::marginal::whole(between.round(), low, high)
}

/// Writes the model in the form that [`super::LengthsSpec`] reads.
fn written(input: &Quantiles, up_to: &[f64], grids: &[Quantiles]) -> String {
    let mut yaml = String::from("lengths:\n  input:\n    quantiles:\n");
    list(&mut yaml, "      at", input.at());
    list(&mut yaml, "      tokens", input.tokens());
    yaml.push_str("  output_by_input:\n");
    list(&mut yaml, "    up_to", up_to);
    list(&mut yaml, "    at", grids[0].at());
    yaml.push_str("    tokens:\n");
    for grid in grids {
        list(&mut yaml, "    -", grid.tokens());
    }
    yaml
}

/// Writes one flow list on wrapped lines, its label in front.
fn list<T: std::fmt::Display>(yaml: &mut String, label: &str, items: &[T]) {
    let colon = if label.ends_with('-') { "" } else { ":" };
    let _ = write!(yaml, "{label}{colon} [");
    let mut column = label.len();
    for (i, item) in items.iter().enumerate() {
        let text = item.to_string();
        let comma = if i + 1 == items.len() { "]" } else { "," };
        if column + text.len() > 105 {
            let indent = " ".repeat(label.len() + 1);
            let _ = write!(yaml, "\n{indent}");
            column = indent.len();
        } else if i > 0 {
            yaml.push(' ');
        }
        let _ = write!(yaml, "{text}{comma}");
        column += text.len() + 2;
    }
    yaml.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use crate::workload::lengths::LengthsSpec;

    #[test]
    fn the_written_form_is_the_fitted_model() {
        let source = LengthModel::copula(
            Marginal::lognormal("i", 800.0, 1.0, 1, 9000).unwrap(),
            Marginal::lognormal("o", 120.0, 0.8, 1, 2000).unwrap(),
            0.5,
        )
        .unwrap();
        let mut rng = stream(1, "lengths");
        let pairs: Vec<(u32, u32)> = (0..5000).map(|_| source.draw(&mut rng)).collect();
        let fit = fit(&pairs, FitShape::default()).unwrap();
        let body: serde_yaml::Value = serde_yaml::from_str(&fit.yaml).unwrap();
        let spec: LengthsSpec =
            serde_yaml::with::singleton_map_recursive::deserialize(body["lengths"].clone())
                .unwrap();
        assert_eq!(spec.resolve().unwrap(), fit.model);
    }

    #[test]
    fn too_few_pairs_are_refused() {
        assert!(fit(&[(1, 1); 3], FitShape { bands: 4 }).is_err());
        assert!(fit(&[(0, 1); 30], FitShape { bands: 4 }).is_err());
    }
}
