//! The answer in sentences: which system serves this load better, and why, from the pooled figures alone.

use super::input::Report;
use super::pool::{Pooled, difference};
use super::words;
use crate::metrics::{Estimate, State};

/// How far a system keeps the promise along the axis. Read from the grid of the sweep: the true crossing lies between
/// `kept` and `missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Index into [`Report::systems`].
    pub system: usize,
    /// The last value before the first miss; none when the first value misses.
    pub kept: Option<usize>,
    /// The first value that misses; none when all keep.
    pub missed: Option<usize>,
}

/// The crossings of the target, for a sweep over ascending numbers with a promise; otherwise empty.
#[must_use]
pub fn crossings(report: &Report, pooled: &[Pooled]) -> Vec<Crossing> {
    let Some(target) = report.slo.map(|slo| slo.attainment) else {
        return Vec::new();
    };
    if !report.is_ascending() {
        return Vec::new();
    }
    (0..report.systems.len())
        .filter_map(|system| {
            let mine: Vec<&Pooled> = pooled.iter().filter(|p| p.system == system).collect();
            if mine.is_empty() {
                return None;
            }
            let keeps = |p: &&Pooled| p.mean("attainment").is_some_and(|share| share >= target);
            let first_miss = mine.iter().position(|p| !keeps(p));
            let kept = first_miss.unwrap_or(mine.len()).checked_sub(1);
            Some(Crossing {
                system,
                kept: kept.map(|at| mine[at].point),
                missed: first_miss.map(|at| mine[at].point),
            })
        })
        .collect()
}

/// The point that tells the systems apart best: the last one at which some system still keeps the promise, or is
/// stable when there is none; else the first.
#[must_use]
pub fn telling_point(report: &Report, pooled: &[Pooled]) -> usize {
    let good = |p: &&Pooled| match report.slo {
        Some(slo) => p
            .mean("attainment")
            .is_some_and(|share| share >= slo.attainment),
        None => p.state == State::Stable,
    };
    pooled
        .iter()
        .filter(good)
        .map(|p| p.point)
        .max()
        .unwrap_or(0)
}

/// The sentences, most important first.
#[must_use]
pub fn sentences(report: &Report, pooled: &[Pooled]) -> Vec<String> {
    let mut out = Vec::new();
    let crossings = crossings(report, pooled);
    let point = telling_point(report, pooled);
    let here = ranked(pooled, point);
    if !crossings.is_empty() {
        out.push(by_crossing(report, &crossings));
    }
    let tied = crossings
        .windows(2)
        .all(|pair| pair[0].kept == pair[1].kept);
    if let ([first, second, ..], true) = (&here[..], tied) {
        out.push(by_difference(report, point, first, second));
    }
    if let Some((best, others)) = here.split_first() {
        for other in others {
            if let Some(why) = why(report, best, other) {
                out.push(why);
            }
        }
    }
    if let Some(note) = unequal_gpus(report) {
        out.push(note);
    }
    out
}

/// The systems at a point, best first: by attainment, or by mean E2E without a promise.
fn ranked(pooled: &[Pooled], point: usize) -> Vec<&Pooled> {
    let key = |p: &Pooled| {
        p.mean("attainment").map_or_else(
            || p.mean("e2e_mean_ms").unwrap_or(f64::INFINITY),
            |share| -share,
        )
    };
    let mut here: Vec<&Pooled> = pooled.iter().filter(|p| p.point == point).collect();
    here.sort_by(|a, b| a.state.cmp(&b.state).then(key(a).total_cmp(&key(b))));
    if here.iter().all(|p| p.mean("attainment").is_some()) {
        here.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
    here
}

fn by_crossing(report: &Report, crossings: &[Crossing]) -> String {
    let target = report.slo.map_or(0.0, |slo| slo.attainment);
    let label = |point: usize| report.axis.values[point].label.as_str();
    let mut order: Vec<&Crossing> = crossings.iter().collect();
    order.sort_by_key(|c| std::cmp::Reverse((c.kept, c.missed.is_none())));
    let parts: Vec<String> = order
        .iter()
        .map(|c| {
            let name = &report.systems[c.system].name;
            match (c.kept, c.missed) {
                (Some(kept), Some(missed)) => {
                    format!("{name} up to {} (not at {})", label(kept), label(missed))
                }
                (Some(kept), None) => format!("{name} at every value, up to {}", label(kept)),
                (None, _) => format!("{name} at none"),
            }
        })
        .collect();
    format!(
        "{} is kept, read from the sweep's grid: {}.",
        percent(target),
        parts.join("; ")
    )
}

fn by_difference(report: &Report, point: usize, best: &Pooled, next: &Pooled) -> String {
    let (a, b) = (
        &report.systems[best.system].name,
        &report.systems[next.system].name,
    );
    let (name, scale, unit, what) = if best.figures.contains_key("attainment") {
        ("attainment", 100.0, "points", "good requests")
    } else {
        ("e2e_mean_ms", 1.0, "ms", "mean E2E")
    };
    let Some(d) = difference(report, point, best.system, next.system, name) else {
        return format!("{a} and {b} share no seed, so they cannot be compared.");
    };
    let seen = |p: &Pooled| {
        p.mean(name).map_or_else(String::new, |v| {
            if name == "attainment" {
                percent(v)
            } else {
                format!("{} ms", digits(v))
            }
        })
    };
    let pair = format!("{} against {}", seen(best), seen(next));
    let size = (d.mean * scale).abs();
    let at = at_point(report, point);
    match (d.half_width, d.differs_from_zero()) {
        (Some(half), Some(true)) => format!(
            "{a} serves this load better than {b}{at}: {what} {pair}, difference {size:.1} ± {:.1} {unit} over {} paired seeds.",
            half * scale,
            d.seeds
        ),
        (Some(half), _) => format!(
            "{a} and {b} do not differ beyond noise{at}: {what} {pair}, difference {size:.1} ± {:.1} {unit} over {} paired seeds.",
            half * scale,
            d.seeds
        ),
        (None, _) if size > 0.0 => format!(
            "{a} serves this load better than {b}{at}: {what} {pair} (one seed, so without a confidence interval)."
        ),
        (None, _) => format!("{a} and {b} come out equal{at}: {what} {pair} (one seed)."),
    }
}

/// Why `other` falls behind `best` at their point; none when it keeps up in attainment.
fn why(report: &Report, best: &Pooled, other: &Pooled) -> Option<String> {
    let (first, this) = (best.mean("attainment")?, other.mean("attainment")?);
    if first - this < 0.005 {
        return None;
    }
    let at = at_point(report, other.point);
    let (ttft, tpot) = (
        other.mean("attainment_ttft")?,
        other.mean("attainment_tpot")?,
    );
    let reason = if tpot < ttft {
        slow_tokens(report, other)
    } else {
        late_first_token(other)
    };
    let held = match (other.state, other.bottleneck) {
        (State::Stable, _) | (_, None) => String::new(),
        (state, Some(b)) => format!("{} by {}: ", words::state(state), words::bottleneck(b)),
    };
    Some(format!(
        "{}{at}: {} good; {held}{reason}.",
        report.systems[other.system].name,
        percent(this)
    ))
}

/// The stage that takes most of the mean TTFT.
fn late_first_token(p: &Pooled) -> String {
    let stages = [
        ("the router", "router_wait_mean_ms"),
        ("the prefill queue", "prefill_queue_mean_ms"),
        ("prefill", "prefill_mean_ms"),
        ("the transfer queue", "transfer_queue_mean_ms"),
        ("the KV transfer", "transfer_mean_ms"),
        ("the decode queue", "decode_queue_mean_ms"),
    ];
    let slowest = stages
        .iter()
        .filter_map(|(words, name)| Some((*words, p.mean(name)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let mean = p.mean("ttft_mean_ms").map_or(String::new(), digits);
    match slowest {
        Some((stage, ms)) => format!(
            "the first token comes late (mean TTFT {mean} ms); the longest stage is {stage}, {} ms",
            digits(ms)
        ),
        None => "no request got a first token".to_owned(),
    }
}

/// The hand-off, when it takes a good part of the time after the first token, which it does when the prefill instance
/// emits that token.
fn slow_hand_off(p: &Pooled) -> Option<String> {
    p.mean("transfer_mean_ms").filter(|&mean| mean > 0.0)?;
    let of = |name| p.mean(name).unwrap_or(0.0);
    let (queue, transfer) = (of("transfer_queue_mean_ms"), of("transfer_mean_ms"));
    let after_first = p.mean("e2e_mean_ms")? - p.mean("ttft_mean_ms")?;
    let all = queue + transfer + of("decode_queue_mean_ms");
    (all > 0.25 * after_first).then(|| {
        format!(
            "the second token waits for the hand-off, {} ms on average ({} ms of it before the KV transfer starts)",
            digits(all),
            digits(queue)
        )
    })
}

/// Whether tokens are slow throughout or stall now and then, and behind what.
fn slow_tokens(report: &Report, p: &Pooled) -> String {
    let figures = ["itl_p50_ms", "itl_p99_ms", "tpot_p99_ms"].map(|name| p.mean(name));
    let [Some(p50), Some(p99), Some(tpot)] = figures else {
        return "tokens come too slowly".to_owned();
    };
    if let Some(reason) = slow_hand_off(p) {
        return reason;
    }
    let gaps = format!(
        "ITL p50 {} ms, p99 {} ms, TPOT p99 {} ms",
        digits(p50),
        digits(p99),
        digits(tpot)
    );
    // A few long stalls hardly show among all gaps but do in the requests that they hit.
    if p99.max(tpot) < 3.0 * p50 {
        return format!("its decode steps are too slow throughout ({gaps})");
    }
    let pools = report
        .runs_of(p.system, p.point)
        .first()
        .map_or(&[][..], |run| &run.metrics.pools[..]);
    let shared = pools.iter().filter(|pool| pool.role == "both");
    let (prefill, mixed) = shared.fold((0.0, 0.0), |(prefill, mixed), pool| {
        (prefill + pool.busy_prefill, mixed + pool.busy_mixed)
    });
    if prefill > mixed {
        format!("its decodes stall behind prefills ({gaps})")
    } else if mixed > 0.0 {
        format!("prompt chunks stretch its decode steps ({gaps})")
    } else {
        format!("some of its tokens wait long ({gaps})")
    }
}

fn unequal_gpus(report: &Report) -> Option<String> {
    let first = report.systems.first()?.gpus;
    if report.systems.iter().all(|s| s.gpus == first) {
        return None;
    }
    let counts: Vec<String> = report
        .systems
        .iter()
        .map(|s| format!("{} {}", s.name, s.gpus))
        .collect();
    Some(format!(
        "GPU counts differ ({}): compare the figures per GPU.",
        counts.join(", ")
    ))
}

/// A share as `93.1 %`, or `90 %` when it is whole.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.1} %", 100.0 * share);
    text.replace(".0 %", " %")
}

/// The words ` at 6 /s` for a sweep, nothing for a single point.
fn at_point(report: &Report, point: usize) -> String {
    if report.axis.values.len() > 1 {
        format!(" at {}", report.axis.values[point].label)
    } else {
        String::new()
    }
}

/// A number with about three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A mean with its interval, `93.1 % ± 0.8`.
pub(super) fn share_text(estimate: &Estimate) -> String {
    let mean = 100.0 * estimate.mean;
    estimate.half_width.map_or_else(
        || format!("{mean:.1} %"),
        |half| format!("{mean:.1} % ± {:.1}", 100.0 * half),
    )
}
