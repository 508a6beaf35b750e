//! Why a trace could not be read.

use std::io;
use std::path::{Path, PathBuf};

use crate::workload::error::WorkloadError;
use crate::workload::trace::format::Format;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened or read.
    #[error("{path}: cannot read: {source}", path = path.display())]
    Io {
        /// The trace.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The first line belongs to no known format.
    #[error(
        "{path}:1: the format is not known from the first line `{seen}`; known formats are {known}; name one to read it anyway (`--format`, or `workload.format` in a scenario)",
        path = path.display()
    )]
    UnknownFormat {
        /// The trace.
        path: PathBuf,
        /// The first line, shortened.
        seen: String,
        /// The names of the formats.
        known: String,
    },
    /// A line is not what its format promises.
    #[error("{path}:{line}: {seen} where {expected} is expected ({good} rows before it were good)", path = path.display())]
    Malformed {
        /// The trace.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What stands there.
        seen: String,
        /// What should stand there.
        expected: String,
        /// Rows kept before this line.
        good: u64,
    },
    /// Nothing is left to simulate.
    #[error("{path}: no request in this trace: {read} rows read, dropped: {dropped}", path = path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
        /// Rows read.
        read: u64,
        /// Dropped rows by reason.
        dropped: String,
    },
    /// The file is no longer what it was when it was scanned.
    #[error("{path}: the trace changed while it was in use", path = path.display())]
    Changed {
        /// The trace.
        path: PathBuf,
    },
    /// A read option holds an impossible value.
    #[error("{0}")]
    Options(#[from] WorkloadError),
    /// The span does not fit the clock.
    #[error(
        "{path}: the first and the last arrival are more than 106 days apart when read as {format}; check the unit of the times or choose the format by name",
        path = path.display()
    )]
    TooLong {
        /// The trace.
        path: PathBuf,
        /// How it was read.
        format: Format,
    },
}

/// A malformed line, before the file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The line, from 1.
    pub(crate) line: u64,
    /// What stands there.
    pub(crate) seen: String,
    /// What should stand there.
    pub(crate) expected: String,
}

impl Fault {
    /// Makes the fault of `line`; `seen` is shortened to stay on one line of a terminal.
    pub(crate) fn new(line: u64, seen: &str, expected: impl Into<String>) -> Self {
        Self {
            line,
            seen: short(seen),
            expected: expected.into(),
        }
    }
}

impl Fault {
    /// Makes the fault of input that cannot be read on, at `line`.
    pub(crate) fn io(line: u64, error: &io::Error) -> Self {
        Self::new(
            line,
            &error.to_string(),
            "readable data to the end of the file",
        )
    }
}

/// The first characters of a text, control characters made visible. Quotes and backslashes stay as they stand in the file,
/// and a text that has been shortened once does not change again.
pub(crate) fn short(text: &str) -> String {
    const KEEP: usize = 60;
    let mut out = String::new();
    for c in text.chars().take(KEEP) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if text.chars().nth(KEEP).is_some() {
        out.push('…');
    }
    out
}

impl TraceError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn unknown_format(path: &Path, empty: bool, seen: String) -> Self {
        if empty {
            return Self::Empty {
                path: path.to_owned(),
                read: 0,
                dropped: "none, the file is empty".to_owned(),
            };
        }
        Self::UnknownFormat {
            path: path.to_owned(),
            seen,
            known: Format::names().collect::<Vec<_>>().join(", "),
        }
    }

    pub(crate) fn changed(path: &Path) -> Self {
        Self::Changed {
            path: path.to_owned(),
        }
    }

    pub(crate) fn malformed(path: &Path, fault: Fault, good: u64) -> Self {
        Self::Malformed {
            path: path.to_owned(),
            line: fault.line,
            seen: fault.seen,
            expected: fault.expected,
            good,
        }
    }
}
