//! What the caller hands over: the runs of an experiment and their names.

use crate::metrics::{RunMetrics, Slo};

/// An experiment's results: systems × axis values × seeds.
///
/// All systems of an axis value and seed saw the same arrivals and lengths, so their differences are paired.
#[derive(Debug, Clone)]
pub struct Report {
    /// Name of the scenario.
    pub name: String,
    /// The question it asks, printed above the answer.
    pub question: Option<String>,
    /// The promise; none means no attainment.
    pub slo: Option<Slo>,
    /// The systems, in the scenario's order, which is the order of every table, legend and colour.
    pub systems: Vec<SystemInfo>,
    /// What varies between points.
    pub axis: Axis,
    /// Results, in any order; at most one per (point, system, seed).
    pub runs: Vec<Run>,
    /// Lines to print with the answer: what a reader announced, what a model assumed.
    pub notes: Vec<String>,
    /// Reasons to read the comparison with care, each a sentence without its full stop; part of the answer.
    pub cautions: Vec<String>,
}

/// A system under comparison.
#[derive(Debug, Clone)]
pub struct SystemInfo {
    /// Name in the scenario.
    pub name: String,
    /// What it is made of at each value of the axis, which may change it.
    pub shapes: Vec<Shape>,
}

/// What a system is made of at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// In a few words: `3 x a100-80g-sxm tp1` or `1P1D: a100-80g-sxm tp2 + a100-80g-sxm tp1`.
    pub layout: String,
    /// GPUs in all.
    pub gpus: u32,
}

impl SystemInfo {
    /// What is the same at all points, if it is.
    pub(super) fn steady<'s, T: PartialEq>(&'s self, of: fn(&'s Shape) -> T) -> Option<T> {
        let mut each = self.shapes.iter().map(of);
        let first = each.next()?;
        each.all(|other| other == first).then_some(first)
    }

    /// The fewest and the most GPUs along the axis.
    pub(super) fn gpus(&self) -> (u32, u32) {
        let counts = || self.shapes.iter().map(|shape| shape.gpus);
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }
}

/// The swept key and its values; a single run has one value.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Key path as in the scenario: `workload.rate`. For a single run, any name: it is not printed.
    pub key: String,
    /// Unit of the values for charts: `requests/s`, `tokens`; empty for none.
    pub unit: String,
    /// Whether the values are arrival rates of the whole cluster in requests per second.
    pub is_rate: bool,
    /// The values, in the order of the sweep.
    pub values: Vec<AxisValue>,
}

/// One value of the axis.
#[derive(Debug, Clone)]
pub struct AxisValue {
    /// As written in the scenario: `1.5 /s`.
    pub label: String,
    /// As a number, for charts; none for a value that is not one.
    pub value: Option<f64>,
    /// Offered arrival rate in requests per second; none when it is the recorded one of a trace (the report then
    /// prints the rate seen in the run).
    pub rate_per_s: Option<f64>,
}

/// One run: a system, a point of the axis, a seed.
#[derive(Debug, Clone)]
pub struct Run {
    /// Index into [`Report::systems`].
    pub system: usize,
    /// Index into [`Axis::values`].
    pub point: usize,
    /// Seed of the run.
    pub seed: u64,
    /// What came out.
    pub metrics: RunMetrics,
}

impl Report {
    /// The runs by point, then system, then seed.
    #[must_use]
    pub fn ordered_runs(&self) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self.runs.iter().collect();
        runs.sort_by_key(|run| (run.point, run.system, run.seed));
        runs
    }

    /// The runs of a system at a point, by seed.
    #[must_use]
    pub fn runs_of(&self, system: usize, point: usize) -> Vec<&Run> {
        let mut runs: Vec<&Run> = self
            .runs
            .iter()
            .filter(|run| run.system == system && run.point == point)
            .collect();
        runs.sort_by_key(|run| run.seed);
        runs
    }

    /// What a system is made of at a point.
    pub(super) fn shape(&self, system: usize, point: usize) -> &Shape {
        &self.systems[system].shapes[point]
    }

    /// The promise in words: `TTFT ≤ 250 ms and TPOT ≤ 100 ms for 90 % of requests`.
    #[must_use]
    pub fn promise(&self) -> Option<String> {
        let slo = self.slo?;
        let limits = [("TTFT", slo.ttft), ("TPOT", slo.tpot), ("E2E", slo.e2e)];
        let limits: Vec<String> = limits
            .iter()
            .filter_map(|(name, limit)| {
                Some(format!("{name} ≤ {} ms", limit.as_ref()?.as_ms_f64()))
            })
            .collect();
        let share = super::answer::percent(slo.attainment);
        Some(match limits[..] {
            [] => format!("{share} of requests done"),
            _ => format!("{} for {share} of requests", limits.join(" and ")),
        })
    }

    /// Whether this is a sweep over ascending numbers.
    #[must_use]
    pub fn is_ascending(&self) -> bool {
        let numbers: Option<Vec<f64>> = self.axis.values.iter().map(|v| v.value).collect();
        numbers.is_some_and(|n| n.len() > 1 && n.windows(2).all(|pair| pair[0] < pair[1]))
    }

    /// The swept key, when rows need it to be told apart: something other than the rate varies.
    #[must_use]
    pub fn swept_key(&self) -> Option<&str> {
        (!self.axis.is_rate && self.axis.values.len() > 1).then_some(self.axis.key.as_str())
    }

    /// The offered rate of a run in requests per second: the scenario's, or else the one seen, to six decimals.
    #[must_use]
    pub fn rate_text(&self, run: &Run) -> String {
        match self.axis.values[run.point].rate_per_s {
            Some(rate) => rate.to_string(),
            None => format!("{:.6}", run.metrics.offered_per_s),
        }
    }
}
