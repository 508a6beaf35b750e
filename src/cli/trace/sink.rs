//! Where a written trace goes: a file that appears when it is complete, or stdout.

use std::io::{self, Write};
use std::path::Path;

use super::super::exit::Failure;
use crate::report::AtomicFile;
use crate::workload::trace::WriteError;

/// An output that is not there before it is complete.
pub(super) enum Sink {
    File(AtomicFile),
    Stdout,
}

/// Whether `-` stands for stdout.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

impl Sink {
    /// Opens the output at `path`.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        if is_stdout(path) {
            return Ok(Self::Stdout);
        }
        Ok(Self::File(AtomicFile::create(path)?))
    }

    /// Completes the output if the writing went well; none if the reader of stdout has gone, which is no failure.
    pub(super) fn settle<T>(self, done: Result<T, WriteError>) -> Result<Option<T>, Failure> {
        match (done, self) {
            (Ok(value), Self::File(file)) => {
                file.finish()?;
                Ok(Some(value))
            }
            (Ok(value), Self::Stdout) => Ok(Some(value)),
            (Err(WriteError::Io(error)), Self::Stdout)
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                Ok(None)
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file
                .write(bytes)
                .map(|()| bytes.len())
                .map_err(io::Error::other),
            Self::Stdout => io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(_) => Ok(()),
            Self::Stdout => io::stdout().flush(),
        }
    }
}
