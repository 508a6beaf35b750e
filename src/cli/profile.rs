//! `pdsim profile`: list, show, fit and check GPU profiles.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use comfy_table::{CellAlignment, Table};

mod charts;
mod show;

use super::exit::Failure;
use super::{Outcome, output};
use crate::hardware::{self, ProfileFile, Provenance};
use crate::latency::profile::{self, ErrorFigures, SurfaceKind, Surfaces};
use crate::report;

/// What to do with profiles.
#[derive(Debug, Subcommand)]
pub(super) enum ProfileCommand {
    /// List the shipped profiles
    List,
    /// Print a profile and draw its surfaces: facts, fit errors, achieved TFLOP/s and GB/s
    Show(show::ShowArgs),
    /// Fit a profile to kernel timings and print its errors on rows and sites left out
    Fit(FitArgs),
    /// Hold a profile against kernel timings without refitting
    Check(CheckProfileArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct FitArgs {
    /// Folder of CSV files, or one file
    samples: PathBuf,
    /// Name of the profile; a shipped profile of that name gives the hardware facts
    #[arg(long)]
    name: String,
    /// The GPU as the samples call it [default: the name]
    #[arg(long)]
    gpu: Option<String>,
    /// Profile to take the hardware facts from [default: the shipped one of that name]
    #[arg(long, value_name = "PROFILE")]
    hardware: Option<String>,
    /// Where the times come from
    #[arg(long, value_enum, default_value_t = Origin::Measured)]
    provenance: Origin,
    /// Who measured what, with its licence
    #[arg(long, default_value = "measured by the owner of this file")]
    source: String,
    /// Day of the fit, as YYYY-MM-DD
    #[arg(long)]
    date: Option<String>,
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "profile.yaml")]
    out: PathBuf,
    /// Leave out the cross-validation, which takes ten more fits
    #[arg(long)]
    no_validation: bool,
}

/// [`Provenance`] on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Origin {
    Measured,
    Published,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckProfileArgs {
    /// A shipped name or the path of a profile.yaml
    profile: String,
    /// Folder of CSV files, or one file
    samples: PathBuf,
    /// The GPU as the samples call it [default: the name of the profile]
    #[arg(long)]
    gpu: Option<String>,
}

/// Runs a subcommand.
pub(super) fn profile(command: &ProfileCommand) -> Outcome {
    match command {
        ProfileCommand::List => list(),
        ProfileCommand::Show(args) => show::show(args),
        ProfileCommand::Fit(args) => fit(args),
        ProfileCommand::Check(args) => check(args),
    }
}

fn bad(error: impl std::fmt::Display) -> Failure {
    Failure::BadInput(error.to_string())
}

/// An empty table: first column to the left, numbers to the right.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(
        comfy_table::presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none()),
    );
    table.set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn list() -> Outcome {
    let mut table = table(&[
        "GPU",
        "memory GiB",
        "bandwidth GB/s",
        "bf16 TFLOP/s",
        "fp8",
        "NVLink GB/s",
        "times",
    ]);
    for name in hardware::gpu_names() {
        let file = hardware::profile(name).map_err(bad)?;
        let h = &file.hardware;
        let or_none = |x: Option<f64>| x.map_or_else(|| "-".to_owned(), |x| x.to_string());
        let times = match &file.surfaces_from {
            Some(from) => format!("{}, borrowed from {from}", file.provenance.name()),
            None => file.provenance.name().to_owned(),
        };
        table.add_row([
            name.to_owned(),
            h.memory_gib.to_string(),
            h.memory_bandwidth_gb_s.to_string(),
            h.peak_tflops.bf16.to_string(),
            or_none(h.peak_tflops.fp8),
            or_none(h.nvlink_gb_s),
            times,
        ]);
    }
    report::emit(&format!("{table}\n"))?;
    Ok(())
}

fn surfaces(file: &ProfileFile, path: &str) -> Result<Surfaces, Failure> {
    file.surfaces
        .as_ref()
        .map_or_else(|| Ok(Surfaces::new()), |v| profile::parse(v, path))
        .map_err(bad)
}

fn shown(figures: Option<ErrorFigures>) -> [String; 3] {
    figures.map_or_else(
        || ["-", "-", "-"].map(str::to_owned),
        |f| [f.median, f.p90, f.max].map(|x| format!("{x:.2}")),
    )
}

fn error_table(surfaces: &Surfaces) -> Table {
    let mut table = table(&[
        "surface",
        "knots",
        "samples",
        "rows left out: median %",
        "p90 %",
        "max %",
        "sites left out: median %",
        "p90 %",
        "max %",
    ]);
    for surface in surfaces.values() {
        let [rm, r9, rx] = shown(surface.error.map(|e| e.rows));
        let [sm, s9, sx] = shown(surface.error.and_then(|e| e.sites));
        table.add_row([
            label(surface.kind),
            surface.grid.values().len().to_string(),
            surface.samples.to_string(),
            rm,
            r9,
            rx,
            sm,
            s9,
            sx,
        ]);
    }
    table
}

fn label(kind: SurfaceKind) -> String {
    let (name, variant) = kind.names();
    format!("{name} {variant}")
}

fn fit(args: &FitArgs) -> Outcome {
    let template = args.hardware.as_deref().unwrap_or(&args.name);
    let facts = hardware::profile(template).map_err(bad)?;
    let gpu_name = args.gpu.as_deref().unwrap_or(&args.name);
    let samples = profile::read_samples(&args.samples, gpu_name).map_err(bad)?;
    for (reason, count) in &samples.dropped {
        output::tell(&format!("note: {count} rows left out: {reason}"));
    }
    if !samples.skipped_files.is_empty() {
        output::tell(&format!(
            "note: files that are no samples: {}",
            samples.skipped_files.join(", ")
        ));
    }
    let gpu = facts.gpu();
    let report = profile::fit(&samples.rows, &gpu, !args.no_validation);
    for (kind, count) in &report.too_few {
        output::tell(&format!(
            "note: {} has only {count} samples, no surface",
            label(*kind)
        ));
    }
    if report.surfaces.is_empty() {
        return Err(Failure::BadInput(format!(
            "{}: too few samples of {gpu_name} for any surface, so there is no profile; measure more points",
            args.samples.display()
        )));
    }
    let file = ProfileFile {
        format: hardware::FORMAT,
        name: args.name.clone(),
        provenance: match args.provenance {
            Origin::Measured => Provenance::Measured,
            Origin::Published => Provenance::Published,
        },
        source: args.source.clone(),
        date: args.date.clone(),
        surfaces_from: None,
        surfaces: None,
        ..facts
    };
    let text = profile::profile_yaml(&file, &report.surfaces);
    report::emit(&format!("{}\n", error_table(&report.surfaces)))?;
    let mut out = report::AtomicFile::create(&args.out)?;
    out.write(text.as_bytes())?;
    out.finish()?;
    output::tell(&format!(
        "wrote {} ({} kB)",
        args.out.display(),
        text.len() / 1000
    ));
    Ok(())
}

fn check(args: &CheckProfileArgs) -> Outcome {
    let file = hardware::profile(&args.profile).map_err(bad)?;
    let surfaces = surfaces(&file, &args.profile)?;
    let gpu_name = args.gpu.as_deref().unwrap_or(&file.name);
    let samples = profile::read_samples(&args.samples, gpu_name).map_err(bad)?;
    let (checked, missing) = profile::check(&surfaces, &samples.rows, &file.gpu());
    if checked.is_empty() {
        let kinds: Vec<String> = missing.iter().map(|(kind, _)| label(*kind)).collect();
        return Err(Failure::BadInput(format!(
            "{}: the profile has no surface of its own for any of the samples ({})",
            args.profile,
            kinds.join(", ")
        )));
    }
    let mut table = table(&[
        "surface",
        "samples",
        "not covered",
        "median %",
        "p90 %",
        "max %",
        "bias %",
    ]);
    for c in &checked {
        let [median, p90, max] = shown(Some(c.error));
        table.add_row([
            label(c.kind),
            c.samples.to_string(),
            c.outside.to_string(),
            median,
            p90,
            max,
            format!("{:+.2}", c.bias),
        ]);
    }
    report::emit(&format!("{table}\n"))?;
    for (kind, count) in missing {
        output::tell(&format!(
            "note: the profile has no surface for {} ({count} samples)",
            label(kind)
        ));
    }
    Ok(())
}
