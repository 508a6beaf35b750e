//! AIPerf's `profile_export.jsonl`: a record a line with `metadata`, `metrics` and `error`; nanoseconds.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Lines};
use crate::workload::trace::report::{DropReason, ReadWarning};
use crate::workload::trace::row::{Extra, Row, Rows, session_number};
use crate::workload::trace::source::Input;

const EXPECTED: &str = "an AIPerf record with `metadata.request_start_ns` and \
    `metrics.input_sequence_length` and `.output_sequence_length`";

/// Reads AIPerf's export; rows of its warm-up are dropped.
pub(crate) struct AiPerf {
    lines: Lines,
    unit_ps: u64,
    session: String,
    ids: HashSet<u64>,
    duplicates: u64,
}

#[derive(Deserialize)]
struct Record {
    metadata: Metadata,
    #[serde(default)]
    metrics: Metrics,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Metadata {
    request_start_ns: Number,
    x_request_id: Option<String>,
    x_correlation_id: Option<String>,
    conversation_id: Option<String>,
    benchmark_phase: Option<String>,
}

#[derive(Deserialize, Default)]
struct Metrics {
    input_sequence_length: Option<Metric>,
    output_sequence_length: Option<Metric>,
}

#[derive(Deserialize)]
struct Metric {
    value: Number,
}

impl AiPerf {
    /// Starts at the first line; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            lines: Lines::new(input),
            unit_ps,
            session: String::new(),
            ids: HashSet::new(),
            duplicates: 0,
        }
    }

    fn tokens(&self, metric: Option<&Metric>) -> Result<u32, Fault> {
        let Some(metric) = metric else { return Ok(0) };
        json::tokens(&metric.value).ok_or_else(|| {
            Fault::new(
                self.lines.line(),
                &format!("`{}`", metric.value),
                "a whole number of tokens",
            )
        })
    }
}

impl Rows for AiPerf {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.lines.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        let start = &record.metadata.request_start_ns;
        let at_ps = json::time(start, self.unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| {
                Fault::new(
                    self.lines.line(),
                    &format!("`{start}`"),
                    "a time of at least 0 in `request_start_ns`",
                )
            })?;
        let metadata = record.metadata;
        if let Some(id) = &metadata.x_request_id {
            self.duplicates += u64::from(!self.ids.insert(session_number(id)));
        }
        let failed = record.error.is_some_and(|error| !error.is_null());
        let drop = match metadata.benchmark_phase.as_deref() {
            Some("warmup") => Some(DropReason::Warmup),
            _ => failed.then_some(DropReason::Failed),
        };
        self.session = metadata
            .conversation_id
            .or(metadata.x_correlation_id)
            .unwrap_or_default();
        Ok(Some(Row {
            at_ps,
            input_tokens: self.tokens(record.metrics.input_sequence_length.as_ref())?,
            output_tokens: self.tokens(record.metrics.output_sequence_length.as_ref())?,
            max_output: 0,
            class: 0,
            session: session_number(&self.session),
            drop,
        }))
    }

    fn extra(&self) -> Extra<'_> {
        Extra {
            session: &self.session,
            ..Extra::default()
        }
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let rows = self.duplicates;
        (rows > 0)
            .then_some(ReadWarning::DuplicateIds { rows })
            .into_iter()
            .collect()
    }
}
