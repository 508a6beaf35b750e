//! `pdsim run`: simulate, compare, write.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::report::{self, AtomicFile, Report, Style};
use crate::scenario::{self, Experiment};
use crate::sweep;

use super::args::RunArgs;
use super::exit::Failure;
use super::require::Condition;
use super::{Outcome, output, progress};

/// Runs every scenario in turn; all are resolved before the first one runs.
pub(super) fn run(args: &RunArgs) -> Outcome {
    let conditions = conditions(args)?;
    let experiments = load(args)?;
    for experiment in &experiments {
        for condition in &conditions {
            let systems = experiment.points[0]
                .systems
                .iter()
                .map(|system| system.name.as_str());
            condition.check_system(systems).map_err(Failure::BadInput)?;
        }
    }
    let mut misses = Vec::new();
    for (scenario, experiment) in args.scenarios.iter().zip(&experiments) {
        let folder = folder(args, experiment, experiments.len());
        let report = one(args, scenario, experiment, &folder)?;
        let pooled = report::pool(&report);
        misses.extend(
            conditions
                .iter()
                .flat_map(|condition| condition.misses(&report, &pooled)),
        );
    }
    if misses.is_empty() {
        return Ok(());
    }
    Err(Failure::Missed(misses.join("\n")))
}

fn conditions(args: &RunArgs) -> Result<Vec<Condition>, Failure> {
    args.require
        .iter()
        .map(|text| text.parse().map_err(Failure::BadInput))
        .collect()
}

/// Resolves every scenario, or reports the problems of all of them.
fn load(args: &RunArgs) -> Result<Vec<Experiment>, Failure> {
    let flags = args.flags();
    let mut experiments: Vec<Experiment> = Vec::new();
    let mut problems = Vec::new();
    for path in &args.scenarios {
        match scenario::load(path, &flags) {
            Ok(experiment) => {
                if experiments
                    .iter()
                    .any(|other| other.name == experiment.name)
                {
                    problems.push(format!(
                        "{}: name: `{}` is taken by another scenario of this run, and both would write to the same folder",
                        path.display(),
                        experiment.name
                    ));
                }
                experiments.push(experiment);
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(experiments);
    }
    Err(Failure::BadInput(problems.join("\n")))
}

/// Where the results of an experiment go.
fn folder(args: &RunArgs, experiment: &Experiment, experiments: usize) -> PathBuf {
    match &args.out {
        Some(out) if experiments == 1 => out.clone(),
        Some(out) => out.join(&experiment.name),
        None => Path::new("output").join(&experiment.name),
    }
}

/// Runs one experiment, writes its files, prints the answer.
fn one(
    args: &RunArgs,
    scenario: &Path,
    experiment: &Experiment,
    folder: &Path,
) -> Result<Report, Failure> {
    // A folder that cannot be written is better known before the simulation than after it.
    writable(folder)?;
    let bar = progress::bar(sweep::runs(experiment), args.quiet);
    let outcome = sweep::run(experiment, args.threads(), &|| bar.inc(1));
    bar.finish_and_clear();
    let report = outcome?;
    something_measured(&report, scenario)?;
    let write = if experiment.output.charts {
        report::write_all
    } else {
        report::write_data
    };
    let mut files = write(folder, &report, &experiment.resolved)?;
    if experiment.output.vllm_bench {
        files.extend(report::write_vllm(folder, &report)?);
    }
    if args.json {
        report::emit(&json(&report)?)?;
    } else {
        report::emit(&report::terminal(&report, &style()))?;
    }
    if !args.quiet {
        for warning in report::warnings(&report) {
            output::tell(&format!("warning: {warning}"));
        }
        output::tell(&closing_line(folder, &files));
    }
    Ok(report)
}

/// Refuses an answer without a single figure: it would be a verdict on nothing.
fn something_measured(report: &Report, scenario: &Path) -> Result<(), Failure> {
    let metrics = report.runs.iter().map(|run| &run.metrics);
    if metrics.clone().any(|m| m.counts.measured > 0) {
        return Ok(());
    }
    let arrived = metrics.clone().map(|m| m.counts.arrived).max().unwrap_or(0);
    let last = metrics.map(|m| m.last_arrival_s).fold(0.0, f64::max);
    let path = scenario.display();
    Err(Failure::BadInput(if arrived == 0 {
        format!(
            "{path}: horizon: no request arrives before it, so nothing can be measured; raise `horizon`, or the rate"
        )
    } else {
        format!(
            "{path}: workload.warmup: leaves out every request: the last of {arrived} arrives after {last:.3} s, before the warm-up ends, so \
             nothing is measured; lower `workload.warmup`, or simulate more requests"
        )
    }))
}

/// Makes the folder, and a file in it that is gone again.
fn writable(folder: &Path) -> Result<(), Failure> {
    let elsewhere = "choose another folder with --out";
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::Broken(format!(
            "cannot create {}: {error}; {elsewhere}",
            folder.display()
        ))
    })?;
    AtomicFile::create(&folder.join("summary.csv"))
        .map_err(|error| Failure::Broken(format!("{error}; {elsewhere}")))?;
    Ok(())
}

/// The summary as a JSON document.
fn json(report: &Report) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(&report::summarise(report))
        .map_err(|error| Failure::Broken(format!("cannot write the summary as JSON: {error}")))?;
    Ok(text + "\n")
}

/// Columns of a file or pipe, which has no width of its own.
const PIPE_WIDTH: u16 = 132;

/// As wide as the terminal, coloured only there.
fn style() -> Style {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    Style {
        width: comfy_table::Table::new().width().unwrap_or(PIPE_WIDTH),
        colour: coloured,
    }
}

/// Names the files written.
fn closing_line(folder: &Path, files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| {
            file.strip_prefix(folder)
                .unwrap_or(file)
                .display()
                .to_string()
        })
        .collect();
    format!(
        "wrote {} files to {}: {}",
        files.len(),
        folder.display(),
        names.join(", ")
    )
}
