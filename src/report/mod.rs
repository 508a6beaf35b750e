//! Consumers of results: files, charts and the terminal.
//!
//! The caller fills a [`Report`] with the runs of an experiment; everything here only reads it. Files are written
//! beside their final name and renamed when complete, so nothing half-written is ever left under it.

mod answer;
mod balance;
mod charts;
mod compare;
mod figures;
mod file;
mod input;
mod json;
mod links;
mod pool;
mod requests;
mod summary;
mod terminal;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod timeseries;
mod trace;
mod vllm;
mod words;

use std::path::{Path, PathBuf};

pub use answer::{Crossing, crossings, sentences, telling_point};
pub use balance::{Balance, Phase, balance};
pub use charts::{Curves, write_curves};
pub use figures::{Figure, figures, value};
pub use file::{AtomicFile, Error};
pub use input::{Axis, AxisValue, Report, Run, Shape, SystemInfo};
pub use json::{GridCrossing, Point, Promise, Summary, System, summarise};
pub use pool::{Pooled, difference, pool};
pub use requests::HEADER as REQUESTS_HEADER;
pub use terminal::{Style, emit, terminal, warnings};
pub use trace::{trace_json, trace_page, trace_text};

/// Writes the results of every run that kept its records as vLLM's benchmark does, in a folder of their own, and returns
/// the paths.
///
/// # Errors
/// When the folder or a file cannot be written; the message names it.
pub fn write_vllm(folder: &Path, report: &Report) -> Result<Vec<PathBuf>, Error> {
    vllm::write(folder, report)
}

/// Writes every file of the report into `folder`, which is made when missing, and returns their paths in order.
///
/// `resolved` is the text of `scenario.resolved.yaml`.
///
/// # Errors
/// When the folder or a file cannot be written; the message names it.
pub fn write_all(folder: &Path, report: &Report, resolved: &str) -> Result<Vec<PathBuf>, Error> {
    let mut written = write_data(folder, report, resolved)?;
    written.extend(charts::write(folder, report, &pool(report))?);
    Ok(written)
}

/// Writes every file but the charts, as [`write_all`] does, and removes the charts and vLLM results of an earlier run.
///
/// # Errors
/// When the folder or a file cannot be written; the message names it.
pub fn write_data(folder: &Path, report: &Report, resolved: &str) -> Result<Vec<PathBuf>, Error> {
    file::create_folder(folder)?;
    charts::remove_all(folder)?;
    vllm::remove_all(folder)?;
    let path = |name: &str| folder.join(name);
    let pooled = pool(report);
    let mut written = Vec::new();
    let mut done = |path: PathBuf| written.push(path);
    file::write_file(&path("scenario.resolved.yaml"), resolved.as_bytes())?;
    done(path("scenario.resolved.yaml"));
    summary::write(&path("summary.csv"), report, &pooled)?;
    done(path("summary.csv"));
    summary::write_pools(&path("pools.csv"), report)?;
    done(path("pools.csv"));
    if report.runs.iter().any(|run| !run.metrics.links.is_empty()) {
        links::write(&path("links.csv"), report)?;
        done(path("links.csv"));
    } else {
        file::remove_stale(&path("links.csv"))?;
    }
    timeseries::write(&path("timeseries.csv"), report)?;
    done(path("timeseries.csv"));
    if report.runs.iter().any(|run| run.metrics.records.is_some()) {
        requests::write(&path("requests.csv"), report)?;
        done(path("requests.csv"));
    } else {
        file::remove_stale(&path("requests.csv"))?;
    }
    Ok(written)
}
