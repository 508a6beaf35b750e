//! How to read a trace, and what to take from it.

use std::str::FromStr;

use crate::units::{PS_PER_S, SimDuration};
use crate::workload::error::{WorkloadError, positive};
use crate::workload::trace::Format;

/// How to read a trace. The steps apply in the order of the fields from `failed` down.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// The format; found from the content when absent.
    pub format: Option<Format>,
    /// The unit of numeric times; the format's own when absent.
    pub time_unit: Option<TimeUnit>,
    /// The clients' `max_tokens`; the longest output of the trace when absent.
    pub max_output: Option<u32>,
    /// Characters per token, to estimate the lengths of texts without token counts; 4 when absent.
    pub chars_per_token: Option<f64>,
    /// What to do with requests that failed or have an empty reply.
    pub failed: Failed,
    /// Keeps only arrivals of this window.
    pub window: Option<Window>,
    /// Keeps each session (each request, where there are no sessions) with this chance, above 0 and at most 1.
    pub sample: Option<f64>,
    /// The longest prompt + output, and what to do beyond.
    pub max_context: Option<MaxContext>,
    /// Stops after this many kept requests.
    pub limit: Option<u64>,
    /// Multiplies all gaps.
    pub time_scale: Option<f64>,
    /// Stretches time to this mean rate in requests per second.
    pub rate: Option<f64>,
    /// Replaces the arrivals by a Poisson process of the same mean rate (or of `rate`), drawn from `seed`.
    pub shuffle_arrivals: bool,
    /// Seed of `sample`, `shuffle_arrivals` and of formats that describe distributions rather than requests.
    pub seed: u64,
}

/// A unit of numeric times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// s
    Seconds,
    /// ms
    Milliseconds,
    /// us
    Microseconds,
    /// ns
    Nanoseconds,
}

/// What to do with requests that failed or have an empty reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Failed {
    /// Drop them and count them.
    #[default]
    Drop,
    /// Keep their prompt, with one output token: the work of the prefill was done.
    PrefillOnly,
}

/// A window of arrivals, counted from the first arrival of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: SimDuration,
    /// Its end, not included; none for the end of the trace.
    pub to: Option<SimDuration>,
}

/// The longest prompt + output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxContext {
    /// Most tokens, at least 2.
    pub tokens: u32,
    /// What to do with a longer request.
    pub beyond: Beyond,
}

/// What to do with a request beyond the longest context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// Drop it and count it.
    Drop,
    /// Cut the prompt, down to one token, then the output.
    Truncate,
}

impl TimeUnit {
    /// Picoseconds in the unit.
    #[must_use]
    pub const fn ps(self) -> u64 {
        match self {
            Self::Seconds => PS_PER_S,
            Self::Milliseconds => PS_PER_S / 1000,
            Self::Microseconds => PS_PER_S / 1_000_000,
            Self::Nanoseconds => PS_PER_S / 1_000_000_000,
        }
    }

    /// Its symbol.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "us",
            Self::Nanoseconds => "ns",
        }
    }

    /// The units from long to short.
    pub(crate) const ALL: [Self; 4] = [
        Self::Seconds,
        Self::Milliseconds,
        Self::Microseconds,
        Self::Nanoseconds,
    ];
}

impl FromStr for TimeUnit {
    type Err = WorkloadError;

    fn from_str(symbol: &str) -> Result<Self, WorkloadError> {
        let known = Self::ALL.into_iter().find(|unit| unit.symbol() == symbol);
        known.ok_or_else(|| {
            WorkloadError::unknown_name(
                "time_unit",
                symbol,
                Self::ALL.iter().map(|unit| unit.symbol()),
            )
        })
    }
}

impl ReadOptions {
    /// Checks every option.
    ///
    /// # Errors
    /// Names the first key with an impossible value.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        for (key, value) in [
            ("rate", self.rate),
            ("time_scale", self.time_scale),
            ("chars_per_token", self.chars_per_token),
        ] {
            value.map_or(Ok(1.0), |value| positive(key, value))?;
        }
        if let Some(sample) = self
            .sample
            .filter(|sample| !(*sample > 0.0 && *sample <= 1.0))
        {
            return Err(WorkloadError::new(
                "sample",
                sample,
                "a share above 0 and at most 1",
            ));
        }
        if self.limit == Some(0) {
            return Err(WorkloadError::new(
                "limit",
                0,
                "a whole number of at least 1",
            ));
        }
        if self.max_output == Some(0) {
            return Err(WorkloadError::new(
                "max_output",
                0,
                "a whole number of at least 1",
            ));
        }
        if let Some(context) = self.max_context.filter(|context| context.tokens < 2) {
            return Err(WorkloadError::new(
                "max_context",
                context.tokens,
                "at least 2 tokens, one prompt and one output",
            ));
        }
        if let Some(window) = self.window
            && window.to.is_some_and(|to| to <= window.from)
        {
            let seen = format!("{:?}", window.from);
            return Err(WorkloadError::new("window", seen, "a start before the end"));
        }
        if self.rate.is_some() && self.time_scale.is_some() {
            return Err(WorkloadError::new(
                "rate",
                "both",
                "only one of `rate` and `time_scale`",
            ));
        }
        Ok(())
    }
}
