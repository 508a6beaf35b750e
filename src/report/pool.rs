//! Pooling the seeds of one system at one point.

use std::collections::BTreeMap;

use super::figures::figures;
use super::input::{Report, Run};
use crate::metrics::{Bottleneck, Counts, Estimate, State};

/// What one system did at one point of the axis, over its seeds.
#[derive(Debug, Clone)]
pub struct Pooled {
    /// Index into [`Report::systems`].
    pub system: usize,
    /// Index into [`Axis::values`](super::Axis).
    pub point: usize,
    /// How many seeds.
    pub seeds: u32,
    /// How many of them measured any request; the others have a say in counts only, unless none did.
    pub measuring: u32,
    /// The state that most seeds had, of those in which some measured request was let in; of equally frequent ones the worst. See
    /// [`Pooled::verdict`].
    pub state: State,
    /// How many seeds had it.
    pub agreeing: u32,
    /// Whether its client keeps a plan within a limit of requests in flight, so that overload shows in the client's wait.
    pub paced: bool,
    /// The bottleneck named most often by the seeds in that state.
    pub bottleneck: Option<Bottleneck>,
    /// Mean share of arrivals that piled up.
    pub piling_up: f64,
    /// Requests, summed over seeds.
    pub counts: Counts,
    /// Good requests, summed over seeds; none without a promise.
    pub met: Option<u64>,
    /// Preemptions of measured requests, summed over seeds.
    pub preemptions: u64,
    /// Figures by name: means over seeds of the figure of each seed.
    pub figures: BTreeMap<&'static str, Estimate>,
}

impl Pooled {
    /// Whether no request arrived after the warm-up in any of them.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.counts.measured == 0
    }

    /// The state; none where nothing was measured or every request was rejected.
    #[must_use]
    pub fn verdict(&self) -> Option<State> {
        self.counts.tell_a_verdict().then_some(self.state)
    }

    /// Mean of a figure over seeds.
    #[must_use]
    pub fn mean(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|estimate| estimate.mean)
    }
}

/// Pools every (point, system) that has runs, in the report's order.
#[must_use]
pub fn pool(report: &Report) -> Vec<Pooled> {
    (0..report.axis.values.len())
        .flat_map(|point| (0..report.systems.len()).map(move |system| (point, system)))
        .filter_map(|(point, system)| pool_one(&report.runs_of(system, point)))
        .collect()
}

/// Mean of `a − b` in a figure over the seeds both systems ran at a point; none without common seeds that have it.
#[must_use]
pub fn difference(
    report: &Report,
    point: usize,
    a: usize,
    b: usize,
    name: &str,
) -> Option<Estimate> {
    let values = |system| -> BTreeMap<u64, f64> {
        let runs = report.runs_of(system, point).into_iter();
        runs.filter(|run| run.metrics.counts.measured > 0)
            .filter_map(|run| Some((run.seed, super::figures::value(&run.metrics, name)?)))
            .collect()
    };
    let (a, b) = (values(a), values(b));
    let (a, b): (Vec<f64>, Vec<f64>) = a
        .iter()
        .filter_map(|(seed, value)| Some((*value, *b.get(seed)?)))
        .unzip();
    Estimate::paired(&a, &b)
}

fn pool_one(runs: &[&Run]) -> Option<Pooled> {
    let first = runs.first()?;
    let measured = runs.iter().filter(|run| run.metrics.counts.measured > 0);
    let measured: Vec<&Run> = measured.copied().collect();
    // A seed that measured nothing shows neither a state nor a rate.
    let telling = if measured.is_empty() {
        runs
    } else {
        &measured[..]
    };
    let judged = telling
        .iter()
        .filter(|run| run.metrics.counts.tell_a_verdict());
    let judged: Vec<&Run> = judged.copied().collect();
    let states = judged.iter().map(|run| run.metrics.verdict.state);
    let (state, agreeing) = most_common(states).unwrap_or((State::Stable, 0));
    let bottleneck = most_common(
        judged
            .iter()
            .filter(|r| r.metrics.verdict.state == state)
            .filter_map(|r| r.metrics.verdict.bottleneck),
    );
    let estimates = figures().filter_map(|figure| {
        let values: Vec<f64> = telling
            .iter()
            .filter_map(|run| (figure.of)(&run.metrics))
            .collect();
        Some((figure.name, Estimate::of(&values)?))
    });
    let count = |runs: &[&Run]| u32::try_from(runs.len()).unwrap_or(u32::MAX);
    Some(Pooled {
        system: first.system,
        point: first.point,
        seeds: count(runs),
        measuring: count(&measured),
        state,
        agreeing,
        paced: first.metrics.client.is_paced(),
        bottleneck: bottleneck.map(|(bottleneck, _)| bottleneck),
        piling_up: telling
            .iter()
            .map(|r| r.metrics.verdict.piling_up)
            .sum::<f64>()
            / f64::from(count(telling)),
        counts: sum_counts(runs),
        met: runs
            .iter()
            .map(|r| r.metrics.attainment.map(|a| a.met))
            .sum(),
        preemptions: runs.iter().map(|r| r.metrics.preemptions).sum(),
        figures: estimates.collect(),
    })
}

/// The most frequent value, of equally frequent ones the last in order, and how often it occurs.
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<(T, u32)> {
    let mut counts: BTreeMap<T, u32> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(value, n)| (*n, *value))
}

fn sum_counts(runs: &[&Run]) -> Counts {
    runs.iter().fold(Counts::default(), |sum, run| {
        let c = run.metrics.counts;
        Counts {
            arrived: sum.arrived + c.arrived,
            warmup: sum.warmup + c.warmup,
            measured: sum.measured + c.measured,
            done: sum.done + c.done,
            rejected: sum.rejected + c.rejected,
            unfinished: sum.unfinished + c.unfinished,
            never_sent: sum.never_sent + c.never_sent,
        }
    })
}
