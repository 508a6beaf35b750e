//! JSON input: one object a line, or objects that span lines, alone or in an array.

use std::io::BufRead;

use serde::de::DeserializeOwned;
use serde_json::Number;

use crate::workload::trace::error::Fault;
use crate::workload::trace::parse::decimal::picoseconds;
use crate::workload::trace::source::Input;

/// The lines of a JSONL file.
pub(crate) struct Lines {
    input: Input,
    line: u64,
    buffer: Vec<u8>,
}

impl Lines {
    /// Starts before the first line.
    pub(crate) fn new(input: Input) -> Self {
        Self {
            input,
            line: 0,
            buffer: Vec::new(),
        }
    }

    /// Reads the next line that is not blank as `T`, of which `expected` describes the keys.
    pub(crate) fn next<T: DeserializeOwned>(&mut self, expected: &str) -> Result<Option<T>, Fault> {
        loop {
            self.buffer.clear();
            self.line += 1;
            match self.input.read_until(b'\n', &mut self.buffer) {
                Ok(0) => return Ok(None),
                Ok(_) if self.buffer.trim_ascii().is_empty() => {}
                Ok(_) => break,
                Err(error) => return Err(Fault::io(self.line, &error)),
            }
        }
        let text = &self.buffer;
        serde_json::from_slice(text)
            .map(Some)
            .map_err(|error| refused(self.line, text, &error, expected))
    }

    /// The line read last, from 1.
    pub(crate) const fn line(&self) -> u64 {
        self.line
    }
}

/// The top-level objects of a file, or the elements of its top-level array, one after the other in constant memory.
pub(crate) struct Objects {
    input: Input,
    line: u64,
    start: u64,
    buffer: Vec<u8>,
}

impl Objects {
    /// Starts before the first object.
    pub(crate) fn new(input: Input) -> Self {
        Self {
            input,
            line: 1,
            start: 1,
            buffer: Vec::new(),
        }
    }

    /// Reads the next object as `T`, of which `expected` describes the keys.
    pub(crate) fn next<T: DeserializeOwned>(&mut self, expected: &str) -> Result<Option<T>, Fault> {
        if !self.fill(expected)? {
            return Ok(None);
        }
        let text = &self.buffer;
        serde_json::from_slice(text)
            .map(Some)
            .map_err(|error| refused(self.start, text, &error, expected))
    }

    /// The line on which the object read last begins.
    pub(crate) const fn start_line(&self) -> u64 {
        self.start
    }

    /// Copies the next object into the buffer; false at the end of the file.
    fn fill(&mut self, expected: &str) -> Result<bool, Fault> {
        self.buffer.clear();
        let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
        loop {
            let bytes = match self.input.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) => return Err(Fault::io(self.line, &error)),
            };
            if bytes.is_empty() {
                if self.buffer.is_empty() {
                    return Ok(false);
                }
                return Err(Fault::new(
                    self.start,
                    "an object that the file ends inside",
                    expected,
                ));
            }
            let mut used = 0;
            for byte in bytes {
                used += 1;
                self.line += u64::from(*byte == b'\n');
                if depth == 0 {
                    match byte {
                        b'{' => (depth, self.start) = (1, self.line),
                        b'[' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' => continue,
                        other => {
                            let seen = format!("`{}`", char::from(*other).escape_default());
                            return Err(Fault::new(
                                self.line,
                                &seen,
                                "an object or an array of objects",
                            ));
                        }
                    }
                } else if in_text {
                    in_text = escaped || *byte != b'"';
                    escaped = !escaped && *byte == b'\\';
                } else {
                    match byte {
                        b'"' => in_text = true,
                        b'{' => depth += 1,
                        b'}' => depth -= 1,
                        _ => {}
                    }
                }
                self.buffer.push(*byte);
                if depth == 0 {
                    break;
                }
            }
            self.input.consume(used);
            if depth == 0 && !self.buffer.is_empty() {
                return Ok(true);
            }
        }
    }
}

/// The fault of text that is no `T`.
fn refused(line: u64, text: &[u8], error: &serde_json::Error, expected: &str) -> Fault {
    let why = error.to_string();
    // The parser sees one object, so its line numbers say nothing.
    let why = why.split(" at line ").next().unwrap_or_default();
    let start = String::from_utf8_lossy(&text[..text.len().min(120)]);
    Fault::new(
        line,
        &format!("`{}`", super::super::error::short(start.trim())),
        format!("{expected} ({why})"),
    )
}

/// A JSON number of units as picoseconds; exact for whole numbers and for decimals of up to 15 digits.
pub(crate) fn time(number: &Number, unit_ps: u64) -> Option<i128> {
    match number.as_i64() {
        Some(whole) => i128::from(whole).checked_mul(i128::from(unit_ps)),
        None => picoseconds(number.to_string().as_bytes(), unit_ps),
    }
}

/// A JSON number as tokens: whole, or with a fraction of zero as some tools write.
pub(crate) fn tokens(number: &Number) -> Option<u32> {
    if let Some(whole) = number.as_u64() {
        return u32::try_from(whole).ok();
    }
    let value = number.as_f64()?;
    let whole = value.fract().abs() < f64::EPSILON && (0.0..=f64::from(u32::MAX)).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number within u32"
    )]
    whole.then_some(value as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::io::{BufReader, Cursor};

    #[derive(Deserialize, Debug, PartialEq)]
    struct Item {
        a: u32,
    }

    fn objects(text: &str) -> Result<Vec<(u64, u32)>, Fault> {
        // A tiny buffer, so that objects are split at every place.
        let input = BufReader::with_capacity(3, Cursor::new(text.as_bytes().to_vec()));
        let mut objects = Objects::new(Box::new(input));
        let mut out = Vec::new();
        while let Some(item) = objects.next::<Item>("an object with `a`")? {
            out.push((objects.start_line(), item.a));
        }
        Ok(out)
    }

    #[test]
    fn objects_come_from_lines_arrays_and_pretty_printing() {
        assert_eq!(objects("{\"a\":1}\n{\"a\":2}\n").unwrap(), [(1, 1), (2, 2)]);
        assert_eq!(
            objects("[{\"a\":1},\n {\"a\":2}]").unwrap(),
            [(1, 1), (2, 2)]
        );
        assert_eq!(
            objects("{\n \"b\": {\"c\": \"}\\\"{\"},\n \"a\": 7\n}").unwrap(),
            [(1, 7)]
        );
        assert_eq!(objects(" \n").unwrap(), []);
    }

    #[test]
    fn a_cut_object_is_a_fault_at_its_start() {
        let fault = objects("[{\"a\":1},\n{\"a\":").unwrap_err();
        assert_eq!(fault.line, 2);
        assert!(fault.seen.contains("ends inside"), "{}", fault.seen);
        assert_eq!(objects("{\"a\":1}\nx").unwrap_err().line, 2);
    }

    #[test]
    fn numbers_become_exact_times_and_whole_tokens() {
        let number = |text: &str| serde_json::from_str::<Number>(text).unwrap();
        assert_eq!(
            time(&number("27482"), 1_000_000_000),
            Some(27_482_000_000_000)
        );
        assert_eq!(
            time(&number("31.25"), 1_000_000_000_000),
            Some(31_250_000_000_000)
        );
        assert_eq!(tokens(&number("105.0")), Some(105));
        assert_eq!(tokens(&number("4294967296")), None);
        assert_eq!(tokens(&number("-1")), None);
        assert_eq!(tokens(&number("1.5")), None);
    }
}
