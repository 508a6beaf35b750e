//! Cumulative distributions of TTFT and TPOT at one point, seeds pooled.

use super::canvas::{Figure, Line, Panel};
use super::scale::Scale;
use super::{at, legend, subtitle};
use crate::metrics::{Distribution, RunMetrics};
use crate::report::answer::percent;
use crate::report::input::Report;
use crate::units::SimDuration;

/// Quantile (of 200) at which the axis begins: below lies one percent.
const HEAD: usize = 2;

/// Quantile (of 200) at which the axis ends: beyond lies a tail of half a percent.
const TAIL: usize = 199;

struct Kind {
    title: &'static str,
    x_name: &'static str,
    of: fn(&RunMetrics) -> Option<&Distribution>,
    /// What 100 % is.
    out_of: fn(&RunMetrics) -> u64,
    limit: Option<SimDuration>,
}

/// TTFT as a share of all measured requests: those without a first token are missing at the top.
pub(super) fn ttft(report: &Report, point: usize) -> Option<Figure> {
    let kind = Kind {
        title: "Time to first token (TTFT)",
        x_name: "TTFT (ms)",
        of: |m| m.ttft.as_ref(),
        out_of: |m| m.counts.measured,
        limit: report.slo.and_then(|slo| slo.ttft),
    };
    figure(report, point, &kind)
}

/// TPOT as a share of the done requests with two output tokens or more.
pub(super) fn tpot(report: &Report, point: usize) -> Option<Figure> {
    let kind = Kind {
        title: "Time per output token (TPOT), a mean per request",
        x_name: "TPOT (ms)",
        of: |m| m.tpot.as_ref(),
        out_of: |m| m.tpot.as_ref().map_or(0, |d| d.count),
        limit: report.slo.and_then(|slo| slo.tpot),
    };
    figure(report, point, &kind)
}

fn figure(report: &Report, point: usize, kind: &Kind) -> Option<Figure> {
    let lines: Vec<Line> = (0..report.systems.len())
        .filter_map(|system| line(report, system, point, kind))
        .collect();
    let limit_ms = kind.limit.map(SimDuration::as_ms_f64);
    let seeds = report.runs_of(lines.first()?.system, point).len();
    let seeds = if seeds > 1 {
        format!("{seeds} seeds pooled")
    } else {
        String::new()
    };
    let target = report.slo.filter(|_| kind.limit.is_some()).map(|slo| {
        let share = percent(slo.attainment);
        (100.0 * slo.attainment, format!("target {share}"))
    });
    Some(Figure {
        title: kind.title.to_owned(),
        subtitle: subtitle(&[report.name.clone(), at(report, point), seeds]),
        legend: legend(report),
        markers: false,
        panels: vec![Panel {
            x_name: kind.x_name.to_owned(),
            y_name: "requests at or below (%)".to_owned(),
            x: x_scale(report, point, kind, limit_ms)?,
            y: Scale::percent(),
            lines,
            across: target.into_iter().collect(),
            behind: Vec::new(),
            upright: limit_ms
                .map(|ms| (ms, format!("SLO {ms} ms")))
                .into_iter()
                .collect(),
        }],
    })
}

/// An axis that shows all but the tails, and the limit with room to its right.
fn x_scale(report: &Report, point: usize, kind: &Kind, limit_ms: Option<f64>) -> Option<Scale> {
    let shapes = || {
        let runs = report.runs.iter().filter(|run| run.point == point);
        runs.filter_map(|run| (kind.of)(&run.metrics))
    };
    let low = shapes().map(|d| d.quantiles_ms[HEAD]).chain(limit_ms);
    let high = shapes().map(|d| d.quantiles_ms[TAIL]);
    let high = high.chain(limit_ms.map(|ms| 1.1 * ms));
    let (low, high) = (low.min_by(f64::total_cmp)?, high.max_by(f64::total_cmp)?);
    // Five decades: a system far ahead of an overloaded one keeps its whole curve.
    Some(Scale::fitting(low.max(high * 1e-5), high))
}

/// The pooled distribution function of a system: every seed adds its quantiles, each worth the same number of requests.
fn line(report: &Report, system: usize, point: usize, kind: &Kind) -> Option<Line> {
    let runs = report.runs_of(system, point);
    let out_of: u64 = runs.iter().map(|run| (kind.out_of)(&run.metrics)).sum();
    let mut weighted: Vec<(f64, f64)> = Vec::new();
    for shape in runs.iter().filter_map(|run| (kind.of)(&run.metrics)) {
        let weight = shape.count as f64 / (shape.quantiles_ms.len() - 1) as f64;
        // The smallest value starts the line at zero.
        let weights = std::iter::once(0.0).chain(std::iter::repeat(weight));
        weighted.extend(shape.quantiles_ms.iter().copied().zip(weights));
    }
    if weighted.is_empty() || out_of == 0 {
        return None;
    }
    weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let points = weighted
        .into_iter()
        .map(|(ms, weight)| {
            below += weight;
            (ms, 100.0 * below / out_of as f64)
        })
        .collect();
    Some(Line {
        system,
        points,
        errors: Vec::new(),
    })
}
