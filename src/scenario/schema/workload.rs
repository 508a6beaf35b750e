//! The `workload:` section.

use std::path::PathBuf;

use serde::Deserialize;

use super::value::{Limit, Rate, Span, Warmup, WordOr};
use crate::workload::lengths::{BandsSpec, MarginalSpec};

/// Generated requests (`lengths`, `arrivals`, `rate`), or a recorded trace (`trace`).
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A recorded trace file, relative to the scenario file or to the current folder.
    pub trace: Option<PathBuf>,
    /// The trace's format; `auto` looks at its content.
    pub format: Option<String>,
    /// Recorded gaps between arrivals are multiplied by this.
    pub time_scale: Option<f64>,
    /// At most that many first requests of the trace.
    pub limit: Option<Limit>,
    /// A named length distribution, or one by its parameters.
    pub lengths: Option<WordOr<Lengths>>,
    /// The arrival process: `poisson`, `constant`, or `{gamma: {cv: 2}}`.
    pub arrivals: Option<WordOr<ArrivalKind>>,
    /// Mean arrival rate of the whole cluster; of a trace, the rate it is rescaled to.
    pub rate: Option<Rate>,
    /// How many requests to generate.
    pub requests: Option<u64>,
    /// How long to generate requests.
    pub duration: Option<Span>,
    /// What to leave out of the metrics at the start.
    pub warmup: Option<Warmup>,
}

/// Prompt and output lengths by parameters: `fixed`, or a distribution each for `input` and `output`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lengths {
    /// Every request alike; stands alone.
    pub fixed: Option<FixedLengths>,
    /// Prompt tokens.
    pub input: Option<MarginalSpec>,
    /// Output tokens.
    pub output: Option<MarginalSpec>,
    /// Output tokens by the rank of the prompt, instead of `output`.
    pub output_by_input: Option<BandsSpec>,
    /// Correlation of the Gaussian copula between `input` and `output`.
    pub correlation: Option<f64>,
    /// Most prompt + output tokens.
    pub max_total: Option<u32>,
}

/// Lengths in tokens that never vary.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FixedLengths {
    /// Prompt tokens.
    pub input: u32,
    /// Output tokens.
    pub output: u32,
}

/// An arrival process by parameters.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Gamma-distributed gaps.
    Gamma(Gamma),
}

/// Gamma gaps.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gamma {
    /// Coefficient of variation of the gaps: 1 is Poisson, above is burstier.
    pub cv: f64,
}
