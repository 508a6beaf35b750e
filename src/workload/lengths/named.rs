//! Named length distributions that ship with pdsim.
//!
//! Each is one file of `traces/lengths/`, embedded at build time: where it comes from, its licence, how it was
//! made, and the model. A new one is a file and a line in the list below.

use serde::Deserialize;

use crate::workload::error::WorkloadError;
use crate::workload::lengths::{LengthModel, LengthsSpec};

/// The embedded files by name, in the order in which they are listed.
const FILES: [(&str, &str); 10] = [
    (
        "azure-code-2023",
        include_str!("../../../traces/lengths/azure-code-2023.yaml"),
    ),
    (
        "azure-conv-2023",
        include_str!("../../../traces/lengths/azure-conv-2023.yaml"),
    ),
    (
        "mooncake-conversation",
        include_str!("../../../traces/lengths/mooncake-conversation.yaml"),
    ),
    (
        "mooncake-synthetic",
        include_str!("../../../traces/lengths/mooncake-synthetic.yaml"),
    ),
    (
        "sharegpt",
        include_str!("../../../traces/lengths/sharegpt.yaml"),
    ),
    (
        "humaneval",
        include_str!("../../../traces/lengths/humaneval.yaml"),
    ),
    (
        "longbench",
        include_str!("../../../traces/lengths/longbench.yaml"),
    ),
    (
        "burstgpt",
        include_str!("../../../traces/lengths/burstgpt.yaml"),
    ),
    (
        "vllm-random",
        include_str!("../../../traces/lengths/vllm-random.yaml"),
    ),
    (
        "generated-shared-prefix",
        include_str!("../../../traces/lengths/generated-shared-prefix.yaml"),
    ),
];

/// A named length distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What it models, in a sentence.
    pub about: String,
    /// Whether the model was fitted to data or made from published means.
    pub provenance: Provenance,
    /// Where the data or the means come from.
    pub source: String,
    /// The licence of the source.
    pub licence: String,
    /// The model.
    pub lengths: LengthModel,
}

/// Where the numbers of a named distribution come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Fitted to the rows of a public trace.
    Fitted,
    /// Made to match published means; the shape is an assumption.
    PublishedMeans,
    /// What a load generator sends with its default settings.
    Generator,
}

/// One file of `traces/lengths/`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    about: String,
    provenance: Provenance,
    source: String,
    licence: String,
    method: String,
    lengths: LengthsSpec,
}

/// The names of all named distributions.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(name, _)| *name)
}

/// Looks up a named distribution.
///
/// # Errors
/// When no distribution has that name; the message lists those that exist and the nearest.
///
/// # Panics
/// When an embedded file is broken, which the tests exclude.
pub fn named(name: &str) -> Result<Named, WorkloadError> {
    let (_, text) = FILES
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| WorkloadError::unknown_name("lengths", name, names()))?;
    let document = serde_yaml::Deserializer::from_str(text);
    let file: File = serde_yaml::with::singleton_map_recursive::deserialize(document)
        .expect("the tests read every embedded file");
    debug_assert!(!file.method.is_empty(), "every file says how it was made");
    let lengths = file
        .lengths
        .resolve()
        .expect("the tests read every embedded file");
    Ok(Named {
        name: file.name,
        about: file.about,
        provenance: file.provenance,
        source: file.source,
        licence: file.licence,
        lengths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_file_reads_and_carries_its_own_name() {
        for name in names() {
            let named = named(name).unwrap();
            assert_eq!(named.name, name);
            assert!(!named.source.is_empty() && !named.licence.is_empty());
        }
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = named("azure-conv").unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("azure-conv-2023"));
    }

    #[test]
    fn published_means_are_met() {
        // DistServe's workloads and Llumnix's BurstGPT; the tolerance is the rounding of whole tokens.
        for (name, input, output) in [
            ("sharegpt", 755.5, 200.3),
            ("humaneval", 171.3, 98.2),
            ("longbench", 1738.3, 90.7),
            ("burstgpt", 830.0, 271.0),
        ] {
            let (i, o) = named(name).unwrap().lengths.means();
            assert!((i / input - 1.0).abs() < 0.01, "{name}: prompt mean {i}");
            assert!((o / output - 1.0).abs() < 0.01, "{name}: output mean {o}");
        }
    }
}
