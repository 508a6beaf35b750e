//! L1 to L5 on random scenarios, to the end and up to a horizon, in both modes.

use std::sync::Arc;

use pdsim::cluster::{KvReserve, KvSpec, Outcome, Preemption, Role};
use pdsim::latency::fixed::Fixed;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};

use crate::books::Books;
use crate::facts::Facts;
use crate::scenario::Scenario;

fn books(scenario: &Scenario, fast_forward: bool, horizon: Option<SimTime>) -> (Books, SimTime) {
    let spec = scenario.spec_with(fast_forward);
    let mut books = Books::new(&spec, horizon);
    let end = simulate(
        &spec,
        scenario.requests.iter().copied(),
        Options {
            seed: 1,
            horizon,
            ..Options::default()
        },
        &mut books,
    );
    books.assert_closed();
    (books, end.unwrap())
}

#[test]
fn l1_to_l5_hold_to_the_end() {
    for seed in 0..500 {
        let scenario = Scenario::random(4_000_000 + seed);
        let (books, _) = books(&scenario, seed % 2 == 0, None);
        assert_eq!(
            books.records.len(),
            scenario.requests.len(),
            "L1, seed {seed}"
        );
    }
}

#[test]
fn l1_to_l5_hold_up_to_a_horizon() {
    for seed in 0..300 {
        let scenario = Scenario::random(4_100_000 + seed);
        let (_, end) = books(&scenario, true, None);
        let horizon = SimTime::from_ps(end.as_ps() / 10 * (seed % 10));
        let (books, stopped) = books(&scenario, seed % 2 == 0, Some(horizon));
        assert!(stopped <= horizon);
        let arrived = scenario
            .requests
            .iter()
            .filter(|r| r.arrival <= horizon)
            .count();
        assert_eq!(books.records.len(), arrived, "L1, seed {seed}");
    }
}

#[test]
fn tokens_balance() {
    // Each output token but the first of a request ends one gap; each comes from a prompt or from a decode.
    for seed in 4_200_000..4_200_300 {
        let mut scenario = Scenario::random(seed);
        for pool in &mut scenario.spec.pools {
            pool.kv.preemption = Preemption::Recompute;
        }
        let (books, _) = books(&scenario, true, None);
        let done = books.records.iter().filter(|r| r.outcome == Outcome::Done);
        let gaps: u64 = done.clone().map(|r| u64::from(r.output_tokens) - 1).sum();
        assert_eq!(books.gaps, gaps, "seed {seed}");
        let inputs: u64 = done.clone().map(|r| u64::from(r.input_tokens)).sum();
        let outputs: u64 = done.clone().map(|r| u64::from(r.output_tokens)).sum();
        let preemptions: u64 = done.clone().map(|r| u64::from(r.preemptions)).sum();
        let by_prompt = done.filter(|r| r.first_token == r.prefill_end).count() as u64;
        if preemptions == 0 {
            assert_eq!(books.computed, inputs, "seed {seed}");
        } else {
            assert!(
                books.computed > inputs,
                "seed {seed}: what was lost is computed again"
            );
        }
        // A recomputed prompt emits a token too, so each preemption saves a decode.
        assert_eq!(
            books.decoded + by_prompt + preemptions,
            outputs,
            "seed {seed}"
        );
    }
}

#[test]
fn swapping_computes_nothing_again() {
    let mut preemptions = 0;
    for seed in 4_300_000..4_300_700 {
        let mut scenario = Scenario::random(seed);
        for pool in &mut scenario.spec.pools {
            pool.kv.preemption = Preemption::Swap { bytes_per_sec: 1e6 };
            if pool.kv.reserve == KvReserve::OracleAtDecode {
                // Prompts that wait for each other's memory are computed again.
                pool.kv.reserve = KvReserve::Oracle;
            }
        }
        let (books, _) = books(&scenario, seed % 2 == 0, None);
        let done = books.records.iter().filter(|r| r.outcome == Outcome::Done);
        let inputs: u64 = done.clone().map(|r| u64::from(r.input_tokens)).sum();
        let outputs: u64 = done.clone().map(|r| u64::from(r.output_tokens)).sum();
        preemptions += done.clone().map(|r| u64::from(r.preemptions)).sum::<u64>();
        let by_prompt = done.filter(|r| r.first_token == r.prefill_end).count() as u64;
        assert_eq!(books.computed, inputs, "seed {seed}");
        assert_eq!(books.decoded + by_prompt, outputs, "seed {seed}");
    }
    assert!(preemptions > 1000, "put to the test: {preemptions}");
}

#[test]
fn l4_samples_count_the_blocks_of_the_step_in_progress() {
    // One request, blocks of one token, decode steps of 20 ms: during the i-th decode step it holds its prompt and i tokens.
    let mut scenario = Scenario::random(0);
    scenario.requests.truncate(1);
    let request = &mut scenario.requests[0];
    (request.arrival, request.input_tokens, request.output_tokens) = (SimTime::ZERO, 9, 30);
    scenario.spec.pools.truncate(1);
    let pool = &mut scenario.spec.pools[0];
    (pool.role, pool.instances, pool.pp) = (Role::Both, 1, 1);
    pool.limits.max_step_tokens = 64;
    let (prefill, decode) = (SimDuration::from_ms(10), SimDuration::from_ms(20));
    pool.latency = Arc::new(Fixed {
        prefill,
        decode,
        ..Fixed::default()
    });
    pool.kv = KvSpec {
        block_tokens: 1,
        blocks: Some(50),
        watermark_blocks: 0,
        bytes_per_token: 0,
        reserve: KvReserve::Paged,
        preemption: Preemption::Recompute,
        prefix_cache: false,
        cpu_cache: None,
    };
    for fast_forward in [true, false] {
        let facts = Facts::of(&scenario, fast_forward, None);
        assert_eq!(
            facts.samples.len(),
            118,
            "every 5 ms of 10 + 29 × 20 ms, the last instant not counted"
        );
        for (now, pools) in &facts.samples {
            let ms = now.as_ps() / 1_000_000_000;
            let steps = if ms < 10 { 0 } else { (ms - 10) / 20 + 1 };
            assert_eq!(pools[0].kv_used, 9 + steps, "L4 at {ms} ms");
        }
        assert_eq!(
            facts.kv_peak.values().max(),
            Some(&(9 + 29)),
            "L4: the last token is not stored"
        );
    }
}
