//! Kernel timings in CSV files.
//!
//! A folder holds files whose names start with what they time: `gemm*.csv`, `prefill_attention*`,
//! `decode_attention*`, `mla_prefill*`, `mla_decode*`, `moe*`, `moe_dispatch*`, `collective*`, `elementwise*`, `launch*`,
//! `copy*`; others are named as skipped. Columns are found by name; the time column says its unit (`time_us`, `time_ms`, `latency_ms`, `time_s`).
//! Names used by AIConfigurator's tables are understood as well (`q_len`, `kv_len`, `quant`, `num_gpus`, …).
//!
//! | file | columns besides `gpu` and the time |
//! |---|---|
//! | `gemm` | `dtype, m, n, k` |
//! | `prefill_attention` | `kv_dtype, batch, new_tokens, heads, kv_heads, head_dim` and, if any, `window` |
//! | `decode_attention` | `kv_dtype, batch, context_tokens, heads, kv_heads, head_dim` and, if any, `window` |
//! | `mla_prefill` | `kv_dtype, batch, new_tokens, heads` |
//! | `mla_decode` | `kv_dtype, batch, context_tokens, heads` |
//! | `moe` | `dtype, tokens, hidden, expert_size, top_k, experts, tp, ep, distribution` |
//! | `collective` | `kind, ranks, message_bytes` and, if any, `implementation` |
//! | `elementwise` | `bytes` |
//! | `moe_dispatch` | `op` (dispatch or combine), `mode` (`normal`, `low_latency`, `one_sided`), `ranks, hidden, top_k, tokens` of one rank |
//! | `launch` | `op` (`kernel`, `graph`, `graph_node`) |
//! | `copy` | `op` (`device`, `stream_read`, `host_to_device`, `device_to_host`, `peer`), `bytes` |
//!
//! `context_tokens` counts the token the step adds. Times are those of one call on one GPU.

mod columns;
mod rows;
mod transfer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::ProfileError;
use super::shapes::{Point, SurfaceKind};
use columns::Columns;
use rows::RowKind;

/// One timing.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Which surface it belongs to.
    pub kind: SurfaceKind,
    /// Where on it.
    pub point: Point,
    /// What is left out together in cross-validation: the (n, k) of a product, the head layout of an attention, the
    /// expert shape.
    pub site: String,
    /// The time.
    pub seconds: f64,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// The timings of the GPU asked for.
    pub rows: Vec<Sample>,
    /// Rows of that GPU left out, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Files that are no samples.
    pub skipped_files: Vec<String>,
    /// GPUs seen in any file.
    pub gpus: Vec<String>,
}

/// Reads the timings of one GPU from a folder of CSV files, or from one file.
///
/// # Errors
/// When nothing can be read, a column is missing, a cell is impossible or no row is about the GPU.
pub fn read(path: &Path, gpu: &str) -> Result<Samples, ProfileError> {
    let mut samples = Samples::default();
    for file in files(path)? {
        let stem = file
            .file_stem()
            .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        match RowKind::of_file(&stem) {
            Some(kind) => read_file(&file, kind, gpu, &mut samples)?,
            None => samples.skipped_files.push(stem),
        }
    }
    remove_duplicates(&mut samples);
    if samples.rows.is_empty() {
        return Err(ProfileError::NoSamples {
            path: path.display().to_string(),
            gpu: gpu.to_owned(),
            found: samples.gpus.join(", "),
        });
    }
    Ok(samples)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    let failed = |e: std::io::Error| ProfileError::Read {
        path: path.display().to_string(),
        reason: e.to_string(),
    };
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        if file.extension().is_some_and(|e| e == "csv") {
            files.push(file);
        }
    }
    // The order of a folder is not fixed.
    files.sort();
    Ok(files)
}

/// `a100_sxm` and `A100-SXM` are one GPU.
pub(super) fn same_gpu(a: &str, b: &str) -> bool {
    let plain = |s: &str| s.to_lowercase().replace('_', "-").replace("-80g", "");
    plain(a) == plain(b)
}

fn read_file(
    file: &Path,
    kind: RowKind,
    gpu: &str,
    samples: &mut Samples,
) -> Result<(), ProfileError> {
    let shown = file.display().to_string();
    let unreadable = |e: csv::Error| ProfileError::Read {
        path: shown.clone(),
        reason: e.to_string(),
    };
    let mut reader = csv::Reader::from_path(file).map_err(unreadable)?;
    let columns = Columns::new(&shown, reader.headers().map_err(unreadable)?)?;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(unreadable)? {
        let line = record.position().map_or(0, csv::Position::line);
        let row = columns.row(&record, line);
        let name = row.text("gpu")?;
        if !samples.gpus.iter().any(|g| g == name) {
            samples.gpus.push(name.to_owned());
        }
        if !same_gpu(name, gpu) {
            continue;
        }
        for outcome in kind.samples(&row)? {
            match outcome {
                Ok(sample) => samples.rows.push(sample),
                Err(reason) => *samples.dropped.entry(reason.to_owned()).or_default() += 1,
            }
        }
    }
    Ok(())
}

/// Averages rows of the same surface and point, which repeat a measurement.
fn remove_duplicates(samples: &mut Samples) {
    let key = |s: &Sample| {
        let bits: Vec<u64> = s.point.iter().map(|x| x.to_bits()).collect();
        (s.kind, bits)
    };
    samples.rows.sort_by_cached_key(key);
    let before = samples.rows.len();
    let mut merged: Vec<(Sample, u32)> = Vec::with_capacity(before);
    for sample in std::mem::take(&mut samples.rows) {
        match merged.last_mut() {
            Some((last, count)) if key(last) == key(&sample) => {
                last.seconds += sample.seconds;
                *count += 1;
            }
            _ => merged.push((sample, 1)),
        }
    }
    samples.rows = merged
        .into_iter()
        .map(|(mut s, count)| {
            s.seconds /= f64::from(count);
            s
        })
        .collect();
    let repeats = (before - samples.rows.len()) as u64;
    if repeats > 0 {
        *samples
            .dropped
            .entry("repeats of a point, averaged".to_owned())
            .or_default() += repeats;
    }
}

#[cfg(test)]
mod tests;
