//! Workloads against recorded data: readers on real files, named length distributions against their traces.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panic and say what they skip"
)]

mod cli;
mod named_lengths;
mod real_traces;
mod sample_trace;
mod samples;

use std::path::{Path, PathBuf};

/// The folder of the shared traces, or none with a visible note.
fn traces() -> Option<PathBuf> {
    let folder = std::env::var("PDSIM_TRACES").unwrap_or_else(|_| "../shared/traces".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no traces at {} (set PDSIM_TRACES)",
        folder.display()
    );
    None
}
