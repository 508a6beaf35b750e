//! pdsim's own CSV: `arrival_s,input_tokens,output_tokens` and optionally `class`.

use std::io::BufRead;

use crate::units::PS_PER_S;
use crate::workload::trace::columns::Columns;
use crate::workload::trace::decimal::picoseconds;
use crate::workload::trace::error::Fault;
use crate::workload::trace::{Row, Rows};

/// The columns that must be there.
pub(crate) const COLUMNS: [&str; 3] = ["arrival_s", "input_tokens", "output_tokens"];

/// Reads pdsim CSV; classes are names, numbered in the order of first appearance.
pub(crate) struct PdsimCsv {
    columns: Columns,
    classes: Vec<String>,
}

impl PdsimCsv {
    /// Reads the header.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Result<Self, Fault> {
        Ok(Self {
            columns: Columns::new(input, &COLUMNS, &["class"])?,
            classes: Vec::new(),
        })
    }

    fn class(&mut self) -> Result<u16, Fault> {
        let field = self.columns.field(3)?;
        if field.is_empty() && self.classes.is_empty() {
            return Ok(0);
        }
        let known = self
            .classes
            .iter()
            .position(|class| class.as_bytes() == field);
        let number = known.unwrap_or(self.classes.len());
        let Ok(class) = u16::try_from(number) else {
            return Err(self
                .columns
                .fault(3, field, "at most 65536 different classes"));
        };
        if known.is_none() {
            let Ok(name) = std::str::from_utf8(field) else {
                return Err(self.columns.fault(3, field, "UTF-8 text"));
            };
            self.classes.push(name.to_owned());
        }
        Ok(class)
    }
}

impl Rows for PdsimCsv {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.columns.advance()? {
            return Ok(None);
        }
        let field = self.columns.field(0)?;
        let at_ps = picoseconds(field, PS_PER_S).filter(|ps| *ps >= 0);
        let at_ps = at_ps.ok_or_else(|| {
            self.columns
                .fault(0, field, "seconds, a decimal number of at least 0")
        })?;
        Ok(Some(Row {
            at_ps,
            input_tokens: self.columns.tokens(1)?,
            output_tokens: self.columns.tokens(2)?,
            class: self.class()?,
        }))
    }

    fn classes(&self) -> Vec<String> {
        self.classes.clone()
    }
}
