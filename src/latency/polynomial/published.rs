//! The published coefficient sets that ship.

use serde::Deserialize;

use super::{Coefficients, Polynomial};

/// Every shipped set: name and text.
const SHIPPED: &[(&str, &str)] = &[
    (
        "distserve",
        include_str!("../../../profiles/polynomial/a100-80g-sxm.distserve.yaml"),
    ),
    (
        "vllm",
        include_str!("../../../profiles/polynomial/a100-80g-sxm.vllm.yaml"),
    ),
];

/// Newest format of a coefficient file.
const FORMAT: u32 = 1;

/// Says why there are no coefficients.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolynomialError {
    /// A coefficient is impossible.
    #[error(
        "{key}: {value} is not allowed; it must be a finite number of ms, at least zero (prefill.c may be negative)"
    )]
    BadCoefficient {
        /// Key path.
        key: &'static str,
        /// The value seen.
        value: f64,
    },
    /// No such set.
    #[error("unknown coefficient set `{name}`; known: {known}")]
    UnknownSet {
        /// The name as given.
        name: String,
        /// All names.
        known: String,
    },
    /// The set has nothing for this combination.
    #[error("the coefficient set `{set}` has no {model} at tp {tp} on {gpu}; it has {known}")]
    NoEntry {
        /// The set.
        set: String,
        /// The GPU asked for.
        gpu: String,
        /// The model asked for.
        model: String,
        /// The degree asked for.
        tp: u32,
        /// All entries.
        known: String,
    },
    /// The file is not a coefficient file.
    #[error("{path}: {reason}")]
    Parse {
        /// The file.
        path: String,
        /// Key path and reason.
        reason: String,
    },
}

/// A coefficient file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetFile {
    format: u32,
    name: String,
    gpu: String,
    #[expect(
        dead_code,
        reason = "required in the file: credit for whoever reads it"
    )]
    source: String,
    #[expect(dead_code, reason = "required in the file: terms of the source")]
    licence: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    model: String,
    tp: u32,
    coefficients: Coefficients,
}

/// Names of the shipped coefficient sets.
pub fn published_sets() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The published coefficients of a set for a model and tensor-parallel degree, without overheads.
///
/// # Errors
/// When there is no such set or it lacks the combination.
pub fn published(
    set: &str,
    gpu: &str,
    model: &str,
    tp: u32,
) -> Result<Polynomial, PolynomialError> {
    let Some((name, text)) = SHIPPED.iter().find(|(name, _)| *name == set) else {
        return Err(PolynomialError::UnknownSet {
            name: set.to_owned(),
            known: published_sets().collect::<Vec<_>>().join(", "),
        });
    };
    let file = parse(
        text,
        &format!("profiles/polynomial/a100-80g-sxm.{name}.yaml"),
    )?;
    let entry = file
        .entries
        .iter()
        .find(|e| file.gpu == gpu && e.model == model && e.tp == tp);
    match entry {
        Some(entry) => Polynomial::new(entry.coefficients),
        None => Err(PolynomialError::NoEntry {
            set: file.name,
            gpu: gpu.to_owned(),
            model: model.to_owned(),
            tp,
            known: file
                .entries
                .iter()
                .map(|e| format!("{} tp {}", e.model, e.tp))
                .collect::<Vec<_>>()
                .join(", ")
                + " on "
                + &file.gpu,
        }),
    }
}

fn parse(text: &str, path: &str) -> Result<SetFile, PolynomialError> {
    let bad = |reason: String| PolynomialError::Parse {
        path: path.to_owned(),
        reason,
    };
    let deserializer = serde_yaml::Deserializer::from_str(text);
    let file: SetFile = serde_path_to_error::deserialize(deserializer)
        .map_err(|e| bad(format!("{}: {}", e.path(), e.inner())))?;
    if file.format > FORMAT {
        return Err(bad(format!(
            "format {} is newer than this pdsim reads ({FORMAT})",
            file.format
        )));
    }
    Ok(file)
}
