//! Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`.
//!
//! The 2023 release has naive times with seven decimals (`2023-11-16 18:17:03.9799600`); that of 2024 has UTC offsets
//! (`2024-05-10 00:00:00.009930+00:00`). Naive times are taken as UTC.

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::columns::Columns;
use crate::workload::trace::parse::instant::instant;
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

/// The columns that must be there, in lower case.
pub(crate) const COLUMNS: [&str; 3] = ["timestamp", "contexttokens", "generatedtokens"];

/// A jump of naive local times that looks like daylight saving: an hour, give or take a minute of traffic.
const HOUR_PS: i128 = 3_600_000_000_000_000;
const MINUTE_PS: i128 = 60_000_000_000_000;

/// Reads an Azure trace.
pub(crate) struct Azure {
    columns: Columns,
    last: Option<i128>,
    rows: u64,
    naive: bool,
    jumps: Vec<(u64, bool)>,
}

impl Azure {
    /// Reads the header.
    pub(crate) fn new(input: Input) -> Result<Self, Fault> {
        Ok(Self {
            columns: Columns::new(input, &COLUMNS, &[])?,
            last: None,
            rows: 0,
            naive: false,
            jumps: Vec::new(),
        })
    }

    /// Notes a jump of about an hour between neighbours of naive times.
    fn watch(&mut self, at_ps: i128) {
        if let Some(last) = self.last
            && self.naive
            && ((at_ps - last).abs() - HOUR_PS).abs() < MINUTE_PS
        {
            self.jumps.push((self.columns.line(), at_ps < last));
        }
        self.last = Some(at_ps);
        self.rows += 1;
    }
}

impl Rows for Azure {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        let field = self.columns.field(0)?;
        let (at_ps, zoned) = instant(field).ok_or_else(|| {
            self.columns
                .fault(0, field, "a time such as 2023-11-16 18:17:03.9799600")
        })?;
        self.naive |= !zoned;
        self.watch(at_ps);
        Ok(Some(Row {
            at_ps,
            input_tokens: self.columns.tokens(1)?,
            output_tokens: self.columns.tokens(2)?,
            ..Row::default()
        }))
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let jump = |(line, back): &(u64, bool)| ReadWarning::DaylightSaving {
            line: *line,
            back: *back,
        };
        // Many such gaps are sparse traffic; a clock change comes once or twice a year.
        let few = self.jumps.len() <= 2 && self.rows > 100;
        self.jumps.iter().filter(|_| few).map(jump).collect()
    }
}
