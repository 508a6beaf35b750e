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
    /// The unit of the trace's numeric times: `s`, `ms`, `us` or `ns`; the format's own when absent.
    pub time_unit: Option<String>,
    /// Keeps the arrivals of this window of the trace.
    pub window: Option<TimeWindow>,
    /// Keeps each session of the trace with this chance.
    pub sample: Option<f64>,
    /// Longest prompt + output of the trace.
    pub max_context: Option<MaxContext>,
    /// What to do with failed requests of the trace.
    pub failed: Option<Failed>,
    /// Replaces the trace's arrivals by a Poisson process of the same mean rate.
    pub shuffle_arrivals: Option<bool>,
    /// A named length distribution, or one by its parameters.
    pub lengths: Option<WordOr<Lengths>>,
    /// The arrival process: `poisson`, `poisson_rescaled`, `constant`, or one by its parameters; `closed` sends whenever
    /// `concurrency` allows.
    pub arrivals: Option<WordOr<ArrivalKind>>,
    /// Most requests that the client keeps in flight.
    pub concurrency: Option<u64>,
    /// Mean arrival rate of the whole cluster; of a trace, the rate it is rescaled to.
    pub rate: Option<Rate>,
    /// How many requests to generate.
    pub requests: Option<u64>,
    /// How long to generate requests.
    pub duration: Option<Span>,
    /// What to leave out of the metrics at the start.
    pub warmup: Option<Warmup>,
}

impl Workload {
    /// The word for arrivals that follow the ends of earlier requests.
    pub const CLOSED: &str = "closed";
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

/// A window of arrivals, counted from the first of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeWindow {
    /// Its start; the first arrival when absent.
    pub from: Option<Span>,
    /// Its end, not included; the end of the trace when absent.
    pub to: Option<Span>,
}

/// The longest prompt + output of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaxContext {
    /// Most tokens.
    pub tokens: u32,
    /// What to do with a longer request.
    pub beyond: Beyond,
}

/// What to do with a request beyond the longest context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// Drop it and count it.
    Drop,
    /// Cut its prompt, then its output.
    Truncate,
}

/// What to do with failed requests of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failed {
    /// Drop them and count them.
    Drop,
    /// Keep their prompt with one output token.
    PrefillOnly,
}

/// An arrival process by parameters. The mean rate is `rate` beside it; `mmpp` and `schedule` may leave it out and then
/// keep the rates they are written in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Gamma-distributed gaps.
    Gamma(Gamma),
    /// Poisson bursts with exponential stays.
    OnOff(OnOff),
    /// Poisson arrivals in states with exponential stays of mean `for`, each left for any other with equal chance.
    Mmpp(Vec<Step>),
    /// Poisson arrivals at one rate after the other, then again from the start.
    Schedule(Vec<Step>),
    /// Relative rates of the 24 hours of a day, which repeats.
    Day([f64; 24]),
    /// A smooth wave around the mean rate.
    Sinusoid(Sinusoid),
    /// The arrivals of a recorded trace, with the lengths given beside it.
    Replay(PathBuf),
}

/// Bursts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnOff {
    /// Mean length of a burst.
    pub on: Span,
    /// Mean time between bursts.
    pub off: Span,
    /// Rate between bursts as a share of that within; 0 when absent.
    pub off_share: Option<f64>,
}

/// A stretch of time at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How long.
    #[serde(rename = "for")]
    pub span: Span,
    /// Mean arrival rate.
    pub rate: Rate,
}

/// A smooth wave around the mean rate.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sinusoid {
    /// From peak to peak.
    pub period: Span,
    /// Height of the peak above the mean, as a share of it, 0 to 1.
    pub amplitude: f64,
    /// Share of a period by which the wave is ahead, 0 to 1; 0.75 starts in the trough, 0 when absent.
    pub phase: Option<f64>,
}

/// Gamma gaps.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gamma {
    /// Coefficient of variation of the gaps: 1 is Poisson, above is burstier.
    pub cv: f64,
}
