//! Verdicts on loads whose answer is known.

use super::closed::holding;
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
fn pool(role: &'static str, busy_prefill: f64, busy_decode: f64, link_busy: f64) -> PoolMetrics {
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
    // Instances of the prefill pool that decode for most of their time: roles change.
    let moved = [
        pool("prefill", 0.05, 0.93, 0.0),
        pool("decode", 0.0, 1.0, 0.0),
    ];
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
        (&moved, 99, waiting, DecodeKv),
        (&moved, 50, waiting, Admission),
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
    let moved = [
        pool("prefill", 0.05, 0.93, 0.0),
        pool("decode", 0.0, 1.0, 0.0),
    ];
    assert_eq!(
        held(&moved, stages(50.0, 1.0, 49.0), &room),
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
