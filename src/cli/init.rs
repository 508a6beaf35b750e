//! `pdsim init`: a commented starter scenario.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};

use super::args::InitArgs;
use super::exit::Failure;
use super::{Outcome, output};

/// The starter; a test runs it.
const STARTER: &str = include_str!("starter.yaml");

/// Writes the starter to a file that does not exist yet.
pub(super) fn init(args: &InitArgs) -> Outcome {
    let shown = args.file.display();
    // `create_new` so that nobody's scenario is lost, not even in a race.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.file);
    let written = file.and_then(|mut file| {
        file.write_all(STARTER.as_bytes()).inspect_err(|_| {
            // Half a starter is no use to anybody; the error of the write is the one to tell.
            let _ = fs::remove_file(&args.file);
        })
    });
    match written {
        Ok(()) => {
            output::tell(&format!("wrote {shown}; run it with: pdsim run {shown}"));
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::BadInput(format!(
            "{shown} exists already; name another file or remove it"
        ))),
        Err(error) => Err(Failure::Broken(format!("cannot write {shown}: {error}"))),
    }
}
