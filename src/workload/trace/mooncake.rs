//! Mooncake JSONL: `{"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": […]}` a line.

use std::io::BufRead;

use serde::Deserialize;

use crate::units::PS_PER_S;
use crate::workload::trace::decimal::picoseconds;
use crate::workload::trace::error::Fault;
use crate::workload::trace::{Row, Rows};

/// Reads a Mooncake trace; timestamps are milliseconds.
pub(crate) struct Mooncake {
    input: Box<dyn BufRead>,
    line: u64,
    buffer: Vec<u8>,
}

/// The keys that matter here; others are allowed, as other tools add them.
#[derive(Deserialize)]
struct Record {
    timestamp: serde_json::Number,
    input_length: u32,
    output_length: u32,
}

impl Mooncake {
    /// Starts at the first line.
    pub(crate) fn new(input: Box<dyn BufRead>) -> Self {
        Self {
            input,
            line: 0,
            buffer: Vec::new(),
        }
    }

    /// Reads the next line that is not blank; false at the end of the file.
    fn advance(&mut self) -> Result<bool, Fault> {
        loop {
            self.buffer.clear();
            self.line += 1;
            let read = self.input.read_until(b'\n', &mut self.buffer);
            match read {
                Ok(0) => return Ok(false),
                Ok(_) if self.buffer.trim_ascii().is_empty() => {}
                Ok(_) => return Ok(true),
                Err(error) => {
                    return Err(Fault::new(self.line, &error.to_string(), "a readable line"));
                }
            }
        }
    }
}

impl Rows for Mooncake {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        if !self.advance()? {
            return Ok(None);
        }
        let line = self
            .buffer
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(&self.buffer);
        let record: Record = serde_json::from_slice(line).map_err(|error| {
            let seen = format!("`{}` ({error})", String::from_utf8_lossy(line).trim_end());
            let expected =
                "an object with `timestamp` in ms, `input_length` and `output_length` in tokens";
            Fault::new(self.line, &seen, expected)
        })?;
        let at_ps = picoseconds(record.timestamp.to_string().as_bytes(), PS_PER_S / 1000)
            .filter(|ps| *ps >= 0);
        let at_ps = at_ps.ok_or_else(|| {
            let seen = format!("`{}`", record.timestamp);
            Fault::new(
                self.line,
                &seen,
                "milliseconds of at least 0 in `timestamp`",
            )
        })?;
        Ok(Some(Row {
            at_ps,
            input_tokens: record.input_length,
            output_tokens: record.output_length,
            class: 0,
        }))
    }
}
