//! `summary.csv` and `pools.csv`: a row per system × point × seed, and pooled rows.
//!
//! A pooled row has `pooled` in the column `seed`; its counts are sums over seeds, its figures means over seeds, and
//! the `_ci95` columns (empty in the rows of single seeds) half the width of their 95 % confidence interval.

use std::path::Path;

use super::figures::figures;
use super::file::{AtomicFile, Error};
use super::input::{Report, Run};
use super::pool::Pooled;
use super::text::push_text;
use super::words::{bottleneck, state};
use crate::metrics::{Counts, State};

/// Fields of a row, separated and ended.
#[derive(Default)]
pub(super) struct Row(Vec<u8>);

impl Row {
    pub(super) fn text(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push(b',');
        }
        push_text(&mut self.0, text);
    }

    pub(super) fn number(&mut self, value: Option<f64>) {
        self.text(&value.map_or_else(String::new, |v| format!("{v:.6}")));
    }

    pub(super) fn count(&mut self, value: u64) {
        self.text(&value.to_string());
    }

    pub(super) fn end(mut self, file: &mut AtomicFile) -> Result<(), Error> {
        self.0.push(b'\n');
        file.write(&self.0)
    }
}

/// Columns before the figures; all counts are of requests.
const LEAD: [&str; 21] = [
    "system",
    "axis",
    "axis_value",
    "rate",
    "seed",
    "seeds",
    "gpus",
    "verdict",
    "bottleneck",
    "piling_up_share",
    "window_start_s",
    "last_arrival_s",
    "end_s",
    "arrived",
    "measured",
    "done",
    "rejected",
    "unfinished",
    "never_sent",
    "slo_met",
    "preemptions",
];

/// Writes `summary.csv`.
pub(super) fn write(path: &Path, report: &Report, pooled: &[Pooled]) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    let mut header = Row(Vec::new());
    for name in LEAD {
        header.text(name);
    }
    for figure in figures() {
        header.text(figure.name);
    }
    for figure in figures() {
        header.text(&format!("{}_ci95", figure.name));
    }
    header.end(&mut file)?;
    for pooled in pooled {
        for run in report.runs_of(pooled.system, pooled.point) {
            run_row(report, run).end(&mut file)?;
        }
        pooled_row(report, pooled).end(&mut file)?;
    }
    file.finish()
}

fn run_row(report: &Report, run: &Run) -> Row {
    let m = &run.metrics;
    let mut row = lead(report, run.system, run.point, &report.rate_text(run));
    row.count(run.seed);
    row.count(1);
    row.count(u64::from(m.gpus));
    row.text(verdict(m.verdict.state, &m.counts));
    row.text(m.verdict.bottleneck.map_or("", bottleneck));
    row.number(Some(m.verdict.piling_up));
    row.number(Some(m.window_start_s));
    row.number(Some(m.last_arrival_s));
    row.number(Some(m.end_s));
    counts(&mut row, &m.counts, m.attainment.map(|a| a.met));
    row.count(m.preemptions);
    for figure in figures() {
        row.number((figure.of)(m));
    }
    for _ in figures() {
        row.text("");
    }
    row
}

fn pooled_row(report: &Report, pooled: &Pooled) -> Row {
    let runs = report.runs_of(pooled.system, pooled.point);
    let rate = match report.axis.values[pooled.point].rate_per_s {
        Some(rate) => rate.to_string(),
        None => pooled
            .mean("offered_requests_per_s")
            .map_or_else(String::new, |rate| format!("{rate:.6}")),
    };
    let mut row = lead(report, pooled.system, pooled.point, &rate);
    row.text("pooled");
    row.count(u64::from(pooled.seeds));
    row.count(u64::from(runs.first().map_or(0, |run| run.metrics.gpus)));
    row.text(verdict(pooled.state, &pooled.counts));
    row.text(pooled.bottleneck.map_or("", bottleneck));
    row.number(Some(pooled.piling_up));
    for _ in 0..3 {
        row.text("");
    }
    counts(&mut row, &pooled.counts, pooled.met);
    row.count(pooled.preemptions);
    for figure in figures() {
        row.number(pooled.mean(figure.name));
    }
    for figure in figures() {
        let estimate = pooled.figures.get(figure.name);
        row.number(estimate.and_then(|e| e.half_width));
    }
    row
}

/// The word for a state; none where nothing was measured or every request was rejected.
const fn verdict(verdict: State, counts: &Counts) -> &'static str {
    if !counts.tell_a_verdict() {
        return "";
    }
    state(verdict)
}

pub(super) fn lead(report: &Report, system: usize, point: usize, rate: &str) -> Row {
    let mut row = Row(Vec::new());
    row.text(&report.systems[system].name);
    row.text(&report.axis.key);
    row.text(&report.axis.values[point].label);
    row.text(rate);
    row
}

fn counts(row: &mut Row, counts: &Counts, met: Option<u64>) {
    for count in [
        counts.arrived,
        counts.measured,
        counts.done,
        counts.rejected,
        counts.unfinished,
        counts.never_sent,
    ] {
        row.count(count);
    }
    row.text(&met.map_or_else(String::new, |met| met.to_string()));
}

/// Columns of `pools.csv`; shares are of the measured span. `held_tokens` did not travel, as prefix caches of decode instances had them;
/// the last three are empty where no prefix cache was asked.
const POOL_COLUMNS: [&str; 30] = [
    "system",
    "axis",
    "axis_value",
    "rate",
    "seed",
    "pool",
    "role",
    "gpu",
    "instances",
    "gpus",
    "busy_share",
    "busy_prefill_share",
    "busy_decode_share",
    "busy_mixed_share",
    "link_busy_share",
    "held_tokens",
    "mean_decode_batch",
    "kv_mean_share",
    "kv_peak_blocks",
    "kv_capacity_blocks",
    "preemptions",
    "role_switches",
    "prefill_role_share",
    "decode_role_share",
    "mixed_role_share",
    "switching_share",
    "mean_prefill_batch",
    "prompt_tokens",
    "gpu_cached_tokens",
    "cpu_cached_tokens",
];

/// Writes `pools.csv`: utilisation per pool and run.
pub(super) fn write_pools(path: &Path, report: &Report) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    let mut header = Row(Vec::new());
    for name in POOL_COLUMNS {
        header.text(name);
    }
    header.end(&mut file)?;
    for run in report.ordered_runs() {
        for pool in &run.metrics.pools {
            let mut row = lead(report, run.system, run.point, &report.rate_text(run));
            row.count(run.seed);
            for text in [pool.name.as_str(), pool.role, pool.gpu.as_str()] {
                row.text(text);
            }
            row.count(u64::from(pool.instances));
            row.count(u64::from(pool.gpus));
            for share in [
                pool.busy,
                pool.busy_prefill,
                pool.busy_decode,
                pool.busy_mixed,
                pool.link_busy,
            ] {
                row.number(Some(share));
            }
            row.count(pool.held_tokens);
            row.number(pool.mean_decode_batch);
            row.number(pool.kv_mean);
            row.count(pool.kv_peak_blocks);
            let capacity = pool.kv_capacity_blocks;
            row.text(&capacity.map_or_else(String::new, |blocks| blocks.to_string()));
            row.count(pool.preemptions);
            row.count(pool.role_switches);
            for share in pool.role_shares {
                row.number(Some(share));
            }
            row.number(pool.mean_prefill_batch);
            let hits = pool.prefix;
            for tokens in [
                hits.map(|h| h.prompt_tokens),
                hits.map(|h| h.gpu_tokens),
                hits.map(|h| h.cpu_tokens),
            ] {
                row.text(&tokens.map_or_else(String::new, |tokens| tokens.to_string()));
            }
            row.end(&mut file)?;
        }
    }
    file.finish()
}
