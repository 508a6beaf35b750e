//! What `pdsim trace info` says: a text, the same as JSON, and a page of charts.

use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::file::{Error, create_folder, write_file};
use crate::names::some;
use crate::workload::stats::{Quantiles, TraceStats};

/// Percentiles shown of ratios and gaps.
const SHOWN: [f64; 4] = [0.1, 0.5, 0.9, 0.99];

/// The statistics as text.
#[must_use]
pub fn trace_text(stats: &TraceStats) -> String {
    let mut out = format!("{}\n\n", stats.report);
    let line = |out: &mut String, name: &str, value: String| {
        out.extend([&format!("{name:<22}{value}"), "\n"]);
    };
    let seconds = stats.report.span.as_secs_f64();
    line(
        &mut out,
        "requests",
        format!("{} over {seconds:.3} s", stats.report.kept),
    );
    line(
        &mut out,
        "rate",
        or_none(stats.rate.map(|rate| format!("{rate:.4} /s"))),
    );
    let (requests, input, output) = stats.timeline.peak_minute();
    line(
        &mut out,
        "peak minute",
        format!("{requests:.3} requests/s, {input:.0} prompt and {output:.0} output tokens/s"),
    );
    line(&mut out, "token load", token_load(stats));
    line(
        &mut out,
        "inter-arrival CV",
        or_none(stats.gap_cv.map(|cv| format!("{cv:.3} (Poisson: 1)"))),
    );
    line(&mut out, "index of dispersion", dispersion(stats));
    line(&mut out, "inter-arrival time", gaps(stats));
    if let Some(sessions) = stats.sessions {
        let turns = stats.report.kept as f64 / sessions as f64;
        line(
            &mut out,
            "sessions",
            format!("{sessions}, at most {turns:.2} requests each on average"),
        );
    }
    if !stats.class_requests.is_empty() {
        line(&mut out, "classes", classes(stats));
    }
    if let Some(sharing) = stats.sharing {
        let percent = sharing.tokens * 100.0;
        let stopped = if sharing.stopped {
            ", counted until memory ran out"
        } else {
            ""
        };
        let text = format!(
            "at most {percent:.1} % of prompt tokens with an infinite cache ({} blocks{stopped})",
            sharing.blocks
        );
        line(&mut out, "prefix sharing", text);
    }
    out.extend(["\n", &table(stats), "\n"]);
    out
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "none".to_owned())
}

/// Number, name and requests of each class; the number is its rank for the queue order `priority`.
fn classes(stats: &TraceStats) -> String {
    let known = stats.report.classes.iter().zip(&stats.class_requests);
    let parts = known
        .enumerate()
        .map(|(number, (name, requests))| match name.as_str() {
            "" => format!("{number} without one ({requests})"),
            name => format!("{number} `{name}` ({requests})"),
        });
    format!("{}, by first appearance", some(parts))
}

fn token_load(stats: &TraceStats) -> String {
    let seconds = stats.report.span.as_secs_f64();
    if seconds <= 0.0 {
        return "none, all requests arrive at once".to_owned();
    }
    let per_s = |sum: u128| sum as f64 / seconds;
    format!(
        "{:.0} prompt and {:.0} output tokens/s",
        per_s(stats.input.sum),
        per_s(stats.output.sum)
    )
}

fn dispersion(stats: &TraceStats) -> String {
    let parts: Vec<String> = stats
        .dispersion
        .iter()
        .map(|(window, index)| {
            format!(
                "{} in {window} s",
                index.map_or("none".to_owned(), |index| format!("{index:.2}"))
            )
        })
        .collect();
    format!("{} (Poisson: 1)", parts.join(", "))
}

fn gaps(stats: &TraceStats) -> String {
    let at = |p: f64| {
        stats
            .gaps
            .quantile(p)
            .map(|gap| format!("p{} {}", p * 100.0, duration(gap)))
    };
    let parts: Vec<String> = SHOWN.iter().filter_map(|p| at(*p)).collect();
    let zeros = match stats.zero_gaps {
        0 => String::new(),
        zeros => format!("{zeros} of 0 s; others: "),
    };
    format!("{zeros}{}", parts.join(", "))
}

/// A span with a unit that suits it.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

fn table(stats: &TraceStats) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "", "mean", "sd", "min", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max",
    ]);
    for (name, q) in [
        ("prompt tokens", &stats.input),
        ("output tokens", &stats.output),
    ] {
        let mut row = vec![
            name.to_owned(),
            format!("{:.1}", q.mean),
            format!("{:.1}", q.sd),
            q.min.to_string(),
        ];
        row.extend(q.percentiles.iter().map(|(_, value)| plain(*value)));
        row.push(q.max.to_string());
        table.add_row(row);
    }
    let ratio = |p: f64| {
        stats
            .ratio
            .quantile(p)
            .map_or(String::new(), |ratio| format!("{ratio:.2}"))
    };
    let mut row = vec![
        "prompt / output".to_owned(),
        String::new(),
        String::new(),
        String::new(),
    ];
    row.extend([0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99].map(ratio));
    table.add_row(row);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A percentile without a needless decimal.
fn plain(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The statistics as JSON.
#[must_use]
pub fn trace_json(stats: &TraceStats) -> String {
    let report = &stats.report;
    let dropped: serde_json::Map<String, Value> = report
        .dropped
        .iter()
        .map(|(reason, n)| (reason.to_string(), json!(n)))
        .collect();
    let (requests, input, output) = stats.timeline.peak_minute();
    let quantiles = |bins: &crate::workload::stats::LogBins| -> serde_json::Map<String, Value> {
        SHOWN
            .iter()
            .map(|p| (format!("p{}", p * 100.0), json!(bins.quantile(*p))))
            .collect()
    };
    let value = json!({
        "trace": report.path.display().to_string(),
        "format": report.format.name(),
        "rows_read": report.rows_read(),
        "kept": report.kept,
        "dropped": dropped,
        "span_s": report.span.as_secs_f64(),
        "rate_per_s": stats.rate,
        "peak_minute": {"requests_per_s": requests, "input_tokens_per_s": input, "output_tokens_per_s": output},
        "inter_arrival_cv": stats.gap_cv,
        "index_of_dispersion": stats.dispersion.iter().map(|(window, index)| json!({"window_s": window, "index": index})).collect::<Vec<_>>(),
        "inter_arrival_s": quantiles(&stats.gaps),
        "zero_gaps": stats.zero_gaps,
        "input_tokens": lengths(&stats.input),
        "output_tokens": lengths(&stats.output),
        "input_per_output": quantiles(&stats.ratio),
        "sessions": stats.sessions,
        "prefix_sharing_bound": stats.sharing.map(|sharing| sharing.tokens),
        "classes": report.classes,
        "class_requests": stats.class_requests,
        "warnings": report.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}

fn lengths(q: &Quantiles) -> Value {
    let mut map = serde_json::Map::new();
    map.insert("mean".to_owned(), json!(q.mean));
    map.insert("sd".to_owned(), json!(q.sd));
    map.insert("min".to_owned(), json!(q.min));
    for (percent, value) in q.percentiles {
        map.insert(format!("p{percent}"), json!(value));
    }
    map.insert("max".to_owned(), json!(q.max));
    Value::Object(map)
}

/// Writes the page of charts to `path`; its folder is made when missing.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn trace_page(path: &Path, stats: &TraceStats) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        create_folder(folder)?;
    }
    let png = super::charts::trace(stats).map_err(|reason| Error::Chart {
        path: path.to_owned(),
        reason,
    })?;
    write_file(path, &png)
}
