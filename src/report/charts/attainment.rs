//! SLO attainment against the axis of the sweep, per system, with the target.

use super::canvas::{Figure, Line, Panel};
use super::scale::Scale;
use super::{legend, subtitle};
use crate::report::answer::percent;
use crate::report::input::{Report, SystemInfo};
use crate::report::pool::Pooled;

/// The figure; none without a promise or for a sweep that is not over ascending numbers. With `per_gpu`, the rate per
/// GPU; none when all systems have the same number of GPUs or the axis is no rate.
pub(super) fn figure(report: &Report, pooled: &[Pooled], per_gpu: bool) -> Option<Figure> {
    let slo = report.slo?;
    if !report.is_ascending() || (per_gpu && !differs_in_gpus(report)) {
        return None;
    }
    let lines: Vec<Line> = (0..report.systems.len())
        .map(|system| line(report, pooled, system, per_gpu))
        .collect();
    let xs = || lines.iter().flat_map(|line| &line.points).map(|p| p.0);
    let low = xs().min_by(f64::total_cmp)?;
    let high = xs().max_by(f64::total_cmp)?;
    let seeds = pooled.iter().map(|p| p.seeds).max().unwrap_or(1);
    let bars = if seeds > 1 {
        format!("bars: 95 % confidence over {seeds} seeds")
    } else {
        String::new()
    };
    let key = &report.axis.key;
    Some(Figure {
        title: if report.axis.is_rate {
            "Requests within the SLO against arrival rate".to_owned()
        } else {
            format!("Requests within the SLO against {key}")
        },
        subtitle: subtitle(&[
            report.name.clone(),
            report.promise().unwrap_or_default(),
            bars,
        ]),
        legend: legend(report),
        markers: true,
        panels: vec![Panel {
            x_name: match (report.axis.is_rate, per_gpu) {
                (true, true) => "arrival rate per GPU (requests/s per GPU)".to_owned(),
                (true, false) => "arrival rate of the whole system (requests/s)".to_owned(),
                (false, _) if report.axis.unit.is_empty() => key.clone(),
                (false, _) => format!("{key} ({})", report.axis.unit),
            },
            y_name: "requests within the SLO (%)".to_owned(),
            x: Scale::fitting(low, high),
            y: Scale::percent(),
            lines,
            across: vec![(
                100.0 * slo.attainment,
                format!("target {}", percent(slo.attainment)),
            )],
            upright: Vec::new(),
            behind: Vec::new(),
        }],
    })
}

fn differs_in_gpus(report: &Report) -> bool {
    // The rate changes no system: its GPUs are those of any point.
    let fewest = |system: &SystemInfo| system.gpus().0;
    let mut pairs = report.systems.windows(2);
    report.axis.is_rate && pairs.any(|pair| fewest(&pair[0]) != fewest(&pair[1]))
}

fn line(report: &Report, pooled: &[Pooled], system: usize, per_gpu: bool) -> Line {
    let (points, errors) = pooled
        .iter()
        .filter(|p| p.system == system)
        .filter_map(|p| {
            let gpus = if per_gpu {
                f64::from(report.shape(system, p.point).gpus.max(1))
            } else {
                1.0
            };
            let x = report.axis.values[p.point].value? / gpus;
            let attainment = p.figures.get("attainment")?;
            let half = attainment.half_width.map(|half| 100.0 * half);
            Some(((x, 100.0 * attainment.mean), half))
        })
        .unzip();
    Line {
        system,
        points,
        errors,
    }
}
