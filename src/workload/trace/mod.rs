//! Recorded traces: reads the files people have, and accounts for every row.
//!
//! A reader turns one format's rows into plain rows; everything common (dropping, shifting to time zero, sorting,
//! counting) happens here. Rows read = kept + dropped, each drop with a reason; a row that cannot be understood is an
//! error with its line, never a silent gap.
//!
//! Arrivals are shifted so that the first is at time zero; relative times are kept to the picosecond.

mod azure;
mod columns;
mod decimal;
mod error;
mod format;
mod mooncake;
mod pdsim_csv;
mod report;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

pub use error::TraceError;
pub use format::Format;
pub use report::{DropReason, ReadReport, ReadWarning};

use crate::units::SimTime;
use crate::workload::RequestSpec;
use crate::workload::generate::mean_rate;
use error::Fault;

/// How to read a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; found from the content when absent.
    pub format: Option<Format>,
    /// The clients' `max_tokens`; the longest output of the trace when absent.
    pub max_output: Option<u32>,
}

/// A recorded trace: requests in order of arrival, the first at time zero.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The requests.
    pub requests: Arc<[RequestSpec]>,
    /// What was read, kept and dropped.
    pub report: ReadReport,
}

impl Trace {
    /// Mean rate in requests per second; none when all arrive at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let last = self.requests.last()?.arrival;
        mean_rate(self.requests.len() as u64, last - SimTime::ZERO)
    }
}

/// One row as a reader understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// Arrival in picoseconds since the format's own zero (the epoch, the start of the trace).
    pub(crate) at_ps: i128,
    /// Prompt tokens.
    pub(crate) input_tokens: u32,
    /// Output tokens.
    pub(crate) output_tokens: u32,
    /// Index of the class in the order of first appearance.
    pub(crate) class: u16,
}

/// Reads the rows of one format.
pub(crate) trait Rows {
    /// The next row, or none at the end of the file.
    fn next_row(&mut self) -> Result<Option<Row>, Fault>;

    /// The names of the classes seen so far, in the order of their numbers.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reads a trace file whole.
///
/// # Errors
/// When the file cannot be read, its format is not known, a line is malformed, or no row is kept.
pub fn read_trace(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
    let file = File::open(path).map_err(|source| TraceError::io(path, source))?;
    read_from(BufReader::with_capacity(1 << 16, file), path, options)
}

/// Reads a trace from open input; `path` is only named in messages.
///
/// # Errors
/// As [`read_trace`].
pub fn read_from(
    mut input: impl BufRead + 'static,
    path: &Path,
    options: &ReadOptions,
) -> Result<Trace, TraceError> {
    let head = input
        .fill_buf()
        .map_err(|source| TraceError::io(path, source))?;
    let format = match options.format {
        Some(format) => format,
        None => Format::detect(head)
            .map_err(|seen| TraceError::unknown_format(path, head.is_empty(), seen))?,
    };
    let mut rows = format
        .rows(Box::new(input))
        .map_err(|fault| TraceError::malformed(path, fault, 0))?;
    let mut report = ReadReport::new(path, format, options.format.is_none());
    let mut kept = collect(rows.as_mut(), path, &mut report)?;
    report.classes = rows.classes();
    let Some(first) = kept.iter().map(|row| row.at_ps).min() else {
        return Err(TraceError::Empty {
            path: path.to_owned(),
            read: report.rows_read(),
            dropped: report.dropped_text(),
        });
    };
    report.shifted_by_ps = first;
    if report.out_of_order > 0 {
        kept.sort_by_key(|row| row.at_ps);
        report.warnings.push(ReadWarning::Unsorted {
            rows: report.out_of_order,
        });
    }
    let longest = kept.iter().map(|row| row.output_tokens).max().unwrap_or(1);
    let max_output = options.max_output.unwrap_or(longest);
    let requests: Option<Arc<[RequestSpec]>> = kept
        .iter()
        .map(|row| request(row, first, max_output))
        .collect();
    let requests = requests.ok_or_else(|| TraceError::TooLong {
        path: path.to_owned(),
        format,
    })?;
    report.span = requests.last().map_or(SimTime::ZERO, |last| last.arrival) - SimTime::ZERO;
    Ok(Trace { requests, report })
}

/// Reads all rows, drops those that are no request, and counts both.
fn collect(
    rows: &mut dyn Rows,
    path: &Path,
    report: &mut ReadReport,
) -> Result<Vec<Row>, TraceError> {
    let mut kept: Vec<Row> = Vec::new();
    loop {
        let row = match rows.next_row() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(kept),
            Err(fault) => return Err(TraceError::malformed(path, fault, report.kept)),
        };
        if let Some(reason) = DropReason::of(&row) {
            *report.dropped.entry(reason).or_default() += 1;
            continue;
        }
        if kept.last().is_some_and(|last| row.at_ps < last.at_ps) {
            report.out_of_order += 1;
        }
        report.kept += 1;
        kept.push(row);
    }
}

/// The request of a row, or none when it lies beyond the clock's range.
fn request(row: &Row, first: i128, max_output: u32) -> Option<RequestSpec> {
    let ps = u64::try_from(row.at_ps - first)
        .ok()
        .filter(|ps| *ps < u64::MAX / 2)?;
    Some(RequestSpec {
        arrival: SimTime::from_ps(ps),
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        max_output,
        class: row.class,
    })
}

#[cfg(test)]
mod tests;
