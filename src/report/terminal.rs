//! The answer on one screen: verdicts first, then why, then figures.

use std::io::{self, Write};

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};

use super::answer::{at_point, digits, percent, sentences, share_text, telling_point};
use super::file::Error;
use super::input::Report;
use super::links;
use super::pool::{Pooled, pool};
use super::words;
use crate::metrics::State;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Columns to stay within.
    pub width: u16,
    /// Whether to colour the verdicts: only for a terminal.
    pub colour: bool,
}

/// The whole answer as text.
#[must_use]
pub fn terminal(report: &Report, style: &Style) -> String {
    let pooled = pool(report);
    let mut lines = vec![report.name.clone()];
    lines.extend(report.question.clone());
    lines.extend(report.promise().map(|promise| format!("SLO: {promise}")));
    lines.push(String::new());
    lines.extend(verdicts(report, &pooled, style.colour));
    lines.push(String::new());
    lines.extend(sentences(report, &pooled));
    lines.push(String::new());
    if report.axis.values.len() > 1 {
        lines.push(grid_title(report));
        lines.push(grid(report, &pooled, style.width));
        lines.push(String::new());
    }
    let point = telling_point(report, &pooled);
    lines.push(detail_title(report, &pooled, point));
    lines.push(details(report, &pooled, point, style.width));
    lines.extend(footnotes(report, &pooled, point));
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// Writes to standard output; a reader that has gone away (broken pipe) is no error.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn emit(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Error::Stdout(e)),
        _ => Ok(()),
    }
}

/// Warnings of all runs, a line each: equal kinds of a system are told once, with the run that has it first.
#[must_use]
pub fn warnings(report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    for (system, info) in report.systems.iter().enumerate() {
        let mut told: Vec<(std::mem::Discriminant<_>, String, u32)> = Vec::new();
        for run in report.ordered_runs() {
            if run.system != system {
                continue;
            }
            for warning in &run.metrics.warnings {
                let kind = std::mem::discriminant(warning);
                if let Some((_, _, times)) = told.iter_mut().find(|(k, _, _)| *k == kind) {
                    *times += 1;
                    continue;
                }
                let text = format!(
                    "{}{}, seed {}: {}: {}; {}",
                    info.name,
                    at_point(report, run.point),
                    run.seed,
                    warning.seen(),
                    warning.why(),
                    warning.advice()
                );
                told.push((kind, text, 1));
            }
        }
        out.extend(told.into_iter().map(|(_, text, times)| match times {
            1 => text,
            n => format!("{text} (and {} more runs)", n - 1),
        }));
    }
    out
}

/// What is said of a system of which nothing was measured.
const NOTHING: &str = "nothing measured";

/// What is said of a system that let no request in.
const REJECTED: &str = "every request rejected";

/// What stands in place of a verdict where there is none.
fn without_verdict(p: &Pooled) -> Option<&'static str> {
    let why = if p.is_empty() { NOTHING } else { REJECTED };
    p.verdict().is_none().then_some(why)
}

/// Marks of figures of an overloaded system: those that depend on the length of the run, and those of what a client sent that falls
/// behind its plan.
const LONGER: &str = " *";
const SENT: &str = " \u{2020}";

/// One line per system.
fn verdicts(report: &Report, pooled: &[Pooled], colour: bool) -> Vec<String> {
    let names = report.systems.iter().map(|s| s.name.chars().count());
    let wide = names.max().unwrap_or(0);
    report
        .systems
        .iter()
        .enumerate()
        .map(|(system, info)| {
            let mine: Vec<&Pooled> = pooled.iter().filter(|p| p.system == system).collect();
            let text = if report.axis.values.len() > 1 {
                along_axis(report, &mine, colour)
            } else {
                mine.first()
                    .map_or_else(String::new, |p| single_verdict(p, colour))
            };
            format!("{:wide$}  {text}", info.name)
        })
        .collect()
}

fn single_verdict(p: &Pooled, colour: bool) -> String {
    if let Some(why) = without_verdict(p) {
        return why.to_owned();
    }
    let mut parts = vec![match p.bottleneck {
        Some(b) if p.state == State::Closed => format!(
            "{}, limited by {}",
            paint(p.state, colour),
            words::bottleneck(b)
        ),
        Some(b) => format!("{} by {}", paint(p.state, colour), words::bottleneck(b)),
        None => paint(p.state, colour),
    }];
    if p.state > State::Stable {
        let share = percent(p.piling_up.clamp(0.0, 1.0));
        parts.push(if p.paced {
            format!("{share} of the planned arrivals pile up, with its client or inside")
        } else {
            format!("{share} of the arrivals pile up")
        });
    }
    if p.state == State::Overloaded {
        parts.push(if p.paced {
            "the client's wait depends on the length of the run".to_owned()
        } else {
            "its latencies depend on the length of the run".to_owned()
        });
    }
    if p.seeds > 1 {
        parts.push(format!("{} of {} seeds agree", p.agreeing, p.measuring));
        match p.seeds - p.measuring {
            0 => {}
            1 => parts.push(format!("{NOTHING} with the other one")),
            n => parts.push(format!("{NOTHING} with the other {n}")),
        }
    }
    parts.join("; ")
}

/// `stable 1 /s to 3 /s; overloaded 4 /s to 9 /s (decode KV)`.
fn along_axis(report: &Report, mine: &[&Pooled], colour: bool) -> String {
    let label = |p: &Pooled| report.axis.values[p.point].label.as_str();
    let alike = |p: &Pooled| (without_verdict(p), p.state, p.bottleneck);
    let spans: Vec<String> = mine
        .chunk_by(|a, b| alike(a) == alike(b))
        .map(|span| {
            let (first, last) = (span[0], span[span.len() - 1]);
            let range = if span.len() > 1 {
                format!("{} to {}", label(first), label(last))
            } else {
                label(first).to_owned()
            };
            if let Some(why) = without_verdict(first) {
                return format!("{why} {range}");
            }
            let why = first
                .bottleneck
                .map_or_else(String::new, |b| format!(" ({})", words::bottleneck(b)));
            format!("{} {range}{why}", paint(first.state, colour))
        })
        .collect();
    spans.join("; ")
}

fn paint(state: State, colour: bool) -> String {
    let word = match state {
        // Must not be overlooked, with or without colours.
        State::Overloaded => "OVERLOADED",
        State::Backlogged | State::Stable | State::Closed => words::state(state),
    };
    let code = match state {
        State::Overloaded => "31;1",
        State::Backlogged => "33",
        State::Stable | State::Closed => "32",
    };
    if colour {
        format!("\u{1b}[{code}m{word}\u{1b}[0m")
    } else {
        word.to_owned()
    }
}

fn grid_title(report: &Report) -> String {
    match report.slo {
        Some(slo) => format!(
            "Good requests by {} (target {})",
            report.axis.key,
            percent(slo.attainment)
        ),
        None => format!("Mean E2E in ms by {}", report.axis.key),
    }
}

/// Attainment (or mean E2E) by axis value and system.
fn grid(report: &Report, pooled: &[Pooled], width: u16) -> String {
    let mut table = plain_table(width);
    let mut header = vec![report.axis.key.clone()];
    header.extend(report.systems.iter().map(|s| s.name.clone()));
    table.set_header(header);
    for (point, value) in report.axis.values.iter().enumerate() {
        let mut row = vec![value.label.clone()];
        for system in 0..report.systems.len() {
            let here = pooled
                .iter()
                .find(|p| p.point == point && p.system == system);
            row.push(here.map_or_else(String::new, |p| grid_cell(report, p)));
        }
        table.add_row(row);
    }
    align_right(&mut table);
    table.trim_fmt()
}

fn grid_cell(report: &Report, p: &Pooled) -> String {
    let mark = match (p.state, p.paced) {
        (State::Overloaded, true) => SENT,
        (State::Overloaded, false) => LONGER,
        _ => "",
    };
    let text = match report.slo {
        Some(_) => p.figures.get("attainment").map(share_text),
        None => p.mean("e2e_mean_ms").map(digits),
    };
    text.map_or_else(|| "-".to_owned(), |text| text + mark)
}

fn detail_title(report: &Report, pooled: &[Pooled], point: usize) -> String {
    let here = pooled.iter().find(|p| p.point == point);
    let (seeds, measured) = here.map_or((0, 0), |p| (p.seeds, p.counts.measured));
    let at = if report.axis.values.len() > 1 {
        format!(
            "At {} = {}: ",
            report.axis.key, report.axis.values[point].label
        )
    } else {
        String::new()
    };
    let times = if seeds > 1 {
        format!(" over {seeds} seeds")
    } else {
        String::new()
    };
    format!("{at}{measured} measured requests per system{times}")
}

/// Rows about money, and the figures in them.
const MONEY: [(&str, &str); 3] = [
    ("$ per hour", "usd_per_hour"),
    ("$ per 1M output tokens", "usd_per_million_output_tokens"),
    ("$ per 1M good tokens", "usd_per_million_good_tokens"),
];

/// Figures as rows, systems as columns.
fn details(report: &Report, pooled: &[Pooled], point: usize, width: u16) -> String {
    let here: Vec<&Pooled> = pooled.iter().filter(|p| p.point == point).collect();
    let mut table = plain_table(width);
    let names = here.iter().map(|p| report.systems[p.system].name.clone());
    table.set_header(std::iter::once(String::new()).chain(names));
    let mut add = |label: &str, cell: &dyn Fn(&Pooled) -> String| {
        let cells: Vec<String> = here.iter().map(|p| cell(p)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.add_row(std::iter::once(label.to_owned()).chain(cells));
        }
    };
    add("layout", &|p| {
        report.shape(p.system, p.point).layout.clone()
    });
    add("GPUs", &|p| {
        report.shape(p.system, p.point).gpus.to_string()
    });
    add("verdict", &verdict_cell);
    add("good requests", &good_cell);
    for (label, name) in [
        ("TTFT", "ttft"),
        ("TPOT", "tpot"),
        ("ITL", "itl"),
        ("E2E", "e2e"),
    ] {
        add(&format!("{label} p50 / p90 / p99, ms"), &|p| {
            percentiles(p, name)
        });
    }
    add("client's wait p50 / p90 / p99, ms", &|p| {
        percentiles(p, "client_wait")
    });
    add("in the system, mean", &in_system_cell);
    for (label, name) in [
        ("requests/s", "requests_per_s"),
        ("good requests/s per GPU", "good_requests_per_s_per_gpu"),
        ("output tokens/s", "output_tokens_per_s"),
        ("output tokens/s per GPU", "output_tokens_per_s_per_gpu"),
    ] {
        add(label, &|p| p.mean(name).map_or_else(String::new, digits));
    }
    add("time in a step, by pool", &|p| busy_cell(report, p));
    add("role switches per run", &switches_cell);
    add("time as P, D, mixed, by pool", &|p| roles_cell(report, p));
    add("busiest link (means)", &|p| links::busiest(report, p));
    add("KV peak, fullest instance", &|p| {
        p.mean("kv_peak_share").map_or_else(String::new, percent)
    });
    add("prompt tokens cached", &cached_cell);
    for (label, name) in MONEY {
        add(label, &|p| p.mean(name).map_or_else(String::new, digits));
    }
    add("GPU-hours / kWh at TDP", &energy_cell);
    add("preemptions", &|p| nonzero(p.preemptions));
    add("rejected", &|p| nonzero(p.counts.rejected));
    add("unfinished", &|p| nonzero(p.counts.unfinished));
    add("planned, never sent", &|p| nonzero(p.counts.never_sent));
    align_right(&mut table);
    table.trim_fmt()
}

fn switches_cell(p: &Pooled) -> String {
    let switches = p.mean("role_switches").filter(|&switches| switches > 0.0);
    switches.map_or_else(String::new, digits)
}

/// Of an open loop it says little that the latencies do not.
fn in_system_cell(p: &Pooled) -> String {
    let closed = p.state == State::Closed;
    let mean = closed.then(|| p.mean("mean_in_system")).flatten();
    mean.map_or_else(String::new, digits)
}

fn verdict_cell(p: &Pooled) -> String {
    if let Some(why) = without_verdict(p) {
        return why.to_owned();
    }
    match (p.state, p.bottleneck) {
        (State::Stable, _) | (_, None) => words::state(p.state).to_owned(),
        (state, Some(b)) => format!("{}: {}", words::state(state), words::bottleneck(b)),
    }
}

/// `93.1 % ± 0.8 (2795/3000)`.
fn good_cell(p: &Pooled) -> String {
    match (p.figures.get("attainment"), p.met) {
        (Some(share), Some(met)) => {
            format!("{} ({met}/{})", share_text(share), p.counts.measured)
        }
        _ => String::new(),
    }
}

fn percentiles(p: &Pooled, name: &str) -> String {
    let values: Option<Vec<String>> = ["p50", "p90", "p99"]
        .iter()
        .map(|q| p.mean(&format!("{name}_{q}_ms")).map(digits))
        .collect();
    // The latencies of what a client sends within its limit settle; its wait does not.
    let grows = match name {
        "itl" => false,
        "client_wait" => true,
        _ => !p.paced,
    };
    let mark = if p.state == State::Overloaded && grows {
        LONGER
    } else {
        ""
    };
    values.map_or_else(String::new, |v| v.join(" / ") + mark)
}

/// Busy share of each pool, mean over seeds.
fn busy_cell(report: &Report, p: &Pooled) -> String {
    let runs = report.runs_of(p.system, p.point);
    let Some(first) = runs.first() else {
        return String::new();
    };
    let cells: Vec<String> = first
        .metrics
        .pools
        .iter()
        .enumerate()
        .map(|(i, pool)| {
            let busy = runs
                .iter()
                .filter_map(|run| run.metrics.pools.get(i))
                .map(|pool| pool.busy);
            let mean = busy.sum::<f64>() / runs.len() as f64;
            if first.metrics.pools.len() == 1 {
                format!("{:.0}\u{a0}%", 100.0 * mean)
            } else {
                // Lines break between pools, not inside.
                format!("{}\u{a0}{:.0}\u{a0}%", pool.name, 100.0 * mean)
            }
        })
        .collect();
    cells.join(", ")
}

/// What the instances of each pool did, where any changed its role: mean over seeds, roles of at least half a percent.
fn roles_cell(report: &Report, p: &Pooled) -> String {
    let runs = report.runs_of(p.system, p.point);
    if p.mean("role_switches")
        .is_none_or(|switches| switches <= 0.0)
    {
        return String::new();
    }
    let pools = runs.first().map_or(0, |run| run.metrics.pools.len());
    let cells = (0..pools).map(|i| {
        let shares = ["P", "D", "mixed", "moving"].into_iter().enumerate();
        let shares = shares.filter_map(|(role, word)| {
            let of_runs = runs
                .iter()
                .map(|run| run.metrics.pools[i].role_shares[role]);
            let mean = of_runs.sum::<f64>() / runs.len() as f64;
            (mean >= 0.005).then(|| format!("{:.0}\u{a0}%\u{a0}{word}", 100.0 * mean))
        });
        let name = &runs[0].metrics.pools[i].name;
        format!("{name}: {}", shares.collect::<Vec<_>>().join(" "))
    });
    cells.collect::<Vec<_>>().join(", ")
}

/// Shares of the prompt tokens that prefix caches held: on the GPUs, and in CPU tiers where these gave any.
fn cached_cell(p: &Pooled) -> String {
    let share = |name| p.mean(name).filter(|share| *share > 0.0);
    match (share("gpu_cached_share"), share("cpu_cached_share")) {
        (None, None) => String::new(),
        (gpu, None) => percent(gpu.unwrap_or(0.0)),
        (gpu, Some(cpu)) => {
            let gpu = percent(gpu.unwrap_or(0.0));
            format!("GPU\u{a0}{gpu}, CPU\u{a0}{}", percent(cpu))
        }
    }
}

/// `1.32 / 0.92`.
fn energy_cell(p: &Pooled) -> String {
    let cell = |name| p.mean(name).map(digits);
    match (cell("gpu_hours"), cell("energy_kwh")) {
        (Some(hours), Some(energy)) => format!("{hours} / {energy}"),
        _ => String::new(),
    }
}

fn nonzero(count: u64) -> String {
    if count == 0 {
        String::new()
    } else {
        count.to_string()
    }
}

fn footnotes(report: &Report, pooled: &[Pooled], point: usize) -> Vec<String> {
    let mut out = Vec::new();
    let swept = report.axis.values.len() > 1;
    let starred = |p: &Pooled| p.state == State::Overloaded && (swept || p.point == point);
    if pooled.iter().any(starred) {
        out.push("* overloaded: the figure depends on the length of the run".to_owned());
    }
    if swept
        && pooled
            .iter()
            .any(|p| p.paced && p.state == State::Overloaded)
    {
        out.push(
            "\u{2020} overloaded: the client falls behind its plan; the figure is of what it sends"
                .to_owned(),
        );
    }
    if pooled.iter().any(|p| p.point == point && drained(p)) {
        out.push(
            "good requests/s: the good share of what arrives per second; requests/s: of what is done, and the time that the last arrivals \
             take to end counts"
                .to_owned(),
        );
    }
    if pooled.iter().any(|p| p.seeds > 1) {
        out.push("± half the width of the 95 % confidence interval over seeds".to_owned());
    }
    out.extend(report.notes.iter().cloned());
    out
}

/// Whether more good requests than requests per second are shown, which are over different spans.
fn drained(p: &Pooled) -> bool {
    let rate = |name| p.mean(name).unwrap_or(0.0);
    rate("good_requests_per_s") > rate("requests_per_s")
}

fn plain_table(width: u16) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none()))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .force_no_tty();
    table
}

fn align_right(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}
