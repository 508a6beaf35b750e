//! Qwen-Bailian usage traces, JSONL: seconds, 16-token blocks, turns linked to their parents.
//!
//! A turn's prompt already holds the whole history. A parent may be missing, because the traces are samples; such a
//! turn starts a session of its own.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Lines};
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Classes, Extra, Row, Rows};
use crate::workload::trace::source::Input;

/// Tokens of a block of `hash_ids`.
const BLOCK_TOKENS: u32 = 16;

const EXPECTED: &str = "an object with `chat_id`, `parent_chat_id`, `timestamp`, `input_length`, `output_length`, `type` and `hash_ids`";

/// Reads a Bailian trace; the class is the `type`, the session the root `chat_id`.
pub(crate) struct Bailian {
    lines: Lines,
    unit_ps: u64,
    /// The root of every chat seen.
    roots: HashMap<i64, i64>,
    classes: Classes,
    session: String,
    blocks: Vec<u64>,
    duplicates: u64,
    orphans: u64,
}

#[derive(Deserialize)]
struct Record {
    chat_id: i64,
    parent_chat_id: i64,
    timestamp: Number,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

impl Bailian {
    /// Starts at the first line; timestamps are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            lines: Lines::new(input),
            unit_ps,
            roots: HashMap::new(),
            classes: Classes::default(),
            session: String::new(),
            blocks: Vec::new(),
            duplicates: 0,
            orphans: 0,
        }
    }

    /// The root of the chat's session.
    fn root(&mut self, record: &Record) -> i64 {
        let parent = self.roots.get(&record.parent_chat_id).copied();
        self.orphans += u64::from(record.parent_chat_id != -1 && parent.is_none());
        let root = parent.unwrap_or(record.chat_id);
        self.duplicates += u64::from(self.roots.insert(record.chat_id, root).is_some());
        root
    }
}

impl Rows for Bailian {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.lines.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        let at_ps = json::time(&record.timestamp, self.unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| {
                Fault::new(
                    self.lines.line(),
                    &format!("`{}`", record.timestamp),
                    "a time of at least 0 in `timestamp`",
                )
            })?;
        let root = self.root(&record);
        let class = self.classes.number(&record.r#type).unwrap_or(u16::MAX);
        let row = Row {
            at_ps,
            input_tokens: record.input_length,
            output_tokens: record.output_length,
            class,
            session: super::super::row::session_number(&root.to_string()),
            ..Row::default()
        };
        self.session = root.to_string();
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

    fn classes(&self) -> &[String] {
        self.classes.names()
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let duplicates = ReadWarning::DuplicateIds {
            rows: self.duplicates,
        };
        let orphans = ReadWarning::MissingParents { rows: self.orphans };
        let both = [(self.duplicates, duplicates), (self.orphans, orphans)];
        both.into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(_, warning)| warning)
            .collect()
    }
}
