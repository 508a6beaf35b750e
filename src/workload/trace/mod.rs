//! Recorded traces: reads the files people have, and accounts for every row.
//!
//! ```text
//! file ─ gunzip/unzstd ─ format ─ reader of the format ─ kept or dropped ─ order ─ times ─▶ requests
//!          source.rs    format.rs      readers/            reader.rs    sorted.rs recorded.rs
//! ```
//!
//! Rows read = kept + dropped, each drop with a reason; a row that cannot be understood is an error with its line, never
//! a silent gap. Everything streams: a file in order of arrival is read in constant memory, however long; one that is
//! not is read whole and sorted, with a warning.
//!
//! Arrivals are shifted so that the first is at time zero (pdsim's own formats excepted, which are on the simulation's
//! clock already); relative times are kept to the picosecond.

mod error;
mod format;
mod options;
mod parse;
mod reader;
mod readers;
mod recorded;
mod report;
mod row;
mod sorted;
mod source;
mod write;

pub use error::TraceError;
pub use format::Format;
pub use options::{Beyond, Failed, MaxContext, ReadOptions, TimeUnit, Window};
pub(crate) use reader::read_rows;
pub use recorded::{Trace, read_trace};
pub use report::{DropReason, ReadReport, ReadWarning};
pub use write::{Losses, WRITABLE, WriteError, convert, write_workload};

#[cfg(test)]
mod tests;
