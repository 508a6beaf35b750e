//! Queue, running requests and KV use over time, at one point, for the first seed.

use super::canvas::{Figure, Line, Panel};
use super::scale::Scale;
use super::{at, legend, subtitle};
use crate::metrics::{Point, RunMetrics};
use crate::report::input::Report;
use crate::sim::PoolSample;

/// What a panel shows of one sample.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// Requests that nobody computes for: held by the router, queued, handing off.
    Waiting,
    /// Requests in prefill or decode.
    Running,
    /// Share of the KV blocks of the pools that decode.
    Kv,
}

/// The figure; none when no run has two samples.
pub(super) fn figure(report: &Report, point: usize) -> Option<Figure> {
    let runs: Vec<(usize, &RunMetrics)> = (0..report.systems.len())
        .filter_map(|system| {
            let run = *report.runs_of(system, point).first()?;
            (run.metrics.series.points().len() > 1).then_some((system, &run.metrics))
        })
        .collect();
    let (first, metrics) = *runs.first()?;
    let seed = report.runs_of(first, point).first()?.seed;
    let end = runs.iter().map(|(_, m)| m.end_s).max_by(f64::total_cmp)?;
    let mut panels: Vec<Panel> = [Shown::Waiting, Shown::Running, Shown::Kv]
        .into_iter()
        .filter_map(|shown| panel(shown, &runs, end))
        .collect();
    let marks = marks(metrics, end);
    for (i, panel) in panels.iter_mut().enumerate() {
        // One note per mark is enough.
        let text = |note: &str| {
            if i == 0 {
                note.to_owned()
            } else {
                String::new()
            }
        };
        panel.upright = marks.iter().map(|(x, note)| (*x, text(note))).collect();
    }
    "time (s)".clone_into(&mut panels.last_mut()?.x_name);
    Some(Figure {
        title: "Queue, running requests and KV over time".to_owned(),
        subtitle: subtitle(&[
            report.name.clone(),
            at(report, point),
            format!("seed {seed}"),
            "waiting includes hand-offs; KV of the decoding pools".to_owned(),
        ]),
        legend: legend(report),
        markers: false,
        panels,
    })
}

/// Where the measured window begins and the arrivals end; a mark too near another is left out.
fn marks(m: &RunMetrics, end: f64) -> Vec<(f64, &'static str)> {
    let mut out = vec![(m.last_arrival_s, "last arrival")];
    let apart = m.last_arrival_s - m.window_start_s > 0.2 * end;
    if m.counts.warmup > 0 && m.window_start_s > 0.03 * end && apart {
        out.push((m.window_start_s, "warm-up ends"));
    }
    out
}

fn panel(shown: Shown, runs: &[(usize, &RunMetrics)], end: f64) -> Option<Panel> {
    let lines: Vec<Line> = runs
        .iter()
        .map(|(system, m)| {
            let samples = m.series.iter().filter_map(|(point, pools)| {
                Some((point.time.as_secs_f64(), value(shown, m, point, pools)?))
            });
            Line {
                system: *system,
                points: samples.collect(),
                errors: Vec::new(),
            }
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let values = lines.iter().flat_map(|line| &line.points).map(|p| p.1);
    let high = values.max_by(f64::total_cmp)?;
    let (y_name, y) = match shown {
        Shown::Waiting => ("requests waiting", Scale::linear(0.0, high.max(1.0))),
        Shown::Running => ("requests running", Scale::linear(0.0, high.max(1.0))),
        Shown::Kv => ("KV in use (%)", Scale::percent()),
    };
    Some(Panel {
        x_name: String::new(),
        y_name: y_name.to_owned(),
        x: Scale::until(end),
        y,
        lines,
        across: Vec::new(),
        upright: Vec::new(),
        behind: Vec::new(),
    })
}

fn value(shown: Shown, m: &RunMetrics, point: &Point, pools: &[PoolSample]) -> Option<f64> {
    let running: u64 = pools.iter().map(|p| p.prefilling + p.decoding).sum();
    match shown {
        Shown::Waiting => Some((point.arrived - point.ended).saturating_sub(running) as f64),
        Shown::Running => Some(running as f64),
        Shown::Kv => {
            let decoding = m.pools.iter().zip(pools);
            let decoding = decoding.filter(|(pool, _)| pool.role != "prefill");
            let (used, capacity) = decoding.fold((0, 0), |(used, capacity), (_, sample)| {
                (used + sample.kv_used, capacity + sample.kv_capacity)
            });
            (capacity > 0).then(|| 100.0 * used as f64 / capacity as f64)
        }
    }
}
