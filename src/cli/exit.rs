//! How a command can fail, and the exit code of each way (design section 2).

use std::io;
use std::process::ExitCode;

use crate::{report, scenario, sweep};

use super::output;

/// Internal or I/O failure.
const FAILURE: u8 = 1;
/// Bad scenario, flags or trace.
const BAD_INPUT: u8 = 2;
/// The SLO or a `--require` condition was missed.
const MISSED: u8 = 3;
/// No usable GPU.
const NO_GPU: u8 = 4;

/// Why a command did not succeed; each message is complete.
#[derive(Debug)]
pub(super) enum Failure {
    /// What the user gave is wrong.
    BadInput(String),
    /// The system or the simulation failed.
    Broken(String),
    /// The run went well, its figures miss what was required.
    Missed(String),
    /// There is no GPU to measure.
    NoGpu(String),
}

impl Failure {
    /// Tells the user on stderr and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        let (text, code) = match self {
            Self::BadInput(text) => (text, BAD_INPUT),
            Self::Broken(text) => (text, FAILURE),
            Self::Missed(text) => (text, MISSED),
            Self::NoGpu(text) => (text, NO_GPU),
        };
        for line in text.lines() {
            output::tell(&format!("error: {line}"));
        }
        ExitCode::from(code)
    }
}

impl From<scenario::Error> for Failure {
    fn from(error: scenario::Error) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<sweep::Error> for Failure {
    fn from(error: sweep::Error) -> Self {
        match error {
            sweep::Error::Workload(text) => Self::BadInput(text),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<report::Error> for Failure {
    fn from(error: report::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Prints clap's own message where it belongs (help to stdout, errors to stderr).
pub(super) fn usage(message: &clap::Error) -> ExitCode {
    match message.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(FAILURE),
        _ if message.use_stderr() => ExitCode::from(BAD_INPUT),
        _ => ExitCode::SUCCESS,
    }
}
