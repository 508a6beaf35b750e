//! Vidur CSV: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds.
//!
//! Vidur's length-only traces lack `arrived_at`; all their requests then arrive at once.

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::columns::Columns;
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

/// The columns that must be there, in lower case.
pub(crate) const COLUMNS: [&str; 2] = ["num_prefill_tokens", "num_decode_tokens"];

const ARRIVED_AT: usize = 2;

/// Reads a Vidur trace.
pub(crate) struct Vidur {
    columns: Columns,
    unit_ps: u64,
}

impl Vidur {
    /// Reads the header; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Result<Self, Fault> {
        let columns = Columns::new(input, &COLUMNS, &["arrived_at"])?;
        Ok(Self { columns, unit_ps })
    }
}

impl Rows for Vidur {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        let at_ps = match self.columns.has(ARRIVED_AT) {
            true => self.columns.time(ARRIVED_AT, self.unit_ps)?,
            false => 0,
        };
        Ok(Some(Row {
            at_ps,
            input_tokens: self.columns.tokens(0)?,
            output_tokens: self.columns.tokens(1)?,
            ..Row::default()
        }))
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let absent = !self.columns.has(ARRIVED_AT);
        absent.then_some(ReadWarning::NoTimes).into_iter().collect()
    }
}
