//! `pdsim profile show`: a profile in words and pictures.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{bad, charts, error_table, surfaces};
use crate::cli::exit::Failure;
use crate::cli::{Outcome, output};
use crate::hardware::{self, ProfileFile};
use crate::latency::profile::{CopyPath, Launch, SurfaceKind, Surfaces, predict};
use crate::report;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ShowArgs {
    /// A shipped name or the path of a profile.yaml
    profile: String,
    /// Folder for the charts [default: output/profile-<name>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print only
    #[arg(long)]
    no_charts: bool,
}

/// Prints a profile and draws what it times; a profile that borrows draws nothing of its own.
pub(in crate::cli) fn show(args: &ShowArgs) -> Outcome {
    let file = hardware::profile(&args.profile).map_err(bad)?;
    let surfaces = surfaces(&file, &args.profile)?;
    report::emit(&facts(&file)?)?;
    if surfaces.is_empty() {
        return Ok(());
    }
    report::emit(&format!("{}\n", error_table(&surfaces)))?;
    report::emit(&single_figures(&file, &surfaces)?)?;
    if args.no_charts {
        return Ok(());
    }
    let folder = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("output").join(format!("profile-{}", file.name)));
    std::fs::create_dir_all(&folder)
        .map_err(|e| Failure::Broken(format!("cannot make {}: {e}", folder.display())))?;
    for (name, curves) in charts::charts(&file, &surfaces) {
        let path = folder.join(name);
        if report::write_curves(&path, &curves)? {
            output::tell(&format!("wrote {}", path.display()));
        }
    }
    Ok(())
}

/// The profile's head, for people.
fn facts(file: &ProfileFile) -> Result<String, Failure> {
    let mut text = String::new();
    let h = &file.hardware;
    write_facts(&mut text, file, h).map_err(|_| Failure::Broken("cannot format".to_owned()))?;
    Ok(text)
}

fn write_facts(
    out: &mut String,
    file: &ProfileFile,
    h: &hardware::HardwareSection,
) -> std::fmt::Result {
    writeln!(out, "{}: {} profile", file.name, file.provenance.name())?;
    writeln!(out, "source: {}", file.source.trim())?;
    let p = &h.peak_tflops;
    let peaks = [
        ("bf16", Some(p.bf16)),
        ("fp8", p.fp8),
        ("int8", p.int8),
        ("fp4", p.fp4),
    ];
    let peaks: Vec<String> = peaks
        .into_iter()
        .filter_map(|(name, peak)| peak.map(|peak| format!("{name} {peak}")))
        .collect();
    writeln!(
        out,
        "hardware: {}, {} GiB at {} GB/s, dense TFLOP/s {}, {} GPUs per node, {} W",
        h.architecture,
        h.memory_gib,
        h.memory_bandwidth_gb_s,
        peaks.join(", "),
        h.gpus_per_node,
        h.power_w
    )?;
    let nvlink = h
        .nvlink_gb_s
        .map_or_else(|| "none".to_owned(), |x| format!("{x} GB/s"));
    writeln!(
        out,
        "links per GPU and direction: NVLink {nvlink}, PCIe {} GB/s, network {} GB/s",
        h.pcie_gb_s, h.nic_gb_s
    )?;
    if let Some(from) = &file.surfaces_from {
        writeln!(
            out,
            "surfaces borrowed from {from}, scaled by the ratio of rooflines; see `pdsim profile show {from}`"
        )?;
    }
    Ok(())
}

/// Launches and copies, which are a figure each.
fn single_figures(file: &ProfileFile, surfaces: &Surfaces) -> Result<String, Failure> {
    const LARGE: f64 = 256e6;
    let mut text = String::new();
    let gpu = file.gpu();
    let write = |text: &mut String, line: String| {
        writeln!(text, "{line}").map_err(|_| Failure::Broken("cannot format".to_owned()))
    };
    for launch in Launch::ALL {
        if let Some(surface) = surfaces.get(&SurfaceKind::Launch(launch)) {
            let us = predict(surface, &[1.0], &gpu).seconds * 1e6;
            write(&mut text, format!("launch {}: {us:.2} us", launch.name()))?;
        }
    }
    for path in CopyPath::ALL {
        if let Some(surface) = surfaces.get(&SurfaceKind::Copy(path)) {
            let rate = LARGE / predict(surface, &[LARGE], &gpu).seconds / 1e9;
            write(
                &mut text,
                format!("copy {}: {rate:.1} GB/s of 256 MB", path.name()),
            )?;
        }
    }
    Ok(text)
}
