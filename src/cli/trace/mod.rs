//! `pdsim trace`: looks at, converts, generates and fits traces.

mod args;
mod sink;

pub(super) use args::TraceArgs;

use std::path::Path;

use crate::workload::fit::{FitError, fit_trace};
use crate::workload::stats::trace_stats;
use crate::workload::trace::{
    Format, Losses, ReadReport, TraceError, WriteError, convert, write_workload,
};
use crate::{report, scenario};

use super::exit::Failure;
use super::{Outcome, output};
use args::{Action, ConvertArgs, FitArgs, GenerateArgs, InfoArgs};
use sink::Sink;

/// Runs a subcommand of `pdsim trace`.
pub(super) fn trace(args: &TraceArgs) -> Outcome {
    match &args.action {
        Action::Info(args) => info(args),
        Action::Convert(args) => convert_file(args),
        Action::Generate(args) => generate(args),
        Action::Fit(args) => fit(args),
    }
}

fn info(args: &InfoArgs) -> Outcome {
    let stats = trace_stats(&args.trace, &args.select.options()?)?;
    warn(&stats.report);
    report::emit(&if args.json {
        report::trace_json(&stats)
    } else {
        report::trace_text(&stats)
    })?;
    if args.no_charts {
        return Ok(());
    }
    let stem = args.trace.file_stem().unwrap_or_default();
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new("output").join(stem));
    let page = folder.join("trace.png");
    report::trace_page(&page, &stats)?;
    output::tell(&format!("wrote {}", page.display()));
    Ok(())
}

fn convert_file(args: &ConvertArgs) -> Outcome {
    let options = args.retime.apply(args.select.options()?)?;
    let format = target(args.to.as_deref(), &args.output)?;
    let mut sink = Sink::create(&args.output)?;
    let done = convert(&args.trace, &options, format, &mut sink);
    let Some((read, losses)) = sink.settle(done)? else {
        return Ok(());
    };
    warn(&read);
    output::tell(&read.to_string());
    told(&args.output, read.kept, format, &losses);
    Ok(())
}

fn generate(args: &GenerateArgs) -> Outcome {
    let experiment = scenario::load(&args.scenario, &args.overrides)?;
    let seed = args.seed.or(experiment.seeds.first().copied()).unwrap_or(1);
    let format = target(args.to.as_deref(), &args.output)?;
    let mut sink = Sink::create(&args.output)?;
    let done = write_workload(&experiment.points[0].workload, seed, format, &mut sink);
    let Some((written, losses)) = sink.settle(done)? else {
        return Ok(());
    };
    told(&args.output, written, format, &losses);
    Ok(())
}

fn fit(args: &FitArgs) -> Outcome {
    let fitted = fit_trace(&args.trace, &args.select.options()?)?;
    warn(&fitted.stats.report);
    report::emit(&fitted.to_string())?;
    Ok(())
}

/// The format to write: as asked, or as the file's name ends.
fn target(asked: Option<&str>, path: &Path) -> Result<Format, Failure> {
    if let Some(name) = asked {
        return name
            .parse()
            .map_err(|error| Failure::BadInput(format!("--to: {error}")));
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => Ok(Format::PdsimCsv),
        Some("jsonl") => Ok(Format::PdsimJsonl),
        _ => {
            let shown = path.display();
            let text = format!(
                "{shown}: the name does not end in .csv or .jsonl; name the format with --to"
            );
            Err(Failure::BadInput(text))
        }
    }
}

fn warn(read: &ReadReport) {
    for warning in &read.warnings {
        output::tell(&format!("warning: {warning}"));
    }
}

fn told(path: &Path, n: u64, format: Format, losses: &Losses) {
    if sink::is_stdout(path) {
        return;
    }
    let lost = if losses.none() {
        String::new()
    } else {
        format!("; this format cannot hold all: {losses}")
    };
    output::tell(&format!(
        "wrote {} requests to {} as {format}{lost}",
        n,
        path.display()
    ));
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<FitError> for Failure {
    fn from(error: FitError) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(_) => Self::Broken(error.to_string()),
            WriteError::Read(_) | WriteError::Value(_) => Self::BadInput(error.to_string()),
        }
    }
}
