//! inference-perf's `per_request_lifecycle_metrics.json`: an array of requests; seconds on the client's clock.

use serde::Deserialize;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::json::{self, Objects};
use crate::workload::trace::report::DropReason;
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

const EXPECTED: &str = "an object with `start_time`, `info.input_tokens` and `info.output_tokens`";

/// Reads inference-perf's requests.
pub(crate) struct InferencePerf {
    objects: Objects,
    unit_ps: u64,
}

#[derive(Deserialize)]
struct Record {
    start_time: Number,
    info: Option<Info>,
    #[serde(default)]
    error: Option<serde_json::Value>,
}

#[derive(Deserialize, Default)]
struct Info {
    #[serde(default)]
    input_tokens: u32,
    #[serde(default)]
    output_tokens: u32,
}

impl InferencePerf {
    /// Starts at the first object; times are in units of `unit_ps`.
    pub(crate) fn new(input: Input, unit_ps: u64) -> Self {
        Self {
            objects: Objects::new(input),
            unit_ps,
        }
    }
}

impl Rows for InferencePerf {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        let Some(record) = self.objects.next::<Record>(EXPECTED)? else {
            return Ok(None);
        };
        let at_ps = json::time(&record.start_time, self.unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| {
                Fault::new(
                    self.objects.start_line(),
                    &format!("`{}`", record.start_time),
                    "a time of at least 0 in `start_time`",
                )
            })?;
        let failed = record.error.is_some_and(|error| !error.is_null());
        let info = record.info.unwrap_or_default();
        Ok(Some(Row {
            at_ps,
            input_tokens: info.input_tokens,
            output_tokens: info.output_tokens,
            drop: failed.then_some(DropReason::Failed),
            ..Row::default()
        }))
    }
}
