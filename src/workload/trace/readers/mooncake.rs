//! Mooncake JSONL and its relatives: `{"timestamp": …, "input_length": n, "output_length": n, "hash_ids": […]}` a line.
//!
//! Mooncake and AIPerf write milliseconds, GuideLLM reads seconds. AIPerf's inputs may add `session_id`, and give a
//! `delay` in place of the timestamp from the second turn on; such a turn is placed that long after the one before it,
//! which leaves out the time that the reply took.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Lines};
use crate::workload::trace::report::{DropReason, ReadWarning};
use crate::workload::trace::row::{Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

/// Tokens of a block of `hash_ids`.
const BLOCK_TOKENS: u32 = 512;

const EXPECTED: &str =
    "an object with `timestamp`, and `input_length` and `output_length` in tokens,";

/// Reads a Mooncake-like trace.
pub(crate) struct Mooncake {
    lines: Lines,
    unit_ps: u64,
    session: String,
    blocks: Vec<u64>,
    /// When the last turn of each session came; filled only by rows with a session.
    last_turns: HashMap<u64, i128>,
    after_delay: u64,
}

/// The keys that matter here; others are allowed, as other tools add them.
#[derive(Deserialize)]
struct Record {
    timestamp: Option<Number>,
    delay: Option<Number>,
    input_length: Option<u32>,
    output_length: Option<u32>,
    #[serde(default)]
    session_id: Option<serde_json::Value>,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

impl Mooncake {
    /// Starts at the first line; timestamps and delays are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            lines: Lines::new(input),
            unit_ps,
            session: String::new(),
            blocks: Vec::new(),
            last_turns: HashMap::new(),
            after_delay: 0,
        }
    }

    /// When the row arrives: at its timestamp, or its delay after the session's last turn.
    fn arrival(&mut self, record: &Record, session: u64) -> Result<i128, Fault> {
        let fault = |number: &Number| {
            Fault::new(
                self.lines.line(),
                &format!("`{number}`"),
                "a time of at least 0 in `timestamp` or `delay`",
            )
        };
        let read = |number: &Number| {
            json::time(number, self.unit_ps)
                .filter(|ps| *ps >= 0)
                .ok_or_else(|| fault(number))
        };
        let last = self.last_turns.get(&session).copied();
        let at_ps = match (&record.timestamp, &record.delay, last) {
            (Some(timestamp), ..) => read(timestamp)?,
            (None, Some(delay), Some(last)) => {
                let at_ps = last.saturating_add(read(delay)?);
                self.after_delay += 1;
                at_ps
            }
            _ => {
                let seen =
                    "no `timestamp`, and no `delay` after an earlier turn of the same `session_id`";
                return Err(Fault::new(self.lines.line(), seen, EXPECTED));
            }
        };
        if session != 0 {
            self.last_turns.insert(session, at_ps);
        }
        Ok(at_ps)
    }
}

impl Rows for Mooncake {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.lines.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        self.session = match &record.session_id {
            None | Some(serde_json::Value::Null) => String::new(),
            Some(serde_json::Value::String(name)) => name.clone(),
            Some(other) => other.to_string(),
        };
        let session = session_number(&self.session);
        let at_ps = self.arrival(&record, session)?;
        // AIPerf's rows with texts instead of lengths.
        let drop = (record.input_length.is_none() || record.output_length.is_none())
            .then_some(DropReason::NoTokenCount);
        let row = Row {
            at_ps,
            input_tokens: record.input_length.unwrap_or(0),
            output_tokens: record.output_length.unwrap_or(0),
            session,
            drop,
            ..Row::default()
        };
        self.blocks = record.hash_ids;
        Ok(Some(row))
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: &self.session,
            blocks: &self.blocks,
            block_tokens: BLOCK_TOKENS,
        }
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let turns = self.after_delay;
        (turns > 0)
            .then_some(ReadWarning::DelayOnly { turns })
            .into_iter()
            .collect()
    }
}
