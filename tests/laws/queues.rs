//! Queue orders: who goes first, and how far that may be unfair.

use std::sync::Arc;

use pdsim::cluster::{LongPrompts, QueueOrder, QueueRule, RequestRecord};
use pdsim::latency::fixed::Fixed;
use pdsim::policy::batch::BatchRule;
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

use crate::facts::Facts;
use crate::scenario::Scenario;

/// One colocated instance that computes one prompt at a time, 1 ms per token.
fn one_at_a_time(rule: QueueRule, prompts: &[(u64, u32, u16)]) -> Scenario {
    let mut scenario = (0..)
        .map(Scenario::random)
        .find(|s| s.spec.pools.len() == 1)
        .expect("nearly half of them have one pool");
    let pool = &mut scenario.spec.pools[0];
    (pool.instances, pool.pp) = (1, 1);
    pool.batch = BatchRule::PrefillFirst;
    pool.multiplex = None;
    pool.queue = rule;
    pool.limits.max_step_prompts = 1;
    pool.limits.max_step_tokens = u32::MAX;
    pool.limits.max_seqs = u32::MAX;
    pool.limits.long_prompts = None;
    pool.kv.blocks = None;
    pool.latency = Arc::new(Fixed {
        prefill_per_token: SimDuration::from_ms(1),
        ..Fixed::default()
    });
    scenario.requests = prompts
        .iter()
        .map(|&(at, input_tokens, class)| RequestSpec {
            arrival: SimTime::ZERO + SimDuration::from_ms(at),
            input_tokens,
            output_tokens: 1,
            max_output: 1,
            class,
            session: 0,
        })
        .collect();
    scenario
}

/// Numbers of the requests in the order in which their prompts began.
fn served(scenario: &Scenario) -> Vec<usize> {
    let mut records = Facts::of(scenario, true, None).records;
    records.sort_by_key(|r| r.prefill_start);
    records.iter().map(|r| r.id.index()).collect()
}

fn rule(order: QueueOrder, most_passes: Option<u32>) -> QueueRule {
    QueueRule { order, most_passes }
}

#[test]
fn each_order_serves_as_it_says() {
    // The first one is in service while the others arrive.
    let prompts = [(0, 50, 0), (1, 30, 2), (2, 10, 1), (3, 20, 0), (4, 10, 2)];
    let order = |order| served(&one_at_a_time(rule(order, None), &prompts));
    assert_eq!(order(QueueOrder::Fcfs), [0, 1, 2, 3, 4]);
    assert_eq!(order(QueueOrder::ShortestPrompt), [0, 2, 4, 3, 1]);
    assert_eq!(order(QueueOrder::Priority), [0, 3, 2, 1, 4]);
    // Class 2 first, then class 0, and class 1, which has no rank, last.
    let ranks = [1, 2, 0].into();
    assert_eq!(order(QueueOrder::Ranked(ranks)), [0, 1, 4, 3, 2]);
    assert_eq!(order(QueueOrder::Ranked([0].into())), [0, 3, 1, 2, 4]);
    // Deadlines 101, 22, 103, 104 ms of numbers 1 to 4.
    let promises = [100, 20, 100].map(SimDuration::from_ms);
    let deadlines = QueueOrder::EarliestDeadline(promises.into());
    assert_eq!(order(deadlines), [0, 2, 1, 3, 4]);
}

#[test]
fn a_prompt_that_was_passed_often_enough_is_not_passed_again() {
    let prompts = [(0, 50, 0), (1, 30, 0), (2, 10, 0), (3, 10, 0), (4, 10, 0)];
    let order = |most| {
        served(&one_at_a_time(
            rule(QueueOrder::ShortestPrompt, most),
            &prompts,
        ))
    };
    assert_eq!(order(None), [0, 2, 3, 4, 1]);
    assert_eq!(order(Some(2)), [0, 2, 3, 1, 4]);
    assert_eq!(order(Some(0)), [0, 1, 2, 3, 4]);
}

#[test]
fn no_prompt_is_passed_more_often_than_the_bound_lets() {
    let (mut passed, mut at_bound) = (0, 0);
    for seed in 11_000_000..11_000_300 {
        let mut scenario = Scenario::random(seed);
        let bound = u32::try_from(seed % 4).expect("below 4");
        for pool in &mut scenario.spec.pools {
            pool.queue = rule(QueueOrder::ShortestPrompt, Some(bound));
            pool.limits.long_prompts = None;
            // Preempted sequences go in front of everybody.
            pool.kv.blocks = None;
        }
        let records = Facts::of(&scenario, true, None).records;
        let later = |r: &RequestRecord| {
            let passes = |s: &&RequestRecord| {
                s.prefill_instance == r.prefill_instance
                    && (s.routed, s.id) > (r.routed, r.id)
                    && s.prefill_start < r.prefill_start
            };
            records.iter().filter(passes).count()
        };
        for record in &records {
            let count = later(record);
            assert!(
                count <= bound as usize,
                "seed {seed}: {count} passed {record:?}"
            );
            passed += usize::from(count > 0);
            at_bound += usize::from(count > 0 && count == bound as usize);
        }
    }
    assert!(
        passed > 200 && at_bound > 50,
        "put to the test: {passed}, {at_bound}"
    );
}

#[test]
fn a_cap_of_long_prompts_lets_short_ones_pass() {
    let prompts = [(0, 50, 0), (1, 40, 0), (1, 40, 0), (1, 5, 0), (1, 5, 0)];
    let mut scenario = one_at_a_time(QueueRule::default(), &prompts);
    scenario.spec.pools[0].limits.max_step_prompts = 3;
    let starts = |scenario: &Scenario| {
        let mut records = Facts::of(scenario, true, None).records;
        records.sort_by_key(|r| r.id);
        let start = |r: &RequestRecord| (r.prefill_start - SimTime::ZERO).as_ms_f64().round();
        records.iter().map(start).collect::<Vec<_>>()
    };
    // Without a cap the step at 50 ms takes both long prompts and one short one: 85 ms.
    assert_eq!(starts(&scenario), [0.0, 50.0, 50.0, 50.0, 135.0]);
    scenario.spec.pools[0].limits.long_prompts = Some(LongPrompts {
        above: 10,
        most: 1,
        interrupts: true,
    });
    assert_eq!(starts(&scenario), [0.0, 50.0, 100.0, 50.0, 50.0]);
}
