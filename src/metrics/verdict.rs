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
//! **Closed loops.** A client that sends whenever it may cannot overload anything: the state is *closed*. A client that
//! keeps a plan within a limit of requests in flight hides growth in its own queue, so the growth of its wait is judged
//! beside that of N, and the worse one counts.
//!
//! **Bottleneck**, for systems that are not stable: the stage whose population grew most between the first and the
//! last quarter of those samples, and then the resource this stage waits for: the GPUs when they are always busy with
//! prompts, the link when it is always sending, KV blocks when those of a decoding pool are (nearly) all taken or
//! sequences are preempted for them, otherwise an admission limit. Where a client bounds N nothing
//! grows: the stage is the queue with most requests, or, when less than a tenth of all requests wait in queues, whatever most
//! requests are busy with.

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

/// Share of a bounded number of requests from which their queues say what holds them.
const LEAST_QUEUED: f64 = 0.1;

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
        return closed(evidence, growth, &in_window[from..], &full);
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

/// The verdict on a system whose client bounds the number in it.
fn closed(
    evidence: &Evidence<'_>,
    inside: Growth,
    rows: &[(&Point, &[PoolSample])],
    full: &[bool],
) -> Verdict {
    let held = evidence.held_back;
    let (state, growth) = if evidence.client.is_saturating() {
        (State::Closed, Growth::default())
    } else if classify(held) > classify(inside) {
        (classify(held), held)
    } else {
        (classify(inside), inside)
    };
    let quarters = rows.len().div_ceil(4);
    let most = mean_stages(&rows[quarters.min(rows.len().saturating_sub(1))..]);
    Verdict {
        state,
        bottleneck: (state != State::Stable).then(|| holding(evidence, most, full)),
        piling_up: positive(growth.share),
        growth_sigmas: growth.sigmas,
    }
}

/// A share; what fell piles up nowhere.
fn positive(share: f64) -> f64 {
    if share > 0.0 { share } else { 0.0 }
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

/// What holds most of a bounded number of requests, by their mean number in each stage.
fn holding(evidence: &Evidence<'_>, most: Stages, full: &[bool]) -> Bottleneck {
    let queues = Stages {
        prefilling: 0.0,
        decoding: 0.0,
        ..most
    };
    if queued(queues) < LEAST_QUEUED * total(most) {
        return if most.prefilling > most.decoding {
            Bottleneck::PrefillCompute
        } else {
            Bottleneck::DecodeBandwidth
        };
    }
    match bottleneck(evidence, Stages::default(), queues, full) {
        // Nobody limits what a busy GPU takes in: prompts wait for the work that fills its time.
        Bottleneck::Admission => busiest(evidence).unwrap_or(Bottleneck::Admission),
        other => other,
    }
}

/// The phase that fills the time of the busiest pool of both roles, if one is saturated.
fn busiest(evidence: &Evidence<'_>) -> Option<Bottleneck> {
    let both = evidence
        .roles
        .iter()
        .zip(evidence.pools)
        .filter(|(role, pool)| **role == Role::Both && pool.busy >= SATURATED)
        .map(|(_, pool)| pool)
        .max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    let prompts = both.busy_prefill + both.busy_mixed;
    Some(if prompts >= both.busy_decode {
        Bottleneck::PrefillCompute
    } else {
        Bottleneck::DecodeBandwidth
    })
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
    match role {
        Role::Prefill | Role::Decode if saturated => Bottleneck::PrefillCompute,
        // With GPUs to spare, prompts wait for what holds their KV blocks: finished ones that cannot leave.
        Role::Prefill | Role::Decode => hand_off(evidence, kv),
        Role::Both if kv => Bottleneck::DecodeKv,
        Role::Both if saturated && prompts >= 0.5 * pool.busy => Bottleneck::PrefillCompute,
        // GPUs with time to spare, or busy with decodes while blocks are left: a limit keeps prompts out.
        Role::Both => Bottleneck::Admission,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Load, simulate};

    /// States of M/M/1 runs of `requests` at `load` over 40 seeds: stable, backlogged, overloaded.
    fn mm1(load: f64, requests: u32) -> [u32; 3] {
        const OPEN: [State; 3] = [State::Stable, State::Backlogged, State::Overloaded];
        let mut states = [0; 3];
        for seed in 0..40 {
            let metrics = simulate(&Load::mm1(load, requests), seed);
            let state = metrics.verdict.state;
            let place = OPEN.iter().position(|&open| open == state);
            states[place.expect("an open loop is none of the others")] += 1;
        }
        states
    }

    #[test]
    fn mm1_at_half_load_is_stable() {
        for requests in [100, 300, 3000] {
            let [stable, _, overloaded] = mm1(0.5, requests);
            assert!(
                stable >= 38 && overloaded == 0,
                "{requests}: {stable}, {overloaded}"
            );
        }
    }

    #[test]
    fn mm1_at_nine_tenths_is_not_overloaded() {
        for requests in [200, 1000, 5000] {
            let [stable, backlogged, overloaded] = mm1(0.9, requests);
            assert!(
                stable >= 34,
                "{requests}: {stable} {backlogged} {overloaded}"
            );
            assert!(
                overloaded <= 1,
                "{requests}: {stable} {backlogged} {overloaded}"
            );
        }
    }

    #[test]
    fn mm1_beyond_capacity_is_overloaded_and_a_short_run_at_least_backlogged() {
        assert_eq!(mm1(1.2, 3000), [0, 0, 40]);
        let [stable, backlogged, overloaded] = mm1(1.5, 200);
        assert!(stable <= 3, "{stable} {backlogged} {overloaded}");
    }

    #[test]
    fn bursts_below_capacity_are_not_overload() {
        let mut overloaded = 0;
        for seed in 0..40 {
            let load = Load {
                burst: 50,
                ..Load::mm1(0.6, 3000)
            };
            overloaded += u32::from(simulate(&load, seed).verdict.state == State::Overloaded);
        }
        assert!(overloaded <= 1, "{overloaded} of 40");
    }

    #[test]
    fn a_decode_batch_that_fills_is_not_overload() {
        // 1000 requests inside at rest, which the run needs two thirds of its length to reach.
        let load = Load {
            output_tokens: 1001,
            tpot_ms: 20.0,
            ..Load::mm1(0.5, 1500)
        };
        for seed in 0..10 {
            let metrics = simulate(&load, seed);
            assert_ne!(
                metrics.verdict.state,
                State::Overloaded,
                "{:?}",
                metrics.verdict
            );
        }
    }

    #[test]
    fn a_number_that_falls_piles_up_nowhere() {
        // A hundred inside at first, twenty at the end.
        let pools = [pool("both", 0.2, 0.2, 0.0)];
        let falls = |i| (i + 100, i + i / 10);
        let seen = counted(&pools, 50, |_, _| (), falls);
        assert!(seen.growth_sigmas < -3.0, "{seen:?}");
        assert_eq!(seen.piling_up.to_bits(), 0.0_f64.to_bits(), "{seen:?}");
    }

    #[test]
    fn an_overloaded_prefill_server_is_named() {
        let metrics = simulate(&Load::mm1(1.3, 2000), 7);
        assert_eq!(metrics.verdict.bottleneck, Some(Bottleneck::PrefillCompute));
        assert!(
            (metrics.verdict.piling_up - (1.0 - 1.0 / 1.3)).abs() < 0.06,
            "{:?}",
            metrics.verdict
        );
    }

    /// A pool for the bottleneck tests.
    fn pool(
        role: &'static str,
        busy_prefill: f64,
        busy_decode: f64,
        link_busy: f64,
    ) -> PoolMetrics {
        PoolMetrics {
            name: role.to_owned(),
            role,
            gpu: "toy".to_owned(),
            instances: 1,
            gpus: 1,
            busy: busy_prefill + busy_decode,
            busy_prefill,
            busy_decode,
            busy_mixed: 0.0,
            streams: false,
            steps: 1,
            mean_decode_batch: None,
            mean_prefill_batch: None,
            kv_peak_blocks: 0,
            kv_capacity_blocks: Some(100),
            kv_mean: None,
            link_busy,
            held_tokens: 0,
            preemptions: 0,
            role_switches: 0,
            role_shares: [0.0; 4],
            prefix: None,
        }
    }

    /// The verdict when one population grows by one request in ten arrivals.
    fn grown(pools: &[PoolMetrics], kv_used: u64, grow: fn(&mut [PoolSample], u64)) -> Verdict {
        counted(pools, kv_used, grow, |i| (i, i - i / 10))
    }

    /// The verdict on 800 samples with so many requests arrived and ended at each.
    fn counted(
        pools: &[PoolMetrics],
        kv_used: u64,
        grow: fn(&mut [PoolSample], u64),
        counts: fn(u64) -> (u64, u64),
    ) -> Verdict {
        let roles: Vec<Role> = pools
            .iter()
            .map(|p| match p.role {
                "prefill" => Role::Prefill,
                "decode" => Role::Decode,
                _ => Role::Both,
            })
            .collect();
        let mut series = Series::new(pools.len());
        for i in 0..800_u64 {
            let mut samples = vec![PoolSample::default(); pools.len()];
            grow(&mut samples, i / 10);
            let last = samples.last_mut().unwrap();
            (last.kv_used, last.kv_capacity) = (kv_used, 100);
            let time = series.next();
            let (arrived, ended) = counts(i);
            series.push(
                Point {
                    time,
                    arrived,
                    ended,
                },
                &samples,
            );
        }
        verdict(&Evidence {
            series: &series,
            window: (SimTime::ZERO, series.points().last().unwrap().time),
            roles: &roles,
            pools,
            link_busy: 0.0,
            mean_e2e_s: None,
            preempting: false,
            client: Client::Open,
            held_back: Growth::default(),
        })
    }

    #[test]
    fn the_bottleneck_is_what_the_growing_stage_waits_for() {
        use Bottleneck::{Admission, DecodeBandwidth, DecodeKv, PrefillCompute, TransferLink};
        let split = |busy, link| {
            [
                pool("prefill", busy, 0.0, link),
                pool("decode", 0.0, 1.0, 0.0),
            ]
        };
        let both = |prefill, decode| [pool("both", prefill, decode, 0.0)];
        let waiting: fn(&mut [PoolSample], u64) = |s, n| s[0].waiting = n;
        let handing: fn(&mut [PoolSample], u64) = |s, n| s[0].handing_off = n;
        let decoding: fn(&mut [PoolSample], u64) = |s, n| s.last_mut().unwrap().decoding = n;
        let held: fn(&mut [PoolSample], u64) = |_, _| ();
        for (pools, kv, grow, expected) in [
            (&split(1.0, 0.1)[..], 50, waiting, PrefillCompute),
            (&split(0.3, 0.1), 99, waiting, DecodeKv),
            (&split(0.3, 1.0), 50, waiting, TransferLink),
            (&split(0.3, 0.1), 99, handing, DecodeKv),
            (&split(0.3, 1.0), 99, handing, TransferLink),
            (&split(0.3, 0.1), 50, handing, Admission),
            (&split(0.3, 0.1), 50, decoding, DecodeBandwidth),
            (&both(0.8, 0.2), 50, waiting, PrefillCompute),
            (&both(0.2, 0.8), 99, waiting, DecodeKv),
            (&both(0.2, 0.8), 50, waiting, Admission),
            (&both(0.2, 0.8), 50, decoding, DecodeBandwidth),
            (&both(0.2, 0.3), 50, held, Admission),
        ] {
            let seen = grown(pools, kv, grow);
            assert_eq!(seen.state, State::Overloaded);
            assert_eq!(seen.bottleneck, Some(expected), "{pools:?} {kv}");
        }
    }

    #[test]
    fn a_bounded_number_of_requests_is_held_by_its_queue_or_by_its_work() {
        use Bottleneck::{DecodeBandwidth, DecodeKv, PrefillCompute};
        let split = [
            pool("prefill", 0.95, 0.0, 0.1),
            pool("decode", 0.0, 1.0, 0.0),
        ];
        let both = |prefill, decode| [pool("both", prefill, decode, 0.0)];
        let stages = |waiting, prefilling, decoding| Stages {
            waiting,
            prefilling,
            decoding,
            ..Stages::default()
        };
        let held = |pools: &[PoolMetrics], most, full: &[bool]| {
            let roles: Vec<Role> = match pools.len() {
                1 => vec![Role::Both],
                _ => vec![Role::Prefill, Role::Decode],
            };
            let evidence = Evidence {
                series: &Series::new(pools.len()),
                window: (SimTime::ZERO, SimTime::ZERO),
                roles: &roles,
                pools,
                mean_e2e_s: None,
                link_busy: 0.0,
                preempting: false,
                client: Client::Closed {
                    concurrency: 100,
                    paced: false,
                },
                held_back: Growth::default(),
            };
            holding(&evidence, most, full)
        };
        let room = [false, false];
        // Long decodes hold most requests, but what the queue waits for is prefill.
        assert_eq!(held(&split, stages(20.0, 2.0, 78.0), &room), PrefillCompute);
        assert_eq!(held(&split, stages(2.0, 2.0, 96.0), &room), DecodeBandwidth);
        assert_eq!(held(&split, stages(2.0, 60.0, 38.0), &room), PrefillCompute);
        assert_eq!(
            held(&both(0.3, 0.7), stages(50.0, 1.0, 49.0), &[false]),
            DecodeBandwidth
        );
        assert_eq!(
            held(&both(0.3, 0.7), stages(50.0, 1.0, 49.0), &[true]),
            DecodeKv
        );
        assert_eq!(
            held(&both(0.6, 0.4), stages(50.0, 1.0, 49.0), &[false]),
            PrefillCompute
        );
    }

    #[test]
    fn too_few_points_show_no_growth() {
        assert_eq!(growth(&[]), Growth::default());
        assert_eq!(classify(Growth::default()), State::Stable);
    }
}
