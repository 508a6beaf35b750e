//! BurstGPT CSV, releases 1 to 3: seconds from the first midnight, read by column name.
//!
//! A response of 0 tokens is a failed request. Release 3 inserts `Session ID` and `Elapsed time`.

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::columns::Columns;
use crate::workload::trace::row::{Classes, Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

/// The columns that must be there, in lower case.
pub(crate) const COLUMNS: [&str; 4] = ["timestamp", "model", "request tokens", "response tokens"];

const SESSION: usize = 4;

/// Reads a BurstGPT trace; the class is the model.
pub(crate) struct BurstGpt {
    columns: Columns,
    unit_ps: u64,
    classes: Classes,
}

impl BurstGpt {
    /// Reads the header; timestamps are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Result<Self, Fault> {
        Ok(Self {
            columns: Columns::new(input, &COLUMNS, &["session id"])?,
            unit_ps,
            classes: Classes::default(),
        })
    }
}

impl Rows for BurstGpt {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        let model = self.columns.text(1)?;
        let class = self.classes.number(model);
        let class = class.ok_or_else(|| {
            self.columns
                .fault(1, model.as_bytes(), "at most 65536 different models")
        })?;
        Ok(Some(Row {
            at_ps: self.columns.time(0, self.unit_ps)?,
            input_tokens: self.columns.tokens(2)?,
            output_tokens: self.columns.tokens(3)?,
            class,
            session: session_number(self.columns.text(SESSION)?),
            ..Row::default()
        }))
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: self.columns.text(SESSION).unwrap_or_default(),
            ..Extra::default()
        }
    }

    fn classes(&self) -> &[String] {
        self.classes.names()
    }
}
