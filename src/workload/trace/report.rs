//! The account of a read: rows read = kept + dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::units::SimDuration;
use crate::workload::generate::mean_rate;
use crate::workload::trace::{Format, Row};

/// Why a well-formed row is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The prompt has no tokens.
    NoPromptTokens,
    /// No output token was generated: a failed or empty reply.
    NoOutputTokens,
}

/// Something to know before trusting the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadWarning {
    /// Rows arrived before the row above them; the trace was sorted.
    Unsorted {
        /// How many rows.
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
    /// Rows that became requests.
    pub kept: u64,
    /// Rows that did not, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Kept rows that stood after a later one.
    pub out_of_order: u64,
    /// The first arrival on the format's own clock, in picoseconds; it became time zero.
    pub shifted_by_ps: i128,
    /// From the first to the last arrival.
    pub span: SimDuration,
    /// Names of the classes by number; empty when the trace has none.
    pub classes: Vec<String>,
    /// What to know before trusting the trace.
    pub warnings: Vec<ReadWarning>,
}

impl DropReason {
    /// The reason to drop `row`, if there is one.
    pub(crate) const fn of(row: &Row) -> Option<Self> {
        match (row.input_tokens, row.output_tokens) {
            (0, _) => Some(Self::NoPromptTokens),
            (_, 0) => Some(Self::NoOutputTokens),
            _ => None,
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPromptTokens => "no prompt tokens",
            Self::NoOutputTokens => "no output tokens (failed or empty reply)",
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
        }
    }
}

impl ReadReport {
    pub(crate) fn new(path: &Path, format: Format, detected: bool) -> Self {
        Self {
            path: path.to_owned(),
            format,
            detected,
            kept: 0,
            dropped: BTreeMap::new(),
            out_of_order: 0,
            shifted_by_ps: 0,
            span: SimDuration::ZERO,
            classes: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Rows read: kept and dropped.
    #[must_use]
    pub fn rows_read(&self) -> u64 {
        self.kept + self.dropped.values().sum::<u64>()
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
            .map(|(reason, n)| format!("{n} with {reason}"))
            .collect();
        parts.join(", ")
    }
}

impl fmt::Display for ReadReport {
    /// Writes the account on one line; warnings are apart.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped: u64 = self.dropped.values().sum();
        write!(
            f,
            "{}: {} rows read = {} kept + {dropped} dropped",
            self.path.display(),
            self.rows_read(),
            self.kept
        )?;
        if dropped > 0 {
            write!(f, " ({})", self.dropped_text())?;
        }
        let how = if self.detected {
            "by content"
        } else {
            "as asked"
        };
        write!(
            f,
            "; format {} ({how}); span {:.3} s",
            self.format,
            self.span.as_secs_f64()
        )?;
        if let Some(rate) = mean_rate(self.kept, self.span) {
            write!(f, ", {rate:.3} requests/s")?;
        }
        if self.shifted_by_ps != 0 {
            f.write_str("; times shifted so that the first arrival is at 0")?;
        }
        Ok(())
    }
}
