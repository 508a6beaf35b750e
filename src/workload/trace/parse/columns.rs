//! CSV rows read by column name.

use csv::ByteRecord;

use crate::workload::trace::error::Fault;
use crate::workload::trace::format::Format;
use crate::workload::trace::parse::decimal::picoseconds;
use crate::workload::trace::source::Input;

/// A CSV file whose wanted columns have been found in its header.
pub(crate) struct Columns {
    reader: csv::Reader<Input>,
    record: ByteRecord,
    /// Position of each wanted column; none for an optional one that is absent.
    positions: Vec<Option<usize>>,
    names: Vec<String>,
}

impl Columns {
    /// Reads the header and finds `required`, then `optional`, among its names, whatever their case.
    pub(crate) fn new(input: Input, required: &[&str], optional: &[&str]) -> Result<Self, Fault> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(input);
        let header = reader.byte_headers().map_err(|error| broken(&error, 1))?;
        let seen: Vec<String> = header
            .iter()
            .map(|name| normal(&String::from_utf8_lossy(name)))
            .collect();
        let fault = |expected| Fault::new(1, &format!("columns `{}`", seen.join(",")), expected);
        let mut positions = Vec::new();
        for (i, name) in required.iter().chain(optional).enumerate() {
            let mut found = (0..seen.len()).filter(|at| seen[*at] == *name);
            let position = found.next();
            if found.next().is_some() {
                return Err(fault(format!("one column `{name}`")));
            }
            if i < required.len() && position.is_none() {
                let expected = format!("a header with the columns {}", required.join(", "));
                return Err(fault(expected));
            }
            positions.push(position);
        }
        Ok(Self {
            reader,
            record: ByteRecord::new(),
            positions,
            names: required
                .iter()
                .chain(optional)
                .map(ToString::to_string)
                .collect(),
        })
    }

    /// Reads the next row; false at the end of the file.
    pub(crate) fn advance(&mut self) -> Result<bool, Fault> {
        let read = self.reader.read_byte_record(&mut self.record);
        read.map_err(|error| broken(&error, self.reader.position().line()))
    }

    /// The line of the current row, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    /// Whether the `column`-th wanted name is among the file's columns.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.positions[column].is_some()
    }

    /// The field of the `column`-th wanted name; empty for an absent optional column.
    pub(crate) fn field(&self, column: usize) -> Result<&[u8], Fault> {
        let Some(position) = self.positions[column] else {
            return Ok(b"");
        };
        let field = self.record.get(position).ok_or_else(|| {
            let seen = format!("a row of {} fields", self.record.len());
            let mixed = mixed(self.record.as_slice());
            let expected = format!(
                "a field for each column of the header, `{}` among them{mixed},",
                self.names[column]
            );
            Fault::new(self.line(), &seen, expected)
        })?;
        Ok(field.trim_ascii())
    }

    /// The `column`-th field as text.
    pub(crate) fn text(&self, column: usize) -> Result<&str, Fault> {
        let field = self.field(column)?;
        std::str::from_utf8(field).map_err(|_| self.fault(column, field, "UTF-8 text"))
    }

    /// The `column`-th field as a whole number of tokens.
    pub(crate) fn tokens(&self, column: usize) -> Result<u32, Fault> {
        let field = self.field(column)?;
        whole(field)
            .or_else(|| whole(field.strip_suffix(b".0")?))
            .ok_or_else(|| self.fault(column, field, "a whole number of tokens, 0 to 4294967295,"))
    }

    /// The `column`-th field as picoseconds of at least 0.
    pub(crate) fn time(&self, column: usize, unit_ps: u64) -> Result<i128, Fault> {
        let field = self.field(column)?;
        picoseconds(field, unit_ps)
            .filter(|ps| *ps >= 0)
            .ok_or_else(|| self.fault(column, field, "a time, a decimal number of at least 0,"))
    }

    /// The fault of a field that is not what was expected.
    pub(crate) fn fault(&self, column: usize, field: &[u8], expected: &str) -> Fault {
        let name = &self.names[column];
        let text = String::from_utf8_lossy(field);
        let mut expected = format!(
            "{expected} in column `{name}`{}",
            mixed(self.record.as_slice())
        );
        if normal(&text) == *name {
            expected.push_str(" (a second header: were two files joined?)");
        }
        Fault::new(self.line(), &format!("`{text}`"), expected)
    }
}

/// A note when a row looks like JSON of a known format.
fn mixed(row: &[u8]) -> String {
    let row = row.trim_ascii_start();
    let found = row.starts_with(b"{").then(|| Format::detect(row));
    match found {
        Some(Ok(format)) => format!(" (the row looks like {format}: one file holds one format)"),
        _ => String::new(),
    }
}

/// The normalised column names of a header line.
pub(crate) fn names(line: &str) -> impl Iterator<Item = String> {
    line.split(',')
        .map(|name| normal(name.trim().trim_matches('"')))
}

/// Column names are compared in lower case, without surrounding blanks.
fn normal(name: &str) -> String {
    name.trim().to_ascii_lowercase()
}

/// Parses decimal digits into `u32`; none for anything else.
pub(crate) fn whole(field: &[u8]) -> Option<u32> {
    if field.is_empty() || field.len() > 10 {
        return None;
    }
    let mut value = 0_u64;
    for byte in field {
        value = value * 10 + u64::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    u32::try_from(value).ok()
}

/// The fault of a row that the CSV reader itself refuses.
fn broken(error: &csv::Error, line: u64) -> Fault {
    match error.kind() {
        csv::ErrorKind::Io(error) => Fault::io(line, error),
        _ => {
            let line = error.position().map_or(line, csv::Position::line);
            Fault::new(line, &error.to_string(), "a readable CSV row")
        }
    }
}
