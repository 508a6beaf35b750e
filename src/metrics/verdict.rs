//! Did the system keep up, and if not, what held it back?
//!
//! **State.** What tells overload from a passing queue is the number of requests in the system, N: it returns when
//! the load is below capacity and grows in proportion to the arrivals when it is above. N is compared between the ends
//! of 16 equal segments of the arrival window, from the moment the system has turned over once (as many requests ended
//! as are inside; at most half the window is skipped so) to the last arrival. Under overload the 16 increments
//! are independent with a positive mean; at load 1 their mean is zero; below it they cancel (a queue that rose must fall),
//! so that Student's t of their mean is conservative: *overloaded* when it passes 2.6 (one-sided 1 %) and at least 2 % of
//! the arrivals pile up. The increments carry the burstiness of the arrivals with them, so bursts widen the noise
//! instead of passing for growth, and a short run, which has few arrivals per segment, does not reach significance:
//! it is *backlogged* from t = 1.35 (10 %) on.
//! A slow fill of the decode batch is not overload: when the window is shorter than four mean E2E latencies and
//! less than half of the growth is in queues, the answer is *backlogged* too.
//!
//! **Bottleneck**, for systems that are not stable: the stage whose population grew most between the first and the
//! last quarter of those samples, and then the resource this stage waits for: the GPUs when they are always busy with
//! prompts, the link when it is always sending, KV blocks when those of a decoding pool are (nearly) all taken or
//! sequences are preempted for them, otherwise an admission limit. Where a client bounds N nothing grows; see `closed`.

mod closed;
#[cfg(test)]
mod tests;

use super::result::{Bottleneck, PoolMetrics, State, Verdict};
use super::series::{Point, Series};
use crate::cluster::Role;
use crate::sim::PoolSample;
use crate::units::SimTime;
use crate::workload::Client;

/// Segments of the window.
const SEGMENTS: usize = 16;

/// Student's t with 15 degrees of freedom, one-sided 1 %.
const PROVEN: f64 = 2.6;

/// The same at 10 %.
const SUSPECTED: f64 = 1.35;

/// Least share of the arrivals that must pile up to call it growth.
const LEAST_SHARE: f64 = 0.02;

/// Share of KV blocks in use from which a pool counts as full: the next request often needs the rest.
const KV_FULL: f64 = 0.85;

/// Share of time from which a resource counts as saturated.
pub(super) const SATURATED: f64 = 0.9;

/// Growth of the number in the system.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Growth {
    /// Per arrival.
    pub(super) share: f64,
    /// In standard errors.
    pub(super) sigmas: f64,
}

/// What the verdict is drawn from.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) series: &'a Series,
    /// Start of the measured window and last arrival.
    pub(super) window: (SimTime, SimTime),
    pub(super) roles: &'a [Role],
    pub(super) pools: &'a [PoolMetrics],
    /// Utilisation of the busiest link.
    pub(super) link_busy: f64,
    /// Mean E2E of measured requests in seconds.
    pub(super) mean_e2e_s: Option<f64>,
    /// Whether sequences were preempted for lack of KV blocks more than now and then.
    pub(super) preempting: bool,
    /// Who decides when requests are sent.
    pub(super) client: Client,
    /// Growth of the client's wait.
    pub(super) held_back: Growth,
}

/// Populations of the stages: means over some samples.
#[derive(Debug, Clone, Copy, Default)]
struct Stages {
    held: f64,
    waiting: f64,
    prefilling: f64,
    handing_off: f64,
    decoding: f64,
}

/// Draws the verdict.
pub(super) fn verdict(evidence: &Evidence<'_>) -> Verdict {
    let (start, end) = evidence.window;
    let in_window: Vec<(&Point, &[PoolSample])> = evidence
        .series
        .iter()
        .filter(|(p, _)| start <= p.time && p.time <= end)
        .collect();
    let points: Vec<Point> = in_window.iter().map(|(p, _)| **p).collect();
    let from = turned_over(&points);
    let growth = growth(&points[from..]);
    let (before, after) = quarters(&in_window[from..]);
    let full = full_pools(&in_window[from..], evidence.pools.len());
    let mut state = classify(growth);
    if evidence.client != Client::Open {
        return closed::verdict(evidence, growth, &in_window[from..], &full);
    }
    let window_s = (end.saturating_since(start)).as_secs_f64();
    let filling = evidence.mean_e2e_s.is_some_and(|e2e| window_s < 4.0 * e2e)
        && queued(after) - queued(before) < 0.5 * (total(after) - total(before));
    if state == State::Overloaded && filling {
        state = State::Backlogged;
    }
    Verdict {
        state,
        bottleneck: (state != State::Stable).then(|| bottleneck(evidence, before, after, &full)),
        piling_up: positive(growth.share),
        growth_sigmas: growth.sigmas,
    }
}

/// A share; what fell piles up nowhere.
const fn positive(share: f64) -> f64 {
    share.max(0.0)
}

/// The first point at which as many requests have ended as are inside, but at most the middle one.
fn turned_over(points: &[Point]) -> usize {
    let half = points.len() / 2;
    points
        .iter()
        .position(|p| p.ended >= p.arrived - p.ended)
        .map_or(half, |at| at.min(half))
}

/// Growth of `arrived − ended` over the points.
pub(super) fn growth(points: &[Point]) -> Growth {
    let segments = SEGMENTS.min(points.len().saturating_sub(1));
    if segments < 2 {
        return Growth::default();
    }
    let inside: Vec<f64> = points
        .iter()
        .map(|p| p.arrived as f64 - p.ended as f64)
        .collect();
    let arrivals = (points[points.len() - 1].arrived - points[0].arrived).max(1);
    // N is a count: an increment is never known better than to half a request.
    growth_of(&inside, arrivals as f64, 0.25)
}

/// Growth of `values`, which are taken at equal distances, per unit of `whole`; an increment has at least `noise` of
/// variance.
pub(super) fn growth_of(values: &[f64], whole: f64, noise: f64) -> Growth {
    let segments = SEGMENTS.min(values.len().saturating_sub(1));
    if segments < 2 {
        return Growth::default();
    }
    let ends: Vec<f64> = (0..=segments)
        .map(|i| values[i * (values.len() - 1) / segments])
        .collect();
    let increments: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let n = segments as f64;
    let mean = increments.iter().sum::<f64>() / n;
    let variance = increments.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = (variance.max(noise) / n).sqrt();
    let (share, sigmas) = (mean * n / whole, mean / error);
    if share.is_nan() || sigmas.is_nan() {
        return Growth::default();
    }
    Growth { share, sigmas }
}

/// The state that growth alone suggests.
pub(super) fn classify(growth: Growth) -> State {
    if growth.share < LEAST_SHARE || growth.sigmas < SUSPECTED {
        State::Stable
    } else if growth.sigmas < PROVEN {
        State::Backlogged
    } else {
        State::Overloaded
    }
}

/// Mean populations in the first and the last quarter.
fn quarters(rows: &[(&Point, &[PoolSample])]) -> (Stages, Stages) {
    let quarter = rows.len().div_ceil(4);
    (
        mean_stages(&rows[..quarter]),
        mean_stages(&rows[rows.len() - quarter..]),
    )
}

fn mean_stages(rows: &[(&Point, &[PoolSample])]) -> Stages {
    let n = rows.len().max(1) as f64;
    let mean =
        |count: fn(&PoolSample) -> u64| rows.iter().flat_map(|(_, p)| *p).map(count).sum::<u64>();
    let [waiting, prefilling, handing_off, decoding] = [
        mean(|p| p.waiting),
        mean(|p| p.prefilling),
        mean(|p| p.handing_off),
        mean(|p| p.decoding),
    ]
    .map(|sum| sum as f64 / n);
    let inside: u64 = rows.iter().map(|(p, _)| p.arrived - p.ended).sum();
    let placed = waiting + prefilling + handing_off + decoding;
    Stages {
        held: (inside as f64 / n - placed).max(0.0),
        waiting,
        prefilling,
        handing_off,
        decoding,
    }
}

fn queued(stages: Stages) -> f64 {
    stages.held + stages.waiting + stages.handing_off
}

fn total(stages: Stages) -> f64 {
    queued(stages) + stages.prefilling + stages.decoding
}

/// The resource that the stage which grew most waits for.
fn bottleneck(evidence: &Evidence<'_>, before: Stages, after: Stages, full: &[bool]) -> Bottleneck {
    let mut pools = evidence.roles.iter().zip(full);
    let decode_full = pools.any(|(role, full)| *full && *role != Role::Prefill);
    let kv = decode_full || evidence.preempting;
    let growths = [
        after.held - before.held,
        after.waiting - before.waiting,
        after.handing_off - before.handing_off,
        after.decoding - before.decoding,
    ];
    let largest = (0..growths.len()).max_by(|a, b| growths[*a].total_cmp(&growths[*b]));
    match largest {
        Some(1) => prompt_queue(evidence, kv),
        Some(2) => hand_off(evidence, kv),
        Some(3) if kv => Bottleneck::DecodeKv,
        Some(3) => Bottleneck::DecodeBandwidth,
        _ => Bottleneck::Admission,
    }
}

/// What prompts wait for, when theirs is the queue that grows.
fn prompt_queue(evidence: &Evidence<'_>, kv: bool) -> Bottleneck {
    // The busiest pool that computes prompts.
    let Some((role, pool)) = evidence
        .roles
        .iter()
        .zip(evidence.pools)
        .filter(|(role, _)| **role != Role::Decode)
        .max_by(|a, b| a.1.busy.total_cmp(&b.1.busy))
    else {
        return Bottleneck::Admission;
    };
    let prompts = pool.busy_prefill + pool.busy_mixed;
    let saturated = pool.busy >= SATURATED;
    let mostly_prompts = prompts >= 0.5 * pool.busy;
    // Where roles change, instances of a prefill pool may do the other's work for most of their time.
    let hands_off = *role != Role::Both && mostly_prompts;
    if hands_off && !saturated {
        // With GPUs to spare, prompts wait for what holds their KV blocks: finished ones that cannot leave.
        hand_off(evidence, kv)
    } else if kv && !hands_off {
        Bottleneck::DecodeKv
    } else if saturated && mostly_prompts {
        Bottleneck::PrefillCompute
    } else {
        // GPUs with time to spare, or busy with decodes while blocks are left: a limit keeps prompts out.
        Bottleneck::Admission
    }
}

/// Whether instances of a pool compute prompts and decode, by their role or because roles change.
fn does_both(role: Role, pool: &PoolMetrics) -> bool {
    match role {
        Role::Both => true,
        Role::Prefill => pool.busy_decode > 0.0,
        Role::Decode => false,
    }
}

/// What finished prompts wait for.
fn hand_off(evidence: &Evidence<'_>, kv: bool) -> Bottleneck {
    let sending =
        evidence.link_busy >= SATURATED || evidence.pools.iter().any(|p| p.link_busy >= SATURATED);
    match (sending, kv) {
        (true, _) => Bottleneck::TransferLink,
        (false, true) => Bottleneck::DecodeKv,
        (false, false) => Bottleneck::Admission,
    }
}

/// Which pools have (nearly) all KV blocks in use in the last quarter.
fn full_pools(rows: &[(&Point, &[PoolSample])], pools: usize) -> Vec<bool> {
    let last = &rows[rows.len() - rows.len().div_ceil(4)..];
    (0..pools)
        .map(|pool| {
            let samples = || last.iter().map(|(_, samples)| samples[pool]);
            let used: u64 = samples().map(|p| p.kv_used).sum();
            let capacity: u64 = samples().map(|p| p.kv_capacity).sum();
            capacity > 0 && used as f64 >= KV_FULL * capacity as f64
        })
        .collect()
}
