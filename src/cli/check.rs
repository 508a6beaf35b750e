//! `pdsim check`: parse and validate only.

use crate::{report, scenario, sweep};

use super::args::CheckArgs;
use super::exit::Failure;
use super::{Outcome, output};

/// Checks every scenario and says what each would run; all problems of all files are reported.
pub(super) fn check(args: &CheckArgs) -> Outcome {
    let mut problems = Vec::new();
    for path in &args.scenarios {
        match scenario::load(path, &args.overrides.flags()) {
            Ok(experiment) => {
                for note in &experiment.notes {
                    output::tell(&format!("note: {note}"));
                }
                for warning in &experiment.warnings {
                    output::tell(&format!("warning: {warning}"));
                }
                let systems = experiment.points[0].systems.len();
                let line = format!(
                    "{}: ok: {} systems × {} points × {} seeds = {} runs\n",
                    path.display(),
                    systems,
                    experiment.points.len(),
                    experiment.seeds.len(),
                    sweep::runs(&experiment)
                );
                report::emit(&line)?;
                if args.resolved {
                    report::emit(&experiment.resolved)?;
                }
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::BadInput(problems.join("\n")))
}
