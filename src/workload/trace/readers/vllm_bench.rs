//! The result of `vllm bench serve --save-detailed`: one JSON object with a list for each column.
//!
//! `input_lens`, `output_lens` and, in newer versions, `start_times` (seconds on the client's clock); `errors` is
//! empty text for a request that succeeded. Results without start times have lengths only.

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Objects};
use crate::workload::trace::report::{DropReason, ReadWarning};
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

const EXPECTED: &str =
    "a result of `vllm bench serve --save-detailed` with `input_lens` and `output_lens`";

/// Reads a vLLM benchmark result; one file holds one result.
pub(crate) struct VllmBench {
    record: Record,
    unit_ps: u64,
    next: usize,
}

#[derive(Deserialize)]
struct Record {
    input_lens: Vec<u32>,
    output_lens: Vec<u32>,
    start_times: Option<Vec<Number>>,
    errors: Option<Vec<Option<String>>>,
}

impl VllmBench {
    /// Reads the whole result; start times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Result<Self, Fault> {
        let mut objects = Objects::new(input);
        let record: Record = objects
            .next(EXPECTED)?
            .ok_or_else(|| Fault::new(1, "the end of the file", EXPECTED))?;
        let n = record.input_lens.len();
        let lengths = [
            ("output_lens", Some(record.output_lens.len())),
            ("start_times", record.start_times.as_ref().map(Vec::len)),
            ("errors", record.errors.as_ref().map(Vec::len)),
        ];
        for (key, length) in lengths {
            if let Some(length) = length.filter(|length| *length != n) {
                let seen = format!("{length} values in `{key}`");
                return Err(Fault::new(
                    1,
                    &seen,
                    format!("{n} values, as in `input_lens`,"),
                ));
            }
        }
        if objects.next::<serde::de::IgnoredAny>(EXPECTED)?.is_some() {
            return Err(Fault::new(
                objects.start_line(),
                "a second result",
                "one result in a file",
            ));
        }
        Ok(Self {
            record,
            unit_ps,
            next: 0,
        })
    }
}

impl Rows for VllmBench {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let i = self.next;
        let Some(input_tokens) = self.record.input_lens.get(i).copied() else {
            return Ok(None);
        };
        self.next += 1;
        let at_ps = match &self.record.start_times {
            Some(times) => json::time(&times[i], self.unit_ps)
                .filter(|ps| *ps >= 0)
                .ok_or_else(|| {
                    Fault::new(
                        1,
                        &format!("`{}`", times[i]),
                        format!("a time of at least 0 as number {i} of `start_times`"),
                    )
                })?,
            None => 0,
        };
        let error = self
            .record
            .errors
            .as_ref()
            .and_then(|errors| errors[i].as_deref())
            .unwrap_or_default();
        Ok(Some(Row {
            at_ps,
            input_tokens,
            output_tokens: self.record.output_lens[i],
            drop: (!error.is_empty()).then_some(DropReason::Failed),
            ..Row::default()
        }))
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        let absent = self.record.start_times.is_none();
        absent.then_some(ReadWarning::NoTimes).into_iter().collect()
    }
}
