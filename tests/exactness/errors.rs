//! What cannot be simulated ends in an error or a rejection, in both modes.

use std::sync::Arc;

use pdsim::cluster::{Outcome, Preemption, RejectReason, Reservation, SkipPrefill};
use pdsim::latency::fixed::Fixed;
use pdsim::sim::{Error, Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

use crate::facts::Facts;
use crate::scenario::Scenario;

/// A random scenario of one colocated instance with unlimited memory.
fn simple() -> Scenario {
    let fits = |s: &Scenario| {
        let pool = &s.spec.pools[0];
        s.spec.pools.len() == 1
            && pool.kv.blocks.is_none()
            && pool.instances == 1
            && s.requests.len() > 10
    };
    (0..).map(Scenario::random).find(fits).unwrap()
}

#[test]
fn nothing_ever_stalls() {
    // Tight memory, caps and budgets of one token: whatever is admitted must be able to move.
    for seed in 3_000_000..3_002_000 {
        let scenario = Scenario::random(seed);
        let facts = Facts::of(&scenario, true, None);
        assert!(
            matches!(facts.end, Some(Ok(_))),
            "seed {seed}: {:?}",
            facts.end
        );
        assert_eq!(facts.records.len(), scenario.requests.len());
    }
}

#[test]
fn limits_that_admit_nothing_end_in_an_error_that_names_the_first_request() {
    let mut scenario = simple();
    scenario.spec.pools[0].limits.max_seqs = 0;
    for fast_forward in [true, false] {
        let end = Facts::of(&scenario, fast_forward, None).end.unwrap();
        let Err(error @ Error::Stalled { .. }) = end else {
            panic!("a run without seats must stall, not end with {end:?}");
        };
        let text = error.to_string();
        assert!(text.contains("has unlimited KV memory and 0 of 0 sequences; request 0 waits for a place on instance 0"), "{text}");
        let Error::Stalled {
            stuck,
            first,
            stall,
            ..
        } = error
        else {
            unreachable!("it was a stall above")
        };
        assert_eq!((stuck, first.as_str()), (scenario.requests.len(), "0"));
        assert_eq!(stall.waits.len(), stuck);
    }
}

/// Three prompts whose decode instance admits nobody: those that are done keep their blocks on the prefill instance until it is full.
fn clogged() -> Scenario {
    let mut scenario = (0..)
        .map(Scenario::random)
        .find(|s| {
            let shape = s.spec.pools.len() == 2 && s.spec.skip == SkipPrefill::default();
            shape && s.spec.pools[0].pp == 1 && s.spec.reservation == Reservation::AtHandoff
        })
        .unwrap();
    let like = scenario.requests[0];
    scenario.requests = vec![
        RequestSpec {
            input_tokens: 8,
            output_tokens: 5,
            max_output: 5,
            session: 0,
            ..like
        };
        3
    ];
    let prefill = &mut scenario.spec.pools[0];
    prefill.instances = 1;
    prefill.limits.max_seqs = 8;
    prefill.limits.long_prompts = None;
    prefill.kv.block_tokens = 4;
    prefill.kv.blocks = Some(5);
    prefill.kv.watermark_blocks = 0;
    scenario.spec.pools[1].instances = 1;
    scenario.spec.pools[1].limits.max_seqs = 0;
    scenario.spec.pools[1].kv.blocks = None;
    scenario.spec.pools[1].kv.preemption = Preemption::Recompute;
    scenario
}

#[test]
fn a_stall_names_who_holds_the_memory_and_who_waits_for_it() {
    let scenario = clogged();
    for fast_forward in [true, false] {
        let end = Facts::of(&scenario, fast_forward, None).end.unwrap();
        let Err(Error::Stalled { stuck, stall, .. }) = end else {
            panic!("{end:?}");
        };
        assert_eq!(stuck, 3);
        let holds: Vec<_> = stall
            .holds
            .iter()
            .map(|h| (h.id.index(), h.blocks))
            .collect();
        assert_eq!(holds, [(0, 2), (1, 2)]);
        let waits: Vec<_> = stall
            .waits
            .iter()
            .map(|w| (w.id.index(), w.instance.index(), w.blocks))
            .collect();
        assert_eq!(waits, [(2, 0, Some(2)), (0, 1, None), (1, 1, None)]);
        let text = stall.to_string();
        assert!(
            text.contains("instance 0 of pool `prefill` has 1 KV blocks free"),
            "{text}"
        );
        assert!(
            text.contains("request 2 waits for 2 KV blocks on instance 0"),
            "{text}"
        );
        assert!(
            text.contains("request 0 holds 2 KV blocks on instance 0"),
            "{text}"
        );
    }
}

#[test]
fn early_reservation_with_returns_to_prefill_is_refused() {
    let mut scenario = (0..)
        .map(Scenario::random)
        .find(|s| s.spec.pools.len() > 1)
        .unwrap();
    scenario.spec.reservation = Reservation::Early;
    let decode = scenario.spec.pools.last_mut().unwrap();
    decode.kv.preemption = Preemption::ReturnToPrefill;
    let end = Facts::of(&scenario, true, None).end.unwrap();
    assert!(matches!(end, Err(Error::Contradiction(_))), "{end:?}");
}

#[test]
fn a_request_that_no_pool_can_hold_is_refused_at_arrival_and_disturbs_nobody() {
    for seed in 3_100_000..3_100_300 {
        let scenario = Scenario::random(seed);
        if scenario
            .spec
            .pools
            .iter()
            .any(|pool| pool.kv.blocks.is_none())
        {
            continue;
        }
        let alone = Facts::of(&scenario, true, None);
        let mut with = scenario.clone();
        let at = with.requests.len() / 2;
        let too_large = RequestSpec {
            input_tokens: 1_000_000,
            ..with.requests[at]
        };
        with.requests.insert(at, too_large);
        let facts = Facts::of(&with, true, None);
        let mut refused = 0;
        let mut others = facts.records.clone();
        others.retain(|record| {
            let out = record.id.index() == at;
            refused += usize::from(
                out && record.outcome == Outcome::Rejected(RejectReason::LargerThanKvPool),
            );
            !out
        });
        assert_eq!(refused, 1, "seed {seed}");
        for (record, expected) in others.iter().zip(&alone.records) {
            let mut record = *record;
            record.id = expected.id;
            assert_eq!(record, *expected, "seed {seed}");
        }
        assert_eq!(others.len(), alone.records.len());
    }
}

#[test]
fn arrivals_out_of_order_are_an_error() {
    let mut scenario = simple();
    scenario.requests[4].arrival = SimTime::ZERO + SimDuration::from_ms(90_000);
    for fast_forward in [true, false] {
        let spec = scenario.spec_with(fast_forward);
        let requests = scenario.requests.iter().copied();
        let end = simulate(&spec, requests, Options::default(), &mut ());
        assert_eq!(end, Err(Error::Unordered(5)));
    }
}

#[test]
fn a_clock_that_runs_out_is_an_error() {
    let mut scenario = simple();
    // Two prompts of 120 days do not fit 213 days one after the other.
    scenario.requests.truncate(2);
    let pool = &mut scenario.spec.pools[0];
    pool.pp = 1;
    pool.limits.max_step_prompts = 1;
    pool.latency = Arc::new(Fixed {
        prefill: SimDuration::from_ms(120 * 86_400_000),
        ..Fixed::default()
    });
    for fast_forward in [true, false] {
        let end = Facts::of(&scenario, fast_forward, None).end.unwrap();
        assert_eq!(end, Err(Error::ClockOverflow));
    }
}
