//! The summary as a JSON document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::answer::{crossings, sentences};
use super::input::Report;
use super::links;
use super::pool::{Pooled, difference, pool};
use super::terminal::warnings;
use crate::metrics::{Bottleneck, Counts, Estimate, LinkMetrics, State};
use crate::units::SimDuration;

/// Everything the terminal says, and every figure.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Its question.
    pub question: Option<String>,
    /// The answer in sentences.
    pub answer: Vec<String>,
    /// The promise.
    pub slo: Option<Promise>,
    /// The systems.
    pub systems: Vec<System>,
    /// The swept key.
    pub axis: String,
    /// Systems at axis values, pooled over seeds.
    pub points: Vec<Point>,
    /// How far each system keeps the promise, read from the sweep's grid.
    pub crossings: Vec<GridCrossing>,
    /// What to know before trusting the figures.
    pub warnings: Vec<String>,
    /// What readers and models announced.
    pub notes: Vec<String>,
}

/// The latency limits.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Promise {
    /// Most time to the first token.
    pub ttft_ms: Option<f64>,
    /// Most time per output token.
    pub tpot_ms: Option<f64>,
    /// Most time to the last token.
    pub e2e_ms: Option<f64>,
    /// Promised share of good requests.
    pub attainment: f64,
}

/// A system.
#[derive(Debug, Clone, Serialize)]
pub struct System {
    /// Name.
    pub name: String,
    /// What it is in a few words; `varies` where the axis changes it.
    pub layout: String,
    /// GPUs; none where the axis changes their number.
    pub gpus: Option<u32>,
}

/// One system at one value of the axis.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Name of the system.
    pub system: String,
    /// Value of the axis as in the scenario.
    pub value: String,
    /// Offered rate of the scenario; none for a recorded workload.
    pub rate_per_s: Option<f64>,
    /// What the system is here in a few words.
    pub layout: String,
    /// Its GPUs here.
    pub gpus: u32,
    /// Seeds.
    pub seeds: u32,
    /// Verdict of most seeds; none where nothing was measured or every request was rejected.
    pub verdict: Option<State>,
    /// How many of the seeds measured any request.
    pub measuring_seeds: u32,
    /// How many of those have this verdict.
    pub agreeing_seeds: u32,
    /// What holds it back.
    pub bottleneck: Option<Bottleneck>,
    /// Share of arrivals that pile up.
    pub piling_up: f64,
    /// Requests, summed over seeds.
    pub counts: Counts,
    /// Good requests, summed over seeds.
    pub slo_met: Option<u64>,
    /// Preemptions, summed over seeds.
    pub preemptions: u64,
    /// Figures by name, as in `summary.csv`.
    pub figures: BTreeMap<&'static str, Estimate>,
    /// Links that carried KV caches: means over seeds, sums of transfers and bytes.
    pub links: Vec<LinkMetrics>,
    /// Difference to the first system in the same figures, paired by seed; empty for the first system.
    pub minus_first: BTreeMap<&'static str, Estimate>,
}

/// Where a system stops keeping the promise, as labels of the axis.
#[derive(Debug, Clone, Serialize)]
pub struct GridCrossing {
    /// Name of the system.
    pub system: String,
    /// Last value that keeps it before the first miss.
    pub kept: Option<String>,
    /// First value that misses it.
    pub missed: Option<String>,
}

/// Summarises a report.
#[must_use]
pub fn summarise(report: &Report) -> Summary {
    let pooled = pool(report);
    let label = |point: usize| report.axis.values[point].label.clone();
    Summary {
        scenario: report.name.clone(),
        question: report.question.clone(),
        answer: sentences(report, &pooled),
        slo: report.slo.map(|slo| Promise {
            ttft_ms: slo.ttft.map(SimDuration::as_ms_f64),
            tpot_ms: slo.tpot.map(SimDuration::as_ms_f64),
            e2e_ms: slo.e2e.map(SimDuration::as_ms_f64),
            attainment: slo.attainment,
        }),
        systems: report
            .systems
            .iter()
            .map(|s| System {
                name: s.name.clone(),
                layout: s
                    .steady(|shape| shape.layout.as_str())
                    .unwrap_or("varies")
                    .to_owned(),
                gpus: s.steady(|shape| shape.gpus),
            })
            .collect(),
        axis: report.axis.key.clone(),
        points: pooled.iter().map(|p| point(report, p)).collect(),
        crossings: crossings(report, &pooled)
            .into_iter()
            .map(|c| GridCrossing {
                system: report.systems[c.system].name.clone(),
                kept: c.kept.map(label),
                missed: c.missed.map(label),
            })
            .collect(),
        warnings: warnings(report),
        notes: report.notes.clone(),
    }
}

fn point(report: &Report, p: &Pooled) -> Point {
    let names = p.figures.keys().filter(|_| p.system != 0);
    let minus_first = names
        .filter_map(|name| Some((*name, difference(report, p.point, p.system, 0, name)?)))
        .collect();
    Point {
        system: report.systems[p.system].name.clone(),
        value: report.axis.values[p.point].label.clone(),
        rate_per_s: report.axis.values[p.point].rate_per_s,
        layout: report.shape(p.system, p.point).layout.clone(),
        gpus: report.shape(p.system, p.point).gpus,
        seeds: p.seeds,
        verdict: p.verdict(),
        measuring_seeds: p.measuring,
        agreeing_seeds: p.agreeing,
        bottleneck: p.bottleneck,
        piling_up: p.piling_up,
        counts: p.counts,
        slo_met: p.met,
        preemptions: p.preemptions,
        figures: p.figures.clone(),
        links: links::pooled(report, p),
        minus_first,
    }
}
