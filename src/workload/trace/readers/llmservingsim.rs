//! LLMServingSim JSONL: flat requests, or sessions of `sub_requests` with tool calls between them; nanoseconds.
//!
//! `{"input_toks": n, "output_toks": n, "arrival_time_ns": t}`, or
//! `{"session_id": …, "arrival_time_ns": t, "sub_requests": [{"input_toks": n, "output_toks": n, "tool_duration_ns": t}]}`.
//! Both may stand in one file. A later sub-request is placed the tool's duration after the one before it, which leaves
//! out the time that the reply took.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Lines};
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

const EXPECTED: &str = "an object with `arrival_time_ns`, and `input_toks` and `output_toks` or `sub_requests` that hold them,";

/// Reads an LLMServingSim workload.
pub(crate) struct LlmServingSim {
    lines: Lines,
    unit_ps: u64,
    session: String,
    waiting: VecDeque<Row>,
    after_tools: u64,
}

#[derive(Deserialize)]
struct Record {
    arrival_time_ns: Number,
    input_toks: Option<u32>,
    output_toks: Option<u32>,
    #[serde(default)]
    session_id: Option<serde_json::Value>,
    sub_requests: Option<Vec<SubRequest>>,
}

#[derive(Deserialize)]
struct SubRequest {
    input_toks: u32,
    output_toks: u32,
    tool_duration_ns: Option<Number>,
}

impl LlmServingSim {
    /// Starts at the first line; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            lines: Lines::new(input),
            unit_ps,
            session: String::new(),
            waiting: VecDeque::new(),
            after_tools: 0,
        }
    }

    fn time(&self, number: &Number) -> Result<i128, Fault> {
        json::time(number, self.unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| {
                Fault::new(
                    self.lines.line(),
                    &format!("`{number}`"),
                    "a time of at least 0",
                )
            })
    }

    /// Spreads a session over its requests.
    fn unfold(&mut self, at_ps: i128, session: u64, parts: &[SubRequest]) -> Result<(), Fault> {
        let mut at_ps = at_ps;
        for part in parts {
            self.waiting.push_back(Row {
                at_ps,
                input_tokens: part.input_toks,
                output_tokens: part.output_toks,
                session,
                ..Row::default()
            });
            if let Some(tool) = &part.tool_duration_ns {
                at_ps = at_ps.saturating_add(self.time(tool)?);
            }
        }
        self.after_tools += (parts.len() as u64).saturating_sub(1);
        Ok(())
    }
}

impl Rows for LlmServingSim {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        while self.waiting.is_empty() {
            let Some(record) = self.lines.next::<Record>(EXPECTED)? else {
                return Ok(None);
            };
            self.session = match &record.session_id {
                None | Some(serde_json::Value::Null) => String::new(),
                Some(serde_json::Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
            };
            let (at_ps, session) = (
                self.time(&record.arrival_time_ns)?,
                session_number(&self.session),
            );
            match (record.input_toks, record.output_toks, &record.sub_requests) {
                (_, _, Some(parts)) => self.unfold(at_ps, session, parts)?,
                (Some(input_tokens), Some(output_tokens), None) => self.waiting.push_back(Row {
                    at_ps,
                    input_tokens,
                    output_tokens,
                    session,
                    ..Row::default()
                }),
                _ => return Err(Fault::new(self.lines.line(), "neither form", EXPECTED)),
            }
        }
        Ok(self.waiting.pop_front())
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: &self.session,
            ..Extra::default()
        }
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let turns = self.after_tools;
        (turns > 0)
            .then_some(ReadWarning::DelayOnly { turns })
            .into_iter()
            .collect()
    }
}
