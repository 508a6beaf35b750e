//! PNG charts: one figure per file, one look for all.
//!
//! A figure is described as data ([`canvas::Figure`]), drawn by plotters into SVG text and rasterised by resvg with the
//! fonts compiled in, so the bytes depend on nothing but the figure.

mod attainment;
mod axes;
mod canvas;
mod cdf;
mod scale;
mod style;
mod timeline;
mod trace;

use std::path::{Path, PathBuf};

pub(super) use trace::page as trace;

use super::answer::telling_point;
use super::file::{Error, remove_stale, write_file};
use super::input::Report;
use super::pool::Pooled;

/// Draws every chart that has something to show into `folder` and returns the paths. A chart of an earlier run that
/// this one does not draw is removed.
pub(super) fn write(
    folder: &Path,
    report: &Report,
    pooled: &[Pooled],
) -> Result<Vec<PathBuf>, Error> {
    let point = telling_point(report, pooled);
    let figures = [
        ("attainment.png", attainment::figure(report, pooled, false)),
        (
            "attainment_per_gpu.png",
            attainment::figure(report, pooled, true),
        ),
        ("ttft_cdf.png", cdf::ttft(report, point)),
        ("tpot_cdf.png", cdf::tpot(report, point)),
        ("timeline.png", timeline::figure(report, point)),
    ];
    let mut written = Vec::new();
    for (name, figure) in figures {
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
