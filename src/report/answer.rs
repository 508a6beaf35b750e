//! The answer in sentences: which system serves this load better, and why, from the pooled figures alone.

use super::compare;
use super::input::Report;
use super::pool::Pooled;
use super::words;
use crate::metrics::{Estimate, State};
use crate::units::SimDuration;

/// How far a system keeps the promise along the axis, points at which nothing was measured left out. Read from the grid of the sweep: the true crossing lies between
/// `kept` and `missed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Index into [`Report::systems`].
    pub system: usize,
    /// The last value before the first miss; none when the first one misses.
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
            let mine = pooled
                .iter()
                .filter(|p| p.system == system && !p.is_empty());
            let mine: Vec<&Pooled> = mine.collect();
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
/// stable when there is none; else the first at which anything was measured.
#[must_use]
pub fn telling_point(report: &Report, pooled: &[Pooled]) -> usize {
    let good = |p: &&Pooled| match report.slo {
        Some(slo) => p
            .mean("attainment")
            .is_some_and(|share| share >= slo.attainment),
        None => p.verdict().is_some_and(|state| state <= State::Stable),
    };
    let measured = || pooled.iter().filter(|p| !p.is_empty());
    let last = measured().filter(good).map(|p| p.point).max();
    last.or_else(|| measured().map(|p| p.point).min())
        .unwrap_or(0)
}

/// The sentences, most important first.
#[must_use]
pub fn sentences(report: &Report, pooled: &[Pooled]) -> Vec<String> {
    let mut out = Vec::new();
    let crossings = crossings(report, pooled);
    let here = ranked(pooled, telling_point(report, pooled));
    if !crossings.is_empty() {
        out.push(compare::by_crossing(report, &crossings));
    } else if report.axis.values.len() == 1 {
        out.extend(compare::by_promise(report, &here));
    }
    out.extend(compare::of_what_is_sent(report, &here));
    // Systems that reach less far along the axis are out of the race already.
    let reach = |p: &Pooled| {
        crossings
            .iter()
            .find(|c| c.system == p.system)
            .map(|c| c.kept)
    };
    let farthest = here.iter().filter_map(|p| reach(p)).max();
    let contenders: Vec<&Pooled> = here
        .iter()
        .filter(|p| reach(p) == farthest)
        .copied()
        .collect();
    if contenders.len() > 1 {
        out.extend(compare::headline(report, &contenders));
    }
    out.extend(compare::within_noise(
        report,
        &decisive(pooled, &crossings, &here),
    ));
    if let Some((best, others)) = here.split_first() {
        for other in others {
            out.extend(why(report, best, other));
        }
    }
    out.extend(compare::unequal_hardware(report, &here));
    out.extend(
        report
            .cautions
            .iter()
            .map(|text| format!("Caution: {text}.")),
    );
    out
}

/// What the statements about the promise rest on: both sides of each crossing, or the single point.
fn decisive<'p>(
    pooled: &'p [Pooled],
    crossings: &[Crossing],
    here: &[&'p Pooled],
) -> Vec<&'p Pooled> {
    if crossings.is_empty() {
        return here.to_vec();
    }
    pooled
        .iter()
        .filter(|p| {
            crossings.iter().any(|c| {
                c.system == p.system && (c.kept == Some(p.point) || c.missed == Some(p.point))
            })
        })
        .collect()
}

/// The systems at a point, best first: by attainment, then (and without a promise, after the verdict) by mean E2E. Those of which nothing
/// was measured come last.
fn ranked(pooled: &[Pooled], point: usize) -> Vec<&Pooled> {
    let e2e = |p: &Pooled| p.mean("e2e_mean_ms").unwrap_or(f64::INFINITY);
    let mut here: Vec<&Pooled> = pooled.iter().filter(|p| p.point == point).collect();
    here.sort_by(|a, b| {
        let verdict = |p: &Pooled| (p.is_empty(), p.verdict().is_none(), p.state);
        verdict(a).cmp(&verdict(b)).then(e2e(a).total_cmp(&e2e(b)))
    });
    let missed = |p: &Pooled| p.mean("attainment").map(|share| 1.0 - share);
    if here.iter().all(|p| p.is_empty() || missed(p).is_some()) {
        let missed = |p: &Pooled| missed(p).unwrap_or(f64::INFINITY);
        here.sort_by(|a, b| {
            let by_promise = missed(a).total_cmp(&missed(b));
            by_promise.then(e2e(a).total_cmp(&e2e(b)))
        });
    }
    here
}

/// Why `other` falls behind `best` at their point; none when it keeps up in attainment.
fn why(report: &Report, best: &Pooled, other: &Pooled) -> Option<String> {
    let this = other.mean("attainment")?;
    // An overloaded system is behind even where two seeds leave room for chance.
    if other.state <= best.state && compare::keeps_up(report, best, other) {
        return None;
    }
    let held = match (other.state, other.bottleneck) {
        (State::Stable, _) | (_, None) => String::new(),
        (State::Closed, Some(b)) => format!("limited by {}: ", words::bottleneck(b)),
        (state, Some(b)) => format!("{} by {}: ", words::state(state), words::bottleneck(b)),
    };
    Some(format!(
        "{}{}: {} good; {held}{}.",
        report.systems[other.system].name,
        at_point(report, other.point),
        percent(this),
        reason(report, other)?
    ))
}

/// Which limit is missed most, and what takes the time.
fn reason(report: &Report, p: &Pooled) -> Option<String> {
    let missed = p.counts.measured.saturating_sub(p.met?);
    let turned_away = [
        (p.counts.rejected, "were rejected"),
        (p.counts.unfinished, "were unfinished at the horizon"),
    ];
    if let Some((count, what)) = turned_away
        .into_iter()
        .find(|(count, _)| 2 * count > missed)
    {
        let of = p.counts.measured;
        return Some(format!("{count} of {of} requests {what}"));
    }
    let slo = report.slo?;
    let (ttft, tpot) = (p.mean("attainment_ttft")?, p.mean("attainment_tpot")?);
    let exceeded = |share: f64, what: &str, limit: Option<SimDuration>| {
        let limit = limit.map_or(0.0, SimDuration::as_ms_f64);
        format!(
            "{} exceed the {what} limit of {limit} ms",
            percent(1.0 - share)
        )
    };
    Some(if ttft.min(tpot) >= 1.0 {
        let mean = |name| p.mean(name).map_or_else(String::new, digits);
        format!(
            "mean E2E {} ms, mean TTFT {} ms",
            mean("e2e_mean_ms"),
            mean("ttft_mean_ms")
        )
    } else if tpot < ttft {
        let slow = slow_tokens(report, p);
        format!("{}: {slow}", exceeded(tpot, "TPOT", slo.tpot))
    } else {
        let late = late_first_token(p);
        format!("{}: {late}", exceeded(ttft, "TTFT", slo.ttft))
    })
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
            "on average it is {mean} ms, and the longest stage is {stage}, {} ms",
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
    if pools.iter().any(|pool| pool.streams) && mixed > 0.0 {
        format!("prompts on the same GPUs stretch its decode steps ({gaps})")
    } else if prefill > mixed {
        format!("its decodes stall behind prefills ({gaps})")
    } else if mixed > 0.0 {
        format!("prompt chunks stretch its decode steps ({gaps})")
    } else {
        format!("some of its tokens wait long ({gaps})")
    }
}

/// A share as `93.1 %`, or `90 %` when it is whole.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.1} %", 100.0 * share);
    text.replace(".0 %", " %")
}

/// The words ` at 6 /s` for a sweep, nothing for a single point.
pub(super) fn at_point(report: &Report, point: usize) -> String {
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
