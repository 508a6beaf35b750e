//! The `workload:` section.

use std::path::PathBuf;

use serde::Deserialize;

use super::value::{Rate, Span, Warmup, WordOr};

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
    pub limit: Option<u64>,
    /// A named length distribution, or one by its parameters.
    pub lengths: Option<WordOr<LengthKind>>,
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

/// Prompt and output lengths by parameters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthKind {
    /// Every request alike.
    Fixed(FixedLengths),
    /// Uniform between two lengths, both included.
    Uniform(LengthPair<Uniform>),
    /// Lognormal, input and output independent.
    Lognormal(LengthPair<Lognormal>),
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

/// One distribution for prompts and one for outputs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthPair<T> {
    /// Prompt tokens.
    pub input: T,
    /// Output tokens.
    pub output: T,
}

/// Bounds in tokens, both included.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// Least tokens.
    pub min: u32,
    /// Most tokens.
    pub max: u32,
}

/// A lognormal length: `median` or `mean`, and `sigma` or `p99`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lognormal {
    /// Median tokens.
    pub median: Option<f64>,
    /// Mean tokens.
    pub mean: Option<f64>,
    /// Standard deviation of the logarithm.
    pub sigma: Option<f64>,
    /// 99th percentile in tokens.
    pub p99: Option<f64>,
    /// Draws below are raised to this.
    pub min: Option<u32>,
    /// Draws above are cut to this.
    pub max: Option<u32>,
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
