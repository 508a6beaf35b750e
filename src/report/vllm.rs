//! Results in the shape of `vllm bench serve --save-result --save-detailed`, so that what reads those reads these.
//!
//! One file per run, with the keys of vLLM's `benchmarks/serve.py`: totals, rates, the shapes of TTFT, TPOT, ITL and E2E in
//! ms, and lists over the measured requests in order of arrival, in seconds. What a simulation has not got is left out:
//! `itls` (gaps are kept as a histogram of all requests, not by request), `generated_texts`, `std_itl_ms`, the date. Added
//! are `backend: pdsim`, the system, the seed and the swept key.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::file::{AtomicFile, Error, create_folder, remove_stale};
use super::input::{Report, Run};
use super::text::{push_s, push_u64};
use crate::cluster::{Outcome, RequestRecord};
use crate::metrics::{Distribution, Records};
use crate::units::{PS_PER_S, SimDuration};
use crate::workload::Client;

/// The folder of these files below that of the results.
const FOLDER: &str = "vllm-bench";

/// Removes the files of an earlier run.
pub(super) fn remove_all(folder: &Path) -> Result<(), Error> {
    let Ok(entries) = fs::read_dir(folder.join(FOLDER)) else {
        return Ok(());
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|ending| ending == "json") {
            remove_stale(&path)?;
        }
    }
    Ok(())
}

/// Writes a file for each run that kept its records, and returns their paths.
pub(super) fn write(folder: &Path, report: &Report) -> Result<Vec<PathBuf>, Error> {
    let folder = folder.join(FOLDER);
    create_folder(&folder)?;
    let mut written = Vec::new();
    for run in report.ordered_runs() {
        let Some(records) = &run.metrics.records else {
            continue;
        };
        let point = if report.axis.values.len() > 1 {
            format!("-point{}", run.point + 1)
        } else {
            String::new()
        };
        let name = &report.systems[run.system].name;
        let path = folder.join(format!("{name}{point}-seed{}.json", run.seed));
        let mut file = AtomicFile::create(&path)?;
        file.write(&result(report, run, records))?;
        file.finish()?;
        written.push(path);
    }
    Ok(written)
}

/// One result. Times are written from whole picoseconds, which a float would not keep.
fn result(report: &Report, run: &Run, records: &Records) -> Vec<u8> {
    let warmup = usize::try_from(run.metrics.counts.warmup).unwrap_or(usize::MAX);
    let measured: Vec<&RequestRecord> = records
        .iter()
        .filter(|record| record.id.index() >= warmup)
        .collect();
    let mut out = serde_json::to_vec(&totals(report, run, &measured))
        .expect("a map of numbers and words can be written");
    // The lists go into the same object.
    out.pop();
    list(&mut out, "input_lens", &measured, |out, r| {
        push_u64(out, u64::from(r.input_tokens));
    });
    list(&mut out, "output_lens", &measured, |out, r| {
        push_u64(out, u64::from(generated(r)));
    });
    list(&mut out, "start_times", &measured, |out, r| {
        push_seconds(out, r.arrival.as_ps());
    });
    list(&mut out, "ttfts", &measured, |out, r| {
        push_s(out, r.ttft().map_or(0, SimDuration::as_ps));
    });
    list(&mut out, "errors", &measured, |out, r| {
        let error = match r.outcome {
            Outcome::Done => "",
            other => other.as_str(),
        };
        out.push(b'"');
        out.extend_from_slice(error.as_bytes());
        out.push(b'"');
    });
    out.extend_from_slice(b"}\n");
    out
}

/// Output tokens that the client got: none of a request that failed.
fn generated(record: &RequestRecord) -> u32 {
    match record.outcome {
        Outcome::Done => record.output_tokens,
        Outcome::Rejected(_) | Outcome::Unfinished => 0,
    }
}

/// Seconds with all twelve decimals, so that the arrivals read back are the same.
fn push_seconds(out: &mut Vec<u8>, ps: u64) {
    let (whole, rest) = (ps / PS_PER_S, ps % PS_PER_S);
    out.extend_from_slice(format!("{whole}.{rest:012}").as_bytes());
}

fn list(
    out: &mut Vec<u8>,
    key: &str,
    records: &[&RequestRecord],
    push: impl Fn(&mut Vec<u8>, &RequestRecord),
) {
    out.extend_from_slice(format!(",\"{key}\":[").as_bytes());
    for (i, record) in records.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push(out, record);
    }
    out.push(b']');
}

/// Everything but the lists.
fn totals(report: &Report, run: &Run, measured: &[&RequestRecord]) -> Map<String, Value> {
    let m = &run.metrics;
    let duration = m.end_s - m.window_start_s;
    let sum = |tokens: fn(&RequestRecord) -> u32| -> u64 {
        let done = measured.iter().filter(|r| r.outcome == Outcome::Done);
        done.map(|r| u64::from(tokens(r))).sum()
    };
    let tokens_per_s = m.throughput.input_tokens_per_s + m.throughput.output_tokens_per_s;
    let good = m.attainment.map(|a| a.met as f64 / duration);
    let (concurrency, rate) = match m.client {
        Client::Open => (None, json!(m.offered_per_s)),
        Client::Closed { concurrency, paced } => {
            let rate = paced.then(|| report.axis.values[run.point].rate_per_s);
            // vLLM writes a client without a plan as an infinite rate.
            let rate = rate.map_or_else(|| json!("inf"), |rate| json!(rate));
            (Some(concurrency), rate)
        }
    };
    let mut all = Map::new();
    for (key, value) in [
        ("backend", json!("pdsim")),
        ("label", json!(report.name)),
        ("system", json!(report.systems[run.system].name)),
        ("seed", json!(run.seed)),
        ("num_prompts", json!(measured.len())),
        ("request_rate", rate),
        ("max_concurrency", json!(concurrency)),
        ("duration", json!(duration)),
        ("completed", json!(m.counts.done)),
        ("failed", json!(m.counts.rejected + m.counts.unfinished)),
        ("total_input_tokens", json!(sum(|r| r.input_tokens))),
        ("total_output_tokens", json!(sum(|r| r.output_tokens))),
        ("request_throughput", json!(m.throughput.requests_per_s)),
        ("request_goodput", json!(good)),
        ("output_throughput", json!(m.throughput.output_tokens_per_s)),
        ("total_token_throughput", json!(tokens_per_s)),
    ] {
        all.insert(key.to_owned(), value);
    }
    if report.axis.values.len() > 1 {
        let label = &report.axis.values[run.point].label;
        all.insert(report.axis.key.clone(), json!(label));
    }
    let ms = |of: fn(&RequestRecord) -> Option<f64>| -> Vec<f64> {
        measured.iter().filter_map(|r| of(r)).collect()
    };
    for (name, shape, values) in [
        (
            "ttft",
            &m.ttft,
            ms(|r| r.ttft().map(SimDuration::as_ms_f64)),
        ),
        ("tpot", &m.tpot, ms(|r| r.tpot_secs().map(|s| s * 1e3))),
        ("itl", &m.itl, Vec::new()),
        ("e2el", &m.e2e, ms(|r| r.e2e().map(SimDuration::as_ms_f64))),
    ] {
        if let Some(shape) = shape {
            add_shape(&mut all, name, shape, &values);
        }
    }
    all
}

/// `mean_ttft_ms`, `median_ttft_ms`, …, and the standard deviation of `values` where there are any.
fn add_shape(all: &mut Map<String, Value>, name: &str, shape: &Distribution, values: &[f64]) {
    for (figure, value) in [
        ("mean", shape.mean_ms),
        ("median", shape.p50_ms),
        ("p50", shape.p50_ms),
        ("p90", shape.p90_ms),
        ("p95", shape.p95_ms),
        ("p99", shape.p99_ms),
    ] {
        all.insert(format!("{figure}_{name}_ms"), json!(value));
    }
    if !values.is_empty() {
        let squares: f64 = values.iter().map(|v| (v - shape.mean_ms).powi(2)).sum();
        let deviation = (squares / values.len() as f64).sqrt();
        all.insert(format!("std_{name}_ms"), json!(deviation));
    }
}
