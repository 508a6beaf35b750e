//! Weka's agentic coding traces: one JSON object a session, with nested sub-agents; seconds, 64-token blocks.
//!
//! `{"id": …, "block_size": 64, "requests": [{"t": 0.0, "type": "n", "in": n, "out": n, "hash_ids": […]}, …]}`; an entry of
//! type `subagent` holds `requests` of its own. Producers write the nested times either from the sub-agent's start or
//! from the session's; times before the marker's own are taken to be the former. Block ids are local to a session.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Objects};
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

const EXPECTED: &str =
    "a session with `id`, `block_size` and `requests` that hold `t`, `in` and `out`";

/// Reads Weka traces; every session starts at its own time zero.
pub(crate) struct Weka {
    objects: Objects,
    unit_ps: u64,
    sessions: u64,
    session: String,
    block_tokens: u32,
    waiting: VecDeque<(Row, Vec<u64>)>,
    blocks: Vec<u64>,
}

#[derive(Deserialize)]
struct Session {
    id: String,
    #[serde(default)]
    block_size: u32,
    requests: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    t: Number,
    r#in: Option<u32>,
    out: Option<u32>,
    #[serde(default)]
    hash_ids: Vec<u64>,
    #[serde(default)]
    requests: Vec<Entry>,
}

impl Weka {
    /// Starts at the first session; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            objects: Objects::new(input),
            unit_ps,
            sessions: 0,
            session: String::new(),
            block_tokens: 0,
            waiting: VecDeque::new(),
            blocks: Vec::new(),
        }
    }

    fn time(&self, number: &Number) -> Result<i128, Fault> {
        json::time(number, self.unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| {
                Fault::new(
                    self.objects.start_line(),
                    &format!("`{number}`"),
                    "a time of at least 0 in `t`",
                )
            })
    }

    /// Appends the requests of `entries`, whose times count from `start`, and of the sub-agents among them.
    fn unfold(
        &self,
        entries: Vec<Entry>,
        start: i128,
        into: &mut Vec<(Row, Vec<u64>)>,
    ) -> Result<(), Fault> {
        for entry in entries {
            let at_ps = start.saturating_add(self.time(&entry.t)?);
            if !entry.requests.is_empty() {
                let first = self.time(&entry.requests[0].t)?;
                let relative = first < at_ps - start;
                self.unfold(entry.requests, if relative { at_ps } else { start }, into)?;
                continue;
            }
            if entry.r#in.is_none() && entry.out.is_none() {
                // A sub-agent without requests of its own.
                continue;
            }
            let row = Row {
                at_ps,
                input_tokens: entry.r#in.unwrap_or(0),
                output_tokens: entry.out.unwrap_or(0),
                session: session_number(&self.session),
                ..Row::default()
            };
            // Ids are local to the session; the session's number keeps them apart from those of others.
            let apart =
                |id: u64| id.wrapping_add(self.sessions.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            into.push((row, entry.hash_ids.into_iter().map(apart).collect()));
        }
        Ok(())
    }
}

impl Rows for Weka {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        while self.waiting.is_empty() {
            let Some(session) = self.objects.next::<Session>(EXPECTED)? else {
                return Ok(None);
            };
            self.sessions += 1;
            self.session = session.id;
            self.block_tokens = session.block_size;
            let mut rows = Vec::new();
            self.unfold(session.requests, 0, &mut rows)?;
            rows.sort_by_key(|(row, _)| row.at_ps);
            self.waiting = rows.into();
        }
        Ok(self.waiting.pop_front().map(|(row, blocks)| {
            self.blocks = blocks;
            row
        }))
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: &self.session,
            blocks: &self.blocks,
            block_tokens: self.block_tokens,
        }
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let sessions = self.sessions;
        (sessions > 1)
            .then_some(ReadWarning::SessionsStartTogether { sessions })
            .into_iter()
            .collect()
    }
}
