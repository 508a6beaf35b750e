//! Where text that is no result goes; results go through [`crate::report::emit`].

use std::io::{self, Write};

/// Writes one line to stderr. There is nobody left to tell when that fails.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
