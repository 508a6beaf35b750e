//! The account of a read: rows read = kept + dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::units::{PS_PER_S, SimDuration};
use crate::workload::generate::mean_rate;
use crate::workload::trace::format::Format;
use crate::workload::trace::options::TimeUnit;

/// Why a well-formed row is no request of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The prompt has no tokens.
    NoPromptTokens,
    /// No output token was generated: a failed or empty reply.
    NoOutputTokens,
    /// The row is marked as failed.
    Failed,
    /// The row belongs to the warm-up of a benchmark.
    Warmup,
    /// The row holds text without a token count.
    NoTokenCount,
    /// The conversation has fewer than two turns.
    NoAnswer,
    /// The arrival lies outside the window asked for.
    OutsideWindow,
    /// Thinning left the row out.
    NotSampled,
    /// Prompt + output are beyond the longest context.
    BeyondMaxContext,
}

/// Something to know before trusting the trace: what was seen, why, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadWarning {
    /// Rows arrived before the row above them; the trace was sorted.
    Unsorted {
        /// How many rows.
        rows: u64,
    },
    /// The rate is implausible in the unit read, and plausible in another.
    UnlikelyRate {
        /// The rate, in thousandths of a request per second.
        millirate: u64,
        /// The unit read.
        unit: TimeUnit,
        /// The unit that would give a plausible rate.
        likely: TimeUnit,
    },
    /// Naive local times jump by about an hour.
    DaylightSaving {
        /// The line after the jump.
        line: u64,
        /// Whether the clock went back.
        back: bool,
    },
    /// Ids that should be unique are not.
    DuplicateIds {
        /// Rows with an id seen before.
        rows: u64,
    },
    /// Turns name a parent that the trace does not hold.
    MissingParents {
        /// How many rows.
        rows: u64,
    },
    /// Turns have a delay after the turn before, instead of a time.
    DelayOnly {
        /// How many turns.
        turns: u64,
    },
    /// The format holds no arrivals, so all requests arrive at once.
    NoTimes,
    /// Token counts were estimated from characters.
    EstimatedTokens {
        /// Characters per token.
        chars_per_token: String,
    },
    /// Every session starts at its own time zero.
    SessionsStartTogether {
        /// How many sessions.
        sessions: u64,
    },
    /// Requests were drawn from a description in windows.
    DrawnFromWindows {
        /// Windows read.
        windows: u64,
        /// Windows with rate 0.
        empty: u64,
        /// Windows that took the lengths of another.
        inherited: u64,
    },
    /// Many rows share their arrival, so burstiness below that resolution is an artefact.
    CoarseTimes {
        /// Distinct arrivals.
        distinct: u64,
        /// Rows.
        rows: u64,
    },
    /// Failed requests were kept with one output token.
    PrefillOnly {
        /// How many.
        rows: u64,
    },
    /// Requests were cut to the longest context.
    Truncated {
        /// How many.
        rows: u64,
    },
}

/// What was read from a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadReport {
    /// The trace.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// Whether the format was found from the content.
    pub detected: bool,
    /// The unit of its times; none for calendar times and formats without times.
    pub unit: Option<TimeUnit>,
    /// Rows that became requests.
    pub kept: u64,
    /// Rows that did not, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Whether reading stopped at the limit, with rows left.
    pub stopped_at_limit: bool,
    /// Kept rows that stood after a later one.
    pub out_of_order: u64,
    /// What was taken from every time, in picoseconds of the format's own clock.
    pub shifted_by_ps: i128,
    /// From the first to the last arrival, as read.
    pub span: SimDuration,
    /// Names of the classes by number; empty when the trace has none.
    pub classes: Vec<String>,
    /// Whether any kept row belongs to a session.
    pub has_sessions: bool,
    /// Whether any kept row states the client's `max_tokens`.
    pub has_max_output: bool,
    /// What to know before trusting the trace.
    pub warnings: Vec<ReadWarning>,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPromptTokens => "no prompt tokens",
            Self::NoOutputTokens => "no output tokens (failed or empty reply)",
            Self::Failed => "marked as failed",
            Self::Warmup => "part of the benchmark's warm-up",
            Self::NoTokenCount => "text without a token count",
            Self::NoAnswer => "fewer than two turns",
            Self::OutsideWindow => "outside the window",
            Self::NotSampled => "left out by thinning",
            Self::BeyondMaxContext => "beyond the longest context",
        })
    }
}

impl fmt::Display for ReadWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsorted { rows } => write!(
                f,
                "{rows} rows arrive before the row above them; the trace was sorted by arrival; sort the file to silence this"
            ),
            Self::UnlikelyRate { millirate, unit, likely } => {
                let (rate, unit, likely) = (*millirate as f64 / 1000.0, unit.symbol(), likely.symbol());
                write!(
                    f,
                    "{rate} requests/s when the times are read as {unit}: they look like {likely}; give the time unit {likely} if so"
                )
            }
            Self::DaylightSaving { line, back } => {
                let way = if *back { "back" } else { "forward" };
                write!(
                    f,
                    "naive local times jump {way} by about an hour at line {line}, as clocks do for daylight saving; write UTC or an offset"
                )
            }
            Self::DuplicateIds { rows } => write!(
                f,
                "{rows} rows have an id seen before; all are kept; remove doubles if the file was joined from parts"
            ),
            Self::MissingParents { rows } => write!(
                f,
                "{rows} turns name a parent that is not in the trace, as in a sample; each starts a session of its own"
            ),
            Self::DelayOnly { turns } => write!(
                f,
                "{turns} turns have a delay instead of a time; each arrives that long after the turn before it, which leaves out the reply's own time"
            ),
            Self::NoTimes => f.write_str(
                "the file holds no arrival times, so all requests arrive at once; replace the arrivals (`shuffle_arrivals` with a `rate`)",
            ),
            Self::EstimatedTokens { chars_per_token } => write!(
                f,
                "token counts are estimated at {chars_per_token} characters per token; use a file of counted lengths for results to rely on"
            ),
            Self::SessionsStartTogether { sessions } => write!(
                f,
                "each of the {sessions} sessions starts at its own time zero, so they all start together; give them starts of their own"
            ),
            Self::DrawnFromWindows { windows, empty, inherited } => write!(
                f,
                "requests are drawn from {windows} windows ({empty} with rate 0, {inherited} with the lengths of another window), not recorded"
            ),
            Self::CoarseTimes { distinct, rows } => write!(
                f,
                "{rows} rows share {distinct} arrival times; bursts below that resolution are an artefact of the stamps"
            ),
            Self::PrefillOnly { rows } => {
                write!(f, "{rows} failed requests are kept with their prompt and one output token, as asked")
            }
            Self::Truncated { rows } => write!(f, "{rows} requests were cut to the longest context, as asked"),
        }
    }
}

impl ReadReport {
    pub(crate) fn new(path: &Path, format: Format, detected: bool) -> Self {
        Self {
            path: path.to_owned(),
            format,
            detected,
            unit: None,
            kept: 0,
            dropped: BTreeMap::new(),
            stopped_at_limit: false,
            out_of_order: 0,
            shifted_by_ps: 0,
            span: SimDuration::ZERO,
            classes: Vec::new(),
            has_sessions: false,
            has_max_output: false,
            warnings: Vec::new(),
        }
    }

    /// Counts a dropped row.
    pub(crate) fn drop_row(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// Rows read: kept and dropped.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.kept + self.rows_dropped()
    }

    /// Rows dropped, for whatever reason.
    #[must_use]
    pub fn rows_dropped(&self) -> u64 {
        self.dropped.values().sum()
    }

    /// Dropped rows by reason, as text.
    #[must_use]
    pub fn dropped_text(&self) -> String {
        if self.dropped.is_empty() {
            return "none".to_owned();
        }
        let parts: Vec<String> = self
            .dropped
            .iter()
            .map(|(reason, n)| format!("{n} {reason}"))
            .collect();
        parts.join(", ")
    }

    /// Mean rate in requests per second as read; none when all arrive at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        mean_rate(self.kept, self.span)
    }

    /// Warns of a rate that another unit would make plausible.
    pub(crate) fn judge_rate(&mut self) {
        // Clusters see between one request in some minutes and some hundreds a second.
        const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.01..=1000.0;
        let (Some(unit), Some(rate)) = (self.unit, self.rate()) else {
            return;
        };
        if self.kept < 20 || PLAUSIBLE.contains(&rate) {
            return;
        }
        let as_unit = |other: TimeUnit| rate * unit.ps() as f64 / other.ps() as f64;
        let likely = TimeUnit::ALL
            .into_iter()
            .find(|other| PLAUSIBLE.contains(&as_unit(*other)));
        let Some(likely) = likely else { return };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float-to-int casts saturate; the rate is positive and only printed"
        )]
        let millirate = (rate * 1000.0).round() as u64;
        self.warnings.push(ReadWarning::UnlikelyRate {
            millirate,
            unit,
            likely,
        });
    }
}

impl fmt::Display for ReadReport {
    /// Writes the account on one line; warnings are apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, read, kept, dropped) = (
            self.path.display(),
            self.rows_read(),
            self.kept,
            self.rows_dropped(),
        );
        write!(
            f,
            "{path}: {read} rows read = {kept} kept + {dropped} dropped"
        )?;
        if dropped > 0 {
            write!(f, " ({})", self.dropped_text())?;
        }
        if self.stopped_at_limit {
            f.write_str(", stopped at the limit")?;
        }
        let how = if self.detected {
            "by content"
        } else {
            "as asked"
        };
        write!(f, "; format {} ({how})", self.format)?;
        if let Some(unit) = self.unit {
            write!(f, ", times in {}", unit.symbol())?;
        }
        write!(f, "; span {:.3} s", self.span.as_secs_f64())?;
        if let Some(rate) = self.rate() {
            write!(f, ", {rate:.3} requests/s")?;
        }
        if self.shifted_by_ps != 0 {
            let seconds = self.shifted_by_ps as f64 / PS_PER_S as f64;
            write!(
                f,
                "; times shifted by {:.3} s so that the first arrival is at 0",
                -seconds
            )?;
        }
        Ok(())
    }
}
