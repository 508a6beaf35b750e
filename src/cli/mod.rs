//! The command line: as typed, then as meant; one file per subcommand.
//!
//! Results go to stdout, everything else to stderr, and nothing outside this module (and the texts `report` hands it)
//! is ever printed. A reader that closes stdout early is no failure.

mod args;
mod calibrate;
mod check;
mod completions;
mod exit;
mod explain;
mod init;
mod model;
mod output;
mod profile;
mod progress;
mod require;
mod run;
mod trace;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::Failure;

/// Runs the command line and returns the process's exit code.
#[must_use]
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(message) => return exit::usage(&message),
    };
    let outcome = match args.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Trace(args) => trace::trace(&args),
        Command::Init(args) => init::init(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Model(command) => model::model(&command),
        Command::Profile(command) => profile::profile(&command),
        Command::Completions(args) => completions::completions(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What a subcommand comes to.
type Outcome = Result<(), Failure>;
