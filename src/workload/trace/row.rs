//! What every reader hands over.

use crate::workload::trace::DropReason;
use crate::workload::trace::error::Fault;
use crate::workload::trace::report::ReadWarning;

/// One row as a reader understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// Arrival in picoseconds since the format's own zero (the epoch, the start of the trace).
    pub(crate) at_ps: i128,
    /// Prompt tokens.
    pub(crate) input_tokens: u32,
    /// Output tokens.
    pub(crate) output_tokens: u32,
    /// The client's `max_tokens`; 0 when the format has none.
    pub(crate) max_output: u32,
    /// Index of the class in the order of first appearance.
    pub(crate) class: u16,
    /// A number that the rows of one session share; 0 for a row without a session.
    pub(crate) session: u64,
    /// Set by a reader that knows the row to be no request.
    pub(crate) drop: Option<DropReason>,
}

/// The rarer parts of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extra<'a> {
    /// Name of the session; empty when there is none.
    pub(crate) session: &'a str,
    /// Ids of the prompt's blocks, each standing for its whole prefix too.
    pub(crate) blocks: &'a [u64],
    /// Tokens of a block; 0 when the format has none.
    pub(crate) block_tokens: u32,
}

/// Reads the rows of one format, in the order of the file.
pub(crate) trait Rows: Send {
    /// The next row, or none at the end of the file.
    fn next_row(&mut self) -> Result<Option<Row>, Fault>;

    /// The rarer parts of the row handed out last.
    fn extra(&self) -> Extra<'_> {
        Extra::default()
    }

    /// The names of the classes seen so far, in the order of their numbers.
    fn classes(&self) -> &[String] {
        &[]
    }

    /// What the reader had to assume, at the end of the file.
    fn warnings(&self) -> Vec<ReadWarning> {
        Vec::new()
    }
}

/// Numbers names in the order of their first appearance.
#[derive(Debug, Default)]
pub(crate) struct Classes(Vec<String>);

impl Classes {
    /// The number of `name`; none beyond 65536 different names. Rows without a name are a class of their own.
    pub(crate) fn number(&mut self, name: &str) -> Option<u16> {
        let known = self.0.iter().position(|class| class == name);
        let number = u16::try_from(known.unwrap_or(self.0.len())).ok()?;
        if known.is_none() {
            self.0.push(name.to_owned());
        }
        Some(number)
    }

    /// The names by number; none where no row has one.
    pub(crate) fn names(&self) -> &[String] {
        match self.0.as_slice() {
            [only] if only.is_empty() => &[],
            names => names,
        }
    }
}

/// A number for a session's name: FNV-1a, never 0 except for the empty name.
pub(crate) fn session_number(name: &str) -> u64 {
    if name.is_empty() {
        return 0;
    }
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv).max(1)
}
