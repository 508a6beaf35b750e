//! pdsim's own CSV: `arrival_s,input_tokens,output_tokens` and optionally `class`, `session` and `max_output`.
//!
//! The columns are those of `requests.csv` too, so the results of a run can be replayed.

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::columns::Columns;
use crate::workload::trace::row::{Classes, Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

/// The columns that must be there.
pub(crate) const COLUMNS: [&str; 3] = ["arrival_s", "input_tokens", "output_tokens"];

const CLASS: usize = 3;
const SESSION: usize = 4;
const MAX_OUTPUT: usize = 5;

/// Reads pdsim CSV; classes are names, numbered in the order of first appearance.
pub(crate) struct PdsimCsv {
    columns: Columns,
    unit_ps: u64,
    classes: Classes,
}

impl PdsimCsv {
    /// Reads the header; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Result<Self, Fault> {
        Ok(Self {
            columns: Columns::new(input, &COLUMNS, &["class", "session", "max_output"])?,
            unit_ps,
            classes: Classes::default(),
        })
    }

    fn class(&mut self) -> Result<u16, Fault> {
        if !self.columns.has(CLASS) {
            return Ok(0);
        }
        let name = self.columns.text(CLASS)?;
        let class = self.classes.number(name);
        class.ok_or_else(|| {
            self.columns
                .fault(CLASS, name.as_bytes(), "at most 65536 different classes")
        })
    }
}

impl Rows for PdsimCsv {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        Ok(Some(Row {
            at_ps: self.columns.time(0, self.unit_ps)?,
            input_tokens: self.columns.tokens(1)?,
            output_tokens: self.columns.tokens(2)?,
            max_output: match self.columns.has(MAX_OUTPUT) {
                true => self.columns.tokens(MAX_OUTPUT)?,
                false => 0,
            },
            class: self.class()?,
            session: session_number(self.columns.text(SESSION)?),
            drop: None,
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
