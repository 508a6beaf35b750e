//! `links.csv`: what each link carried in each run.
//!
//! A transfer counts on every link it passes, so bytes of different links do not add up. Links that carried nothing have no row.

use std::path::Path;

use super::answer::digits;
use super::file::{AtomicFile, Error};
use super::input::Report;
use super::pool::Pooled;
use super::summary::{Row, lead};
use crate::metrics::LinkMetrics;

/// Columns; times in milliseconds, `exposed` without waiting.
const COLUMNS: [&str; 18] = [
    "system",
    "axis",
    "axis_value",
    "rate",
    "seed",
    "link",
    "kind",
    "transfers",
    "bytes",
    "early_bytes",
    "bytes_per_s",
    "utilisation_share",
    "queue_mean_ms",
    "queue_p90_ms",
    "queue_max_ms",
    "exposed_mean_ms",
    "exposed_p90_ms",
    "exposed_max_ms",
];

/// Writes `links.csv`.
pub(super) fn write(path: &Path, report: &Report) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    let mut header = Row::default();
    for name in COLUMNS {
        header.text(name);
    }
    header.end(&mut file)?;
    for run in report.ordered_runs() {
        for link in &run.metrics.links {
            let mut row = lead(report, run.system, run.point, &report.rate_text(run));
            row.count(run.seed);
            row.text(&link.link);
            row.text(link.kind.as_str());
            for count in [link.transfers, link.bytes, link.early_bytes] {
                row.count(count);
            }
            row.number(link.bytes_per_s);
            for figure in [
                link.utilisation,
                link.queue_mean_ms,
                link.queue_p90_ms,
                link.queue_max_ms,
                link.exposed_mean_ms,
                link.exposed_p90_ms,
                link.exposed_max_ms,
            ] {
                row.number(Some(figure));
            }
            row.end(&mut file)?;
        }
    }
    file.finish()
}

/// The figures of every link of a system at a point: means over its seeds, sums of transfers and bytes, largest maxima.
pub(super) fn pooled(report: &Report, pooled: &Pooled) -> Vec<LinkMetrics> {
    let runs = report.runs_of(pooled.system, pooled.point);
    let mut out: Vec<(LinkMetrics, f64)> = Vec::new();
    for link in runs.iter().flat_map(|run| &run.metrics.links) {
        let known = out.iter_mut().find(|(known, _)| known.link == link.link);
        let Some((sum, times)) = known else {
            out.push((link.clone(), 1.0));
            continue;
        };
        *times += 1.0;
        sum.transfers += link.transfers;
        sum.bytes += link.bytes;
        sum.early_bytes += link.early_bytes;
        for (sum, more) in means(sum).into_iter().zip(means(&mut link.clone())) {
            *sum += *more;
        }
        sum.queue_max_ms = sum.queue_max_ms.max(link.queue_max_ms);
        sum.exposed_max_ms = sum.exposed_max_ms.max(link.exposed_max_ms);
    }
    out.into_iter()
        .map(|(mut link, times)| {
            means(&mut link).into_iter().for_each(|sum| *sum /= times);
            link
        })
        .collect()
}

/// The figures of which seeds have a mean.
fn means(link: &mut LinkMetrics) -> [&mut f64; 5] {
    [
        &mut link.utilisation,
        &mut link.queue_mean_ms,
        &mut link.queue_p90_ms,
        &mut link.exposed_mean_ms,
        &mut link.exposed_p90_ms,
    ]
}

/// The busiest link in a few words: `prefill 0 out 87 %, queue 1.2 ms, exposed 45 ms`; empty when transfers take no time.
pub(super) fn busiest(report: &Report, at: &Pooled) -> String {
    let links = pooled(report, at);
    let busiest = links
        .iter()
        .max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    let Some(link) = busiest.filter(|link| link.utilisation > 0.0 || link.exposed_mean_ms > 0.0)
    else {
        return String::new();
    };
    // Lines break between the figures, not inside.
    let name = link.link.replace(' ', "\u{a0}");
    format!(
        "{name}\u{a0}{:.0}\u{a0}%, queue\u{a0}{}\u{a0}ms, exposed\u{a0}{}\u{a0}ms",
        100.0 * link.utilisation,
        digits(link.queue_mean_ms),
        digits(link.exposed_mean_ms)
    )
}
