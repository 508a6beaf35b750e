//! CSV rows read by column name.

use std::io::BufRead;

use csv::ByteRecord;

use crate::workload::trace::error::Fault;

/// A CSV file whose wanted columns have been found in its header.
pub(crate) struct Columns {
    reader: csv::Reader<Box<dyn BufRead>>,
    record: ByteRecord,
    /// Position of each wanted column; none for an optional one that is absent.
    positions: Vec<Option<usize>>,
    names: Vec<String>,
}

impl Columns {
    /// Reads the header and finds `required`, then `optional`, among its names, whatever their case.
    pub(crate) fn new(
        input: Box<dyn BufRead>,
        required: &[&str],
        optional: &[&str],
    ) -> Result<Self, Fault> {
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
        let header = reader.byte_headers().map_err(|error| broken(&error, 1))?;
        let seen: Vec<String> = header
            .iter()
            .map(|name| normal(&String::from_utf8_lossy(name)))
            .collect();
        let mut positions = Vec::new();
        for (i, name) in required.iter().chain(optional).enumerate() {
            let mut found = seen
                .iter()
                .enumerate()
                .filter(|(_, column)| column == name)
                .map(|(at, _)| at);
            let position = found.next();
            if found.next().is_some() {
                let expected = format!("one column `{name}`");
                return Err(Fault::new(
                    1,
                    &format!("columns `{}`", seen.join(",")),
                    expected,
                ));
            }
            if i < required.len() && position.is_none() {
                let expected = format!("a header with the columns {}", required.join(", "));
                return Err(Fault::new(
                    1,
                    &format!("columns `{}`", seen.join(",")),
                    expected,
                ));
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
        let line = self.reader.position().line();
        self.reader
            .read_byte_record(&mut self.record)
            .map_err(|error| broken(&error, line))
    }

    /// The line of the current row, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.record.position().map_or(0, csv::Position::line)
    }

    /// The field of the `column`-th wanted name; empty for an absent optional column.
    pub(crate) fn field(&self, column: usize) -> Result<&[u8], Fault> {
        let Some(position) = self.positions[column] else {
            return Ok(b"");
        };
        match self.record.get(position) {
            Some(field) => Ok(field.trim_ascii()),
            None => {
                let expected = format!(
                    "a field for each column, and `{}` among them",
                    self.names[column]
                );
                Err(Fault::new(
                    self.line(),
                    &format!("a row of {} fields", self.record.len()),
                    expected,
                ))
            }
        }
    }

    /// The `column`-th field as a whole number of tokens.
    pub(crate) fn tokens(&self, column: usize) -> Result<u32, Fault> {
        let field = self.field(column)?;
        whole(field)
            .ok_or_else(|| self.fault(column, field, "a whole number of tokens, 0 to 4294967295"))
    }

    /// The fault of a field that is not what was expected.
    pub(crate) fn fault(&self, column: usize, field: &[u8], expected: &str) -> Fault {
        let seen = format!("`{}`", String::from_utf8_lossy(field));
        Fault::new(
            self.line(),
            &seen,
            format!("{expected} in column `{}`", self.names[column]),
        )
    }
}

/// The normalised column names of a header line.
pub(crate) fn names(line: &str) -> impl Iterator<Item = String> {
    line.split(',')
        .map(|name| normal(name.trim().trim_matches('"')))
}

/// Column names are compared in lower case, without surrounding blanks or a byte order mark.
fn normal(name: &str) -> String {
    name.trim_start_matches('\u{feff}')
        .trim()
        .to_ascii_lowercase()
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
    let line = error.position().map_or(line, csv::Position::line);
    Fault::new(line, &error.to_string(), "a readable CSV row")
}
