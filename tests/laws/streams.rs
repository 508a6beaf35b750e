//! Two streams that never meet are one engine.

use pdsim::policy::batch::BatchRule;
use pdsim::units::{SimDuration, SimTime};

use crate::facts::Facts;
use crate::scenario::Scenario;

/// Multiplexed scenarios from `seed` on whose idle streams lend their SMs, with the same requests on colocated instances.
fn pairs(seed: u64, count: usize, change: impl Fn(&mut Scenario)) -> Vec<(Scenario, Scenario)> {
    (seed..)
        .filter_map(|seed| {
            let mut multiplexed = Scenario::random(seed).multiplexed(seed)?;
            let pool = &mut multiplexed.spec.pools[0];
            let streams = pool.multiplex.as_mut()?;
            (streams.prefill[0], streams.decode[0]) = (pool.latency.clone(), pool.latency.clone());
            pool.batch = BatchRule::SharedSm { chunks: false };
            change(&mut multiplexed);
            let mut colocated = multiplexed.clone();
            let pool = &mut colocated.spec.pools[0];
            (pool.batch, pool.multiplex) = (BatchRule::PrefillFirst, None);
            Some((multiplexed, colocated))
        })
        .take(count)
        .collect()
}

fn assert_equal(multiplexed: &Scenario, colocated: &Scenario) {
    let [a, b] = [multiplexed, colocated].map(|scenario| Facts::of(scenario, true, None));
    assert_eq!(a.difference(&b), None, "{}", multiplexed.spec.name);
}

#[test]
fn prompts_alone_take_the_steps_of_a_colocated_engine() {
    let prompts_only = |scenario: &mut Scenario| {
        for request in &mut scenario.requests {
            (request.output_tokens, request.max_output) = (1, 1);
        }
    };
    for (multiplexed, colocated) in pairs(9_000_000, 150, prompts_only) {
        assert_equal(&multiplexed, &colocated);
    }
}

#[test]
fn requests_one_at_a_time_take_the_steps_of_a_colocated_engine() {
    let one_by_one = |scenario: &mut Scenario| {
        for (i, request) in scenario.requests.iter_mut().enumerate() {
            request.arrival = SimTime::from_ps(1_000_000_000_000_000 * i as u64);
        }
    };
    for (multiplexed, colocated) in pairs(9_100_000, 150, one_by_one) {
        assert_equal(&multiplexed, &colocated);
    }
}

#[test]
fn decodes_alone_take_the_steps_of_a_colocated_engine() {
    // All prompts in one step, then nothing but decodes: preemptions apart, which bring prompts back.
    let batch = |scenario: &mut Scenario| {
        let limits = &mut scenario.spec.pools[0].limits;
        (limits.max_step_tokens, limits.max_step_prompts) = (u32::MAX, u32::MAX);
        (limits.max_seqs, limits.long_prompts) = (u32::MAX, None);
        scenario.spec.pools[0].kv.blocks = None;
        for request in &mut scenario.requests {
            request.arrival = SimTime::ZERO + SimDuration::from_ms(1);
        }
    };
    for (multiplexed, colocated) in pairs(9_200_000, 150, batch) {
        assert_equal(&multiplexed, &colocated);
    }
}
