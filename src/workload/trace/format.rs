//! The formats and how they are told apart.

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use crate::workload::error::WorkloadError;
use crate::workload::trace::error::{Fault, short};
use crate::workload::trace::{Rows, azure, columns, mooncake, pdsim_csv};

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// pdsim's own CSV: `arrival_s,input_tokens,output_tokens[,class]`.
    PdsimCsv,
    /// Azure LLM inference trace CSV: `TIMESTAMP,ContextTokens,GeneratedTokens`.
    Azure,
    /// Mooncake JSONL: `timestamp` in milliseconds, `input_length`, `output_length`.
    Mooncake,
}

impl Format {
    /// All formats, in the order in which they are listed.
    pub const ALL: [Self; 3] = [Self::PdsimCsv, Self::Azure, Self::Mooncake];

    /// The name used on the command line and in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PdsimCsv => "pdsim-csv",
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
        }
    }

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|format| format.name())
    }

    /// Finds the format from the beginning of a file, or hands back its first line, shortened.
    pub(crate) fn detect(head: &[u8]) -> Result<Self, String> {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let line = head
            .split(|byte| *byte == b'\n')
            .find(|line| !line.trim_ascii().is_empty());
        let line = String::from_utf8_lossy(line.unwrap_or_default());
        let line = line.trim();
        if line.starts_with('{') {
            let has = |key: &str| line.contains(&format!("\"{key}\""));
            if has("timestamp") && has("input_length") && has("output_length") && !has("chat_id") {
                return Ok(Self::Mooncake);
            }
            return Err(short(line));
        }
        let has = |wanted: &[&str]| {
            wanted
                .iter()
                .all(|name| columns::names(line).any(|column| column == *name))
        };
        if has(&pdsim_csv::COLUMNS) {
            return Ok(Self::PdsimCsv);
        }
        if has(&azure::COLUMNS) {
            return Ok(Self::Azure);
        }
        Err(short(line))
    }

    /// Opens the reader of this format.
    pub(crate) fn rows(self, input: Box<dyn BufRead>) -> Result<Box<dyn Rows>, Fault> {
        Ok(match self {
            Self::PdsimCsv => Box::new(pdsim_csv::PdsimCsv::new(input)?),
            Self::Azure => Box::new(azure::Azure::new(input)?),
            Self::Mooncake => Box::new(mooncake::Mooncake::new(input)),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| WorkloadError::unknown_name("format", name, Self::names()))
    }
}
