//! Reads rows, drops those that are no request of the workload, and counts both.

#[cfg(test)]
use std::io::BufRead;
use std::path::Path;

use crate::units::SimDuration;
use crate::workload::trace::error::TraceError;
use crate::workload::trace::format::Format;
use crate::workload::trace::options::{Beyond, Failed, ReadOptions};
use crate::workload::trace::report::{DropReason, ReadReport, ReadWarning};
use crate::workload::trace::row::{Extra, Row, Rows};
use crate::workload::trace::sorted::Sorted;
use crate::workload::trace::source::{self, Input};

/// Why a read stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The trace cannot be used.
    Error(TraceError),
    /// A row arrives before the row above it; read again with [`Reader::open_sorted`].
    Unsorted,
}

impl From<TraceError> for Stop {
    fn from(error: TraceError) -> Self {
        Self::Error(error)
    }
}

/// The kept rows of a trace in order of arrival, in constant memory unless the file had to be sorted.
pub(crate) struct Reader {
    rows: Box<dyn Rows>,
    options: ReadOptions,
    report: ReadReport,
    /// Arrival of the first row that is a request, before the window.
    zero_ps: Option<i128>,
    first_ps: Option<i128>,
    last_ps: i128,
    row: u64,
    distinct: u64,
    truncated: u64,
    prefill_only: u64,
}

impl Reader {
    /// Opens a trace to be read in the order of the file.
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Self, TraceError> {
        let opened = source::open(path).map_err(|error| TraceError::io(path, error))?;
        Self::start(opened, path, options)
    }

    /// Opens other input; `path` is named in messages.
    #[cfg(test)]
    pub(crate) fn from_input(
        input: impl BufRead + Send + 'static,
        path: &Path,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        let opened = source::peek(input).map_err(|error| TraceError::io(path, error))?;
        Self::start(opened, path, options)
    }

    /// Finds the format and starts its reader.
    fn start(
        (head, input): (Vec<u8>, Input),
        path: &Path,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        options.validate()?;
        let format = match options.format {
            Some(format) => format,
            None => Format::detect(&head)
                .map_err(|seen| TraceError::unknown_format(path, head.is_empty(), seen))?,
        };
        let rows = format
            .rows(input, path, options)
            .map_err(|fault| TraceError::malformed(path, fault, 0))?;
        let mut report = ReadReport::new(path, format, options.format.is_none());
        report.unit = format.unit().map(|unit| options.time_unit.unwrap_or(unit));
        Ok(Self {
            rows,
            options: options.clone(),
            report,
            zero_ps: None,
            first_ps: None,
            last_ps: i128::MIN,
            row: 0,
            distinct: 0,
            truncated: 0,
            prefill_only: 0,
        })
    }

    /// Reads everything into memory and sorts it by arrival; rows that arrive together keep their order.
    pub(crate) fn into_sorted(mut self) -> Result<Self, TraceError> {
        let (sorted, out_of_order) = Sorted::read(self.rows.as_mut())
            .map_err(|(fault, good)| TraceError::malformed(&self.report.path, fault, good))?;
        self.report.out_of_order = out_of_order;
        self.rows = Box::new(sorted);
        Ok(self)
    }

    /// The next kept row, or none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, Stop> {
        loop {
            if self
                .options
                .limit
                .is_some_and(|limit| self.report.kept >= limit)
            {
                self.report.stopped_at_limit = true;
                return Ok(None);
            }
            let row = self.rows.next_row();
            let row = row.map_err(|fault| {
                TraceError::malformed(&self.report.path, fault, self.report.kept)
            })?;
            let Some(mut row) = row else { return Ok(None) };
            self.row += 1;
            if let Err(reason) = self.judge(&mut row)? {
                self.report.drop_row(reason);
                continue;
            }
            self.report.kept += 1;
            self.report.has_sessions |= row.session != 0;
            self.report.has_max_output |= row.max_output != 0;
            self.first_ps.get_or_insert(row.at_ps);
            return Ok(Some(row));
        }
    }

    /// Decides whether a row is kept, and changes it as the options ask.
    fn judge(&mut self, row: &mut Row) -> Result<Result<(), DropReason>, Stop> {
        match row.drop {
            Some(DropReason::Failed) if self.options.failed == Failed::PrefillOnly => {
                row.output_tokens = 0;
            }
            Some(reason) => return Ok(Err(reason)),
            None => {}
        }
        if row.input_tokens == 0 {
            return Ok(Err(DropReason::NoPromptTokens));
        }
        let failed = row.output_tokens == 0;
        if failed {
            if self.options.failed == Failed::Drop {
                return Ok(Err(DropReason::NoOutputTokens));
            }
            row.output_tokens = 1;
        }
        if row.at_ps < self.last_ps {
            return Err(Stop::Unsorted);
        }
        self.distinct += u64::from(row.at_ps > self.last_ps);
        self.last_ps = row.at_ps;
        let zero = *self.zero_ps.get_or_insert(row.at_ps);
        if !self.in_window(row.at_ps - zero) {
            return Ok(Err(DropReason::OutsideWindow));
        }
        if !self.sampled(row) {
            return Ok(Err(DropReason::NotSampled));
        }
        if !self.fits(row) {
            return Ok(Err(DropReason::BeyondMaxContext));
        }
        self.prefill_only += u64::from(failed);
        Ok(Ok(()))
    }

    fn in_window(&self, since_ps: i128) -> bool {
        let Some(window) = self.options.window else {
            return true;
        };
        let ps = |span: SimDuration| i128::from(span.as_ps());
        since_ps >= ps(window.from) && window.to.is_none_or(|to| since_ps < ps(to))
    }

    /// Keeps a session whole: the choice depends on the session's number and the seed alone.
    fn sampled(&self, row: &Row) -> bool {
        let Some(share) = self.options.sample else {
            return true;
        };
        let key = if row.session == 0 {
            self.row
        } else {
            row.session
        };
        // One SplitMix64 round.
        let mut z = key ^ self.options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// Cuts a request to the longest context where asked; false if it is to be dropped.
    fn fits(&mut self, row: &mut Row) -> bool {
        let Some(context) = self.options.max_context else {
            return true;
        };
        if u64::from(row.input_tokens) + u64::from(row.output_tokens) <= u64::from(context.tokens) {
            return true;
        }
        if context.beyond == Beyond::Drop {
            return false;
        }
        row.output_tokens = row.output_tokens.min(context.tokens - 1);
        row.input_tokens = row.input_tokens.min(context.tokens - row.output_tokens);
        self.truncated += 1;
        true
    }

    /// The rarer parts of the row handed out last.
    pub(crate) fn extra(&self) -> Extra<'_> {
        self.rows.extra()
    }

    /// Ends the read: the account, with the classes and the warnings.
    ///
    /// # Errors
    /// When no row was kept.
    pub(crate) fn finish(self) -> Result<ReadReport, TraceError> {
        let mut report = self.report;
        let Some(first) = self.first_ps else {
            return Err(TraceError::Empty {
                path: report.path.clone(),
                read: report.rows_read(),
                dropped: report.dropped_text(),
            });
        };
        let last = self.last_ps;
        report.shifted_by_ps = shift(report.format, &self.options, first);
        report.span = span(first, last).ok_or_else(|| TraceError::TooLong {
            path: report.path.clone(),
            format: report.format,
        })?;
        report.classes = self.rows.classes().to_vec();
        report.warnings.append(&mut self.rows.warnings());
        let rows = report.kept;
        for (n, warning) in [
            (
                report.out_of_order,
                ReadWarning::Unsorted {
                    rows: report.out_of_order,
                },
            ),
            (
                self.prefill_only,
                ReadWarning::PrefillOnly {
                    rows: self.prefill_only,
                },
            ),
            (
                self.truncated,
                ReadWarning::Truncated {
                    rows: self.truncated,
                },
            ),
        ] {
            if n > 0 {
                report.warnings.push(warning);
            }
        }
        if rows >= 100 && self.distinct < rows / 4 && last > first {
            let distinct = self.distinct;
            report
                .warnings
                .push(ReadWarning::CoarseTimes { distinct, rows });
        }
        report.judge_rate();
        Ok(report)
    }
}

/// What is taken from every time: the first arrival, except where times already count from the simulation's start.
///
/// pdsim's own formats keep their times, so that a workload written by one run is the same in the next; a first
/// arrival later than a day is taken to be on another clock.
pub(crate) fn shift(format: Format, options: &ReadOptions, first_ps: i128) -> i128 {
    const DAY_PS: i128 = 86_400_000_000_000_000;
    let keeps = format.is_own() && options.window.is_none() && first_ps <= DAY_PS;
    if keeps { 0 } else { first_ps }
}

/// The span between two arrivals, if the clock can hold it twice over.
fn span(first_ps: i128, last_ps: i128) -> Option<SimDuration> {
    let ps = u64::try_from(last_ps - first_ps).ok()?;
    (ps < u64::MAX / 2).then(|| SimDuration::from_ps(ps))
}

/// Reads all kept rows in order of arrival into a state that `start` makes anew for every pass over the file.
///
/// # Errors
/// As [`super::read_trace`].
pub(crate) fn read_rows<S>(
    path: &Path,
    options: &ReadOptions,
    start: impl Fn() -> S,
    add: impl Fn(&mut S, &Row, &Extra<'_>),
) -> Result<(ReadReport, S), TraceError> {
    read_in_order(
        || Reader::open(path, options),
        |mut reader| {
            let mut state = start();
            while let Some(row) = reader.next()? {
                add(&mut state, &row, &reader.extra());
            }
            Ok((reader.finish()?, state))
        },
    )
}

/// Runs `read` on the trace in the order of the file and, if that is not the order of arrival, again on the sorted one.
///
/// # Errors
/// As `read`, or when the trace cannot be opened.
pub(crate) fn read_in_order<T>(
    open: impl Fn() -> Result<Reader, TraceError>,
    mut read: impl FnMut(Reader) -> Result<T, Stop>,
) -> Result<T, TraceError> {
    match read(open()?) {
        Ok(value) => return Ok(value),
        Err(Stop::Error(error)) => return Err(error),
        Err(Stop::Unsorted) => {}
    }
    match read(open()?.into_sorted()?) {
        Ok(value) => Ok(value),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Unsorted) => unreachable!("sorted rows are in order"),
    }
}
