//! Splitwise simulator CSV: `request_id,…,arrival_timestamp,batch_size,prompt_size,token_size`, seconds.

use std::collections::HashSet;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::columns::Columns;
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Row, Rows, session_number};
use crate::workload::trace::source::Input;

/// The columns that must be there, in lower case.
pub(crate) const COLUMNS: [&str; 3] = ["arrival_timestamp", "prompt_size", "token_size"];

const ID: usize = 3;

/// Ids are watched for duplicates in the first million rows; the rest would cost memory for little.
const WATCHED_IDS: usize = 1_000_000;

/// Reads a Splitwise trace.
pub(crate) struct Splitwise {
    columns: Columns,
    unit_ps: u64,
    ids: HashSet<u64>,
    duplicates: u64,
}

impl Splitwise {
    /// Reads the header; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Result<Self, Fault> {
        Ok(Self {
            columns: Columns::new(input, &COLUMNS, &["request_id"])?,
            unit_ps,
            ids: HashSet::new(),
            duplicates: 0,
        })
    }
}

impl Rows for Splitwise {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        if self.columns.has(ID) && self.ids.len() < WATCHED_IDS {
            let id = session_number(self.columns.text(ID)?);
            self.duplicates += u64::from(!self.ids.insert(id));
        }
        Ok(Some(Row {
            at_ps: self.columns.time(0, self.unit_ps)?,
            input_tokens: self.columns.tokens(1)?,
            output_tokens: self.columns.tokens(2)?,
            ..Row::default()
        }))
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let rows = self.duplicates;
        (rows > 0)
            .then_some(ReadWarning::DuplicateIds { rows })
            .into_iter()
            .collect()
    }
}
