//! The two places where text leaves the program.

use std::io::{self, Write};

/// Writes results to stdout, whole.
///
/// # Errors
/// When stdout cannot be written, which is no failure if its reader has gone.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes one line to stderr. There is nobody left to tell when that fails.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
