//! A resolved experiment: numbers and models, nothing left to look up.

use crate::cluster::SystemSpec;
use crate::metrics::{Slo, Warmup};
use crate::units::SimTime;
use crate::workload::Workload;

use super::warning::Warning;

/// Everything needed to run a scenario: points of the sweep × systems × seeds.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name, which is also the name of the output folder.
    pub name: String,
    /// The question it asks.
    pub question: Option<String>,
    /// One replication each; every system sees the same arrivals and lengths for a seed.
    pub seeds: Vec<u64>,
    /// What to write.
    pub output: OutputChoice,
    /// What varies between points; a scenario without a sweep has one point.
    pub axis: Axis,
    /// The points, one per value of the axis, each with the same systems in the same order.
    pub points: Vec<Point>,
    /// What a reader should know before trusting the answer, one line each.
    pub notes: Vec<String>,
    /// Reasons to read the comparison of the systems with care.
    pub warnings: Vec<Warning>,
    /// Text of `scenario.resolved.yaml`.
    pub resolved: String,
}

/// One value of the sweep, resolved.
#[derive(Debug, Clone)]
pub struct Point {
    /// What arrives.
    pub workload: Workload,
    /// The systems under comparison.
    pub systems: Vec<SystemSpec>,
    /// The latency promise.
    pub slo: Option<Slo>,
    /// What to leave out of the metrics.
    pub warmup: Warmup,
    /// When the simulation stops; `None`: when the last request has ended.
    pub horizon: Option<SimTime>,
    /// Mean arrival rate in requests per second, if the scenario states one.
    pub rate_per_s: Option<f64>,
}

/// The swept key and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Key path; several joined by ` × `; empty without a sweep.
    pub key: String,
    /// Unit of the numbers, empty for none.
    pub unit: &'static str,
    /// Whether the values are arrival rates of the whole cluster.
    pub is_rate: bool,
    /// Label and number (in `unit`) of each point.
    pub values: Vec<(String, Option<f64>)>,
}

/// Which files to write besides the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputChoice {
    /// `requests.csv`; without it, no record per request is kept.
    pub requests: bool,
    /// PNG charts.
    pub charts: bool,
    /// Results as `vllm bench serve --save-detailed` writes them.
    pub vllm_bench: bool,
}
