//! Writes traces: pdsim CSV and JSONL, Mooncake JSONL.
//!
//! A writer says what its format cannot hold and counts what was lost, so that a conversion is known to be exact or not.

mod csv_writer;
mod jsonl;
mod mooncake;

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::units::{PS_PER_S, SimTime};
use crate::workload::Client;
use crate::workload::error::WorkloadError;
use crate::workload::generate::Workload;
use crate::workload::trace::error::TraceError;
use crate::workload::trace::format::Format;
use crate::workload::trace::options::ReadOptions;
use crate::workload::trace::reader::{Reader, Stop};
use crate::workload::trace::recorded::read_trace;
use crate::workload::trace::report::ReadReport;

/// A request to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    arrival: SimTime,
    input_tokens: u32,
    output_tokens: u32,
    /// 0 when unknown.
    max_output: u32,
    class: &'a str,
    session: &'a str,
    blocks: &'a [u64],
    block_tokens: u32,
}

/// Which of the rarer columns a trace has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Has {
    class: bool,
    session: bool,
    max_output: bool,
}

/// Writes one format.
trait Writer {
    /// Writes one request; what the format cannot hold goes to `losses`.
    fn line(&mut self, line: &Line<'_>, losses: &mut Losses) -> io::Result<()>;

    /// Writes what is still held back.
    fn finish(&mut self) -> io::Result<()>;
}

/// What a format could not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Arrivals rounded to the format's resolution.
    pub rounded_times: u64,
    /// Classes left out.
    pub classes: u64,
    /// Sessions left out.
    pub sessions: u64,
    /// Lists of prefix blocks left out.
    pub blocks: u64,
}

impl Losses {
    /// Whether nothing was lost.
    #[must_use]
    pub const fn none(&self) -> bool {
        self.rounded_times == 0 && self.classes == 0 && self.sessions == 0 && self.blocks == 0
    }
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = [
            (
                self.rounded_times,
                "arrivals rounded to the format's resolution",
            ),
            (self.classes, "classes left out"),
            (self.sessions, "sessions left out"),
            (self.blocks, "lists of prefix blocks left out"),
        ]
        .iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
        .collect();
        f.write_str(if parts.is_empty() { "nothing" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// Why a trace could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The trace could not be read.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// The output could not be written.
    #[error("cannot write the trace: {0}")]
    Io(#[from] io::Error),
    /// The format can be read only, or the workload cannot be streamed.
    #[error(transparent)]
    Value(#[from] WorkloadError),
}

/// The formats that can be written.
pub const WRITABLE: [Format; 3] = [Format::PdsimCsv, Format::PdsimJsonl, Format::Mooncake];

/// Reads the trace at `path` and writes it to `out` as `format`; sorted, shifted and changed as the options ask.
///
/// # Errors
/// When the trace cannot be read or written, or `format` cannot be written.
pub fn convert(
    path: &Path,
    options: &ReadOptions,
    format: Format,
    out: &mut dyn Write,
) -> Result<(ReadReport, Losses), WriteError> {
    // The first pass knows the span, from which new times follow; the second has the rarer parts of the rows.
    let trace = read_trace(path, options)?;
    let has = Has {
        class: !trace.report.classes.is_empty(),
        session: trace.report.has_sessions,
        max_output: trace.report.has_max_output,
    };
    let mut writer = open(format, has, out)?;
    let mut losses = Losses::default();
    let mut reader = Reader::open(path, options)?;
    if trace.report.out_of_order > 0 {
        reader = reader.into_sorted()?;
    }
    for request in trace.stream() {
        let row = reader.next().map_err(|stop| match stop {
            Stop::Error(error) => error,
            Stop::Unsorted => TraceError::changed(path),
        })?;
        let row = row.ok_or_else(|| TraceError::changed(path))?;
        let extra = reader.extra();
        let class = trace.report.classes.get(usize::from(row.class));
        let line = Line {
            arrival: request.arrival,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            max_output: row.max_output,
            class: class.map_or("", String::as_str),
            session: extra.session,
            blocks: extra.blocks,
            block_tokens: extra.block_tokens,
        };
        writer.line(&line, &mut losses)?;
    }
    if let Some(error) = trace.take_failure() {
        return Err(error.into());
    }
    writer.finish()?;
    Ok((trace.report.clone(), losses))
}

/// Writes the requests of `workload` under `seed` to `out` as `format`; returns how many there were.
///
/// A pdsim CSV or JSONL written so and read again is the same workload, to the picosecond.
///
/// # Errors
/// When the output cannot be written, or `format` cannot be written.
pub fn write_workload(
    workload: &Workload,
    seed: u64,
    format: Format,
    out: &mut dyn Write,
) -> Result<(u64, Losses), WriteError> {
    if workload.client() != Client::Open {
        let allowed = "no `concurrency` for a trace, since when a closed loop sends depends on the system; remove it and name an arrival process";
        return Err(WorkloadError::new("workload.concurrency", "there", allowed).into());
    }
    let has = Has {
        max_output: true,
        ..Has::default()
    };
    let mut writer = open(format, has, out)?;
    let mut losses = Losses::default();
    let mut written = 0;
    for request in workload.stream(seed) {
        let line = Line {
            arrival: request.arrival,
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            max_output: request.max_output,
            class: "",
            session: "",
            blocks: &[],
            block_tokens: 0,
        };
        writer.line(&line, &mut losses)?;
        written += 1;
    }
    if let Some(error) = workload.take_failure() {
        return Err(error.into());
    }
    writer.finish()?;
    Ok((written, losses))
}

fn open<'a>(
    format: Format,
    has: Has,
    out: &'a mut dyn Write,
) -> Result<Box<dyn Writer + 'a>, WriteError> {
    Ok(match format {
        Format::PdsimCsv => Box::new(csv_writer::CsvWriter::new(out, has)?),
        Format::PdsimJsonl => Box::new(jsonl::Jsonl::new(out)),
        Format::Mooncake => Box::new(mooncake::Mooncake::new(out)),
        other => {
            let names = WRITABLE.iter().map(|format| format.name());
            return Err(WorkloadError::unknown_name("format", other.name(), names).into());
        }
    })
}

/// Seconds with as many decimals as the picoseconds need.
fn seconds(at: SimTime) -> String {
    let (whole, rest) = (at.as_ps() / PS_PER_S, at.as_ps() % PS_PER_S);
    if rest == 0 {
        return whole.to_string();
    }
    let decimals = format!("{rest:012}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests;
