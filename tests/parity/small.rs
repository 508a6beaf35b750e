//! A case small enough for pencil and paper, under the same conventions as the published ones.
//!
//! In ms, with L prompt tokens, n sequences and K tokens of context before the step, on one stage:
//!
//! ```text
//! prefill    10 + ΣL + 1 (stage) + 2 (step) + 0.25 ΣL           = 13 + 1.25 ΣL
//! decode n=1  4 + 0.5 (K + 1) + 1 + 2 (step) + 0.25 K           =  7.5 + 0.75 K
//! decode n=2  3 + 0.5 (K + 2) + 2 + 2 (step) + 0.25 K           =  8   + 0.75 K
//! ```
//!
//! A: 4 prompt tokens, 4 output tokens, at 0; B: 8 and 3, at 0; C: 2 and 1, at 10 ms. A prefill step takes two prompts.

use std::sync::Arc;

use pdsim::cluster::{
    Bill, FirstToken, KvReserve, KvSpec, PoolSpec, Preemption, QueueRule, Reservation, Role,
    RoleRule, SkipPrefill, StepLimits, SystemSpec, TransferSpec,
};
use pdsim::latency::polynomial::{Coefficients, DecodeTerms, Polynomial, Terms};
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

use super::cases::Keep;

const COEFFICIENTS: Coefficients = Coefficients {
    prefill: Terms {
        a: 10.0,
        b: 1.0,
        c: 0.0,
    },
    decode: DecodeTerms {
        small: Terms {
            a: 4.0,
            b: 0.5,
            c: 1.0,
        },
        large: Terms {
            a: 3.0,
            b: 0.5,
            c: 1.0,
        },
        large_batch_from: 2,
    },
    prefill_stage_overhead: 1.0,
    step_overhead: 2.0,
    step_overhead_per_token: 0.25,
};

fn pool(role: Role, instances: u32, pp: u32, max_decode_context: Option<u64>) -> PoolSpec {
    PoolSpec {
        name: format!("{role:?}"),
        role,
        instances,
        gpu: "none".to_owned(),
        bill: Bill::default(),
        tp: 1,
        pp,
        dp: 1,
        ep: 1,
        latency: Arc::new(Polynomial::new(COEFFICIENTS).unwrap()),
        multiplex: None,
        batch: BatchRule::PrefillFirst,
        queue: QueueRule::default(),
        limits: StepLimits {
            max_step_tokens: 64,
            max_step_prompts: 2,
            max_seqs: u32::MAX,
            max_decode_context,
            long_prompts: None,
        },
        kv: KvSpec {
            block_tokens: 16,
            blocks: None,
            watermark_blocks: 0,
            bytes_per_token: 0,
            reserve: KvReserve::Paged,
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        },
    }
}

/// TTFT and finish time of A, B and C in ms, in both modes.
fn times(pools: &[PoolSpec]) -> [(f64, f64); 3] {
    let request = |arrival, input_tokens, output_tokens| RequestSpec {
        arrival: SimTime::ZERO + SimDuration::from_ms(arrival),
        input_tokens,
        output_tokens,
        max_output: output_tokens,
        class: 0,
        session: 0,
    };
    let run = |fast_forward| {
        let spec = SystemSpec {
            name: "small".to_owned(),
            pools: pools.to_vec(),
            roles: RoleRule::Fixed,
            prefill_router: RouterRule::LeastQueued,
            decode_router: RouterRule::LeastQueued,
            skip: SkipPrefill::default(),
            reservation: Reservation::AtHandoff,
            first_token: FirstToken::Prefill,
            transfer: TransferSpec::link(SimDuration::ZERO, f64::INFINITY),
            fast_forward,
        };
        let requests = [request(0, 4, 4), request(0, 8, 3), request(10, 2, 1)];
        let mut kept = Keep::default();
        simulate(&spec, requests, Options::default(), &mut kept).unwrap();
        kept.0.sort_by_key(|record| record.id);
        let ms = |at: SimTime| (at - SimTime::ZERO).as_ms_f64();
        [0, 1, 2].map(|i| {
            (
                kept.0[i].ttft().unwrap().as_ms_f64(),
                ms(kept.0[i].last_token),
            )
        })
    };
    let fast = run(true);
    assert!(fast == run(false), "both modes agree to the picosecond");
    fast
}

fn assert_times(pools: &[PoolSpec], expected: [(f64, f64); 3]) {
    for (name, (seen, expected)) in ["A", "B", "C"]
        .iter()
        .zip(times(pools).iter().zip(expected))
    {
        // Every number here is a whole number of microseconds.
        assert!(
            (seen.0 - expected.0).abs() < 1e-6,
            "TTFT of {name}: {} ms, not {}",
            seen.0,
            expected.0
        );
        assert!(
            (seen.1 - expected.1).abs() < 1e-6,
            "{name} ends at {} ms, not {}",
            seen.1,
            expected.1
        );
    }
}

#[test]
fn one_prefill_and_one_decode_instance() {
    // Prefill A + B: 13 + 1.25 · 12 = 28. C waits: 28 + 13 + 2.5 = 43.5.
    // Decode A + B from 28: 8 + 0.75 · 12 = 17, then 8 + 0.75 · 14 = 18.5: B ends at 63.5. A alone: 7.5 + 0.75 · 6 = 12.
    let pools = [
        pool(Role::Prefill, 1, 1, None),
        pool(Role::Decode, 1, 1, None),
    ];
    assert_times(&pools, [(28.0, 75.5), (28.0, 63.5), (33.5, 43.5)]);
}

#[test]
fn a_decode_context_cap_makes_sequences_take_turns() {
    // With a cap of 13, A (4 + 1) and B (8 + 1) never fit together. In turns from 28:
    // A 7.5 + 0.75 · 4 = 10.5 → 38.5, B 7.5 + 0.75 · 8 = 13.5 → 52, A 11.25 → 63.25, B 14.25 → 77.5 (end), A 12 → 89.5.
    let pools = [
        pool(Role::Prefill, 1, 1, None),
        pool(Role::Decode, 1, 1, Some(13)),
    ];
    assert_times(&pools, [(28.0, 89.5), (28.0, 77.5), (33.5, 43.5)]);
}

#[test]
fn the_least_queued_router_spreads_a_batch() {
    // A goes to the first decode instance; it then has one waiting, so B goes to the second.
    // A: 10.5 + 11.25 + 12 from 28. B: 13.5 + 14.25 from 28.
    let pools = [
        pool(Role::Prefill, 1, 1, None),
        pool(Role::Decode, 2, 1, None),
    ];
    assert_times(&pools, [(28.0, 61.75), (28.0, 55.75), (33.5, 43.5)]);
}

#[test]
fn two_prefill_stages_overlap() {
    // A stage takes (10 + ΣL)/2 + 1 · 2, the first one 2 + 0.25 ΣL more. A + B: 18, then 13: done at 31.
    // C: first stage 18 → 28.5, second stage free at 31, 8 → 39. Decoding as in the first case, 3 later.
    let pools = [
        pool(Role::Prefill, 1, 2, None),
        pool(Role::Decode, 1, 1, None),
    ];
    assert_times(&pools, [(31.0, 78.5), (31.0, 66.5), (29.0, 39.0)]);
}

#[test]
fn colocated_prompts_go_first() {
    // C's prompt is computed before the first decode: 28 → 43.5. Then 17 → 60.5, 18.5 → 79 (B), 12 → 91 (A).
    assert_times(
        &[pool(Role::Both, 1, 1, None)],
        [(28.0, 91.0), (28.0, 79.0), (33.5, 43.5)],
    );
}
