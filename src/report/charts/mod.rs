//! PNG charts: one figure per file, one look for all.
//!
//! A figure is described as data ([`canvas::Figure`]), drawn by plotters into SVG text and rasterised by resvg with the
//! fonts compiled in, so the bytes depend on nothing but the figure.

mod attainment;
mod axes;
mod canvas;
mod cdf;
mod curves;
mod scale;
mod style;
mod timeline;
mod trace;

use std::path::{Path, PathBuf};

pub use curves::{Curves, write_curves};
pub(super) use trace::page as trace;

use super::answer::telling_point;
use super::file::{Error, remove_stale, write_file};
use super::input::Report;
use super::pool::Pooled;

/// Every chart's file, in the order they are written.
const NAMES: [&str; 5] = [
    "attainment.png",
    "attainment_per_gpu.png",
    "ttft_cdf.png",
    "tpot_cdf.png",
    "timeline.png",
];

/// Removes the charts of an earlier run, which would show other figures than the files beside them.
pub(super) fn remove_all(folder: &Path) -> Result<(), Error> {
    NAMES
        .iter()
        .try_for_each(|name| remove_stale(&folder.join(name)))
}

/// Draws every chart that has something to show into `folder` and returns the paths. A chart of an earlier run that
/// this one does not draw is removed.
pub(super) fn write(
    folder: &Path,
    report: &Report,
    pooled: &[Pooled],
) -> Result<Vec<PathBuf>, Error> {
    let point = telling_point(report, pooled);
    let figures = [
        attainment::figure(report, pooled, false),
        attainment::figure(report, pooled, true),
        cdf::ttft(report, point),
        cdf::tpot(report, point),
        timeline::figure(report, point),
    ];
    let mut written = Vec::new();
    for (name, figure) in NAMES.into_iter().zip(figures) {
        let path = folder.join(name);
        let Some(figure) = figure else {
            remove_stale(&path)?;
            continue;
        };
        let png = canvas::png(&figure).map_err(|reason| Error::Chart {
            path: path.clone(),
            reason,
        })?;
        write_file(&path, &png)?;
        written.push(path);
    }
    Ok(written)
}

/// The point's place in the sweep, for subtitles: empty for a single run.
fn at(report: &Report, point: usize) -> String {
    if report.axis.values.len() > 1 {
        let label = &report.axis.values[point].label;
        format!("at {} = {label}", report.axis.key)
    } else {
        String::new()
    }
}

/// The parts that are not empty, joined.
fn subtitle(parts: &[String]) -> String {
    let parts: Vec<&str> = parts
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" · ")
}

/// Names of the systems, in the order of their looks.
fn legend(report: &Report) -> Vec<String> {
    report.systems.iter().map(|s| s.name.clone()).collect()
}
