//! pdsim's own JSONL, which holds everything that any of the formats can.
//!
//! `{"arrival_s": 0.5, "input_tokens": 900, "output_tokens": 40, "class": "chat", "session": "7",
//! "block_tokens": 512, "blocks": [1, 2]}`; all but the first three are optional.

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Lines};
use crate::workload::trace::row::{Classes, Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

const EXPECTED: &str = "an object with `arrival_s` of at least 0, `input_tokens` and `output_tokens`, \
    optionally `max_output`, `class`, `session`, `block_tokens` and `blocks`,";

/// Reads pdsim JSONL.
pub(crate) struct PdsimJsonl {
    lines: Lines,
    unit_ps: u64,
    last: Record,
    classes: Classes,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Record {
    arrival_s: Option<Number>,
    #[serde(default)]
    input_tokens: u32,
    #[serde(default)]
    output_tokens: u32,
    #[serde(default)]
    max_output: u32,
    #[serde(default)]
    class: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    block_tokens: u32,
    #[serde(default)]
    blocks: Vec<u64>,
}

impl PdsimJsonl {
    /// Starts at the first line; arrivals are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            lines: Lines::new(input),
            unit_ps,
            last: Record::default(),
            classes: Classes::default(),
        }
    }
}

impl Rows for PdsimJsonl {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.lines.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        let at_ps = record
            .arrival_s
            .as_ref()
            .and_then(|number| json::time(number, self.unit_ps));
        let fault = |seen: &str| Fault::new(self.lines.line(), seen, EXPECTED);
        let at_ps = at_ps
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| fault("no such `arrival_s`"))?;
        let class = self
            .classes
            .number(&record.class)
            .ok_or_else(|| fault("class number 65537"))?;
        let row = Row {
            at_ps,
            input_tokens: record.input_tokens,
            output_tokens: record.output_tokens,
            max_output: record.max_output,
            class,
            session: session_number(&record.session),
            drop: None,
        };
        self.last = record;
        Ok(Some(row))
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: &self.last.session,
            blocks: &self.last.blocks,
            block_tokens: self.last.block_tokens,
        }
    }

    fn classes(&self) -> &[String] {
        self.classes.names()
    }
}
