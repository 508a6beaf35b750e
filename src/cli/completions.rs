//! `pdsim completions`: a completion script for a shell.

use clap::CommandFactory;

use crate::report;

use super::Outcome;
use super::args::{Args, CompletionsArgs};

/// Prints the script.
pub(super) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "pdsim", &mut script);
    Ok(report::emit(&String::from_utf8_lossy(&script))?)
}
