//! Fast-forward against stepping.

use pdsim::units::SimTime;
use pdsim::workload::RequestSpec;

use crate::facts::Facts;
use crate::scenario::Scenario;
use crate::shrink::holds;

/// Scenarios per test.
const SCENARIOS: u64 = 400;

#[test]
fn fast_forward_and_stepping_tell_the_same_facts() {
    for seed in 0..SCENARIOS {
        holds(&Scenario::random(seed), |scenario| {
            let stepping = Facts::of(scenario, false, None);
            Facts::of(scenario, true, None).difference(&stepping)
        });
    }
}

#[test]
fn a_run_cut_at_the_horizon_is_cut_alike() {
    for seed in 0..SCENARIOS {
        let scenario = Scenario::random(1_000_000 + seed);
        let end = Facts::of(&scenario, true, None).end.unwrap().unwrap();
        for eighths in [1, 3, 6] {
            // The middle one on the 5 ms grid, where step ends are.
            let at = end.as_ps() / 8 * eighths;
            let grid = 5_000_000_000;
            let horizon = SimTime::from_ps(if eighths == 3 { at / grid * grid } else { at });
            holds(&scenario, |scenario| {
                let stepping = Facts::of(scenario, false, Some(horizon));
                Facts::of(scenario, true, Some(horizon)).difference(&stepping)
            });
        }
    }
}

#[test]
fn long_outputs_and_many_requests_agree_as_well() {
    for seed in 1_500_000..1_500_012 {
        let mut scenario = Scenario::random(seed);
        // Waves of the same requests, with outputs of up to some thousand tokens.
        let wave = scenario.requests.clone();
        let span = wave[wave.len() - 1].arrival - SimTime::ZERO;
        for i in 1..6 {
            scenario
                .requests
                .extend(wave.iter().map(|request| RequestSpec {
                    arrival: request.arrival + span * i,
                    output_tokens: request.output_tokens * 7,
                    ..*request
                }));
        }
        holds(&scenario, |scenario| {
            let stepping = Facts::of(scenario, false, None);
            Facts::of(scenario, true, None).difference(&stepping)
        });
    }
}

#[test]
fn prefix_caches_hold_and_drop_the_same_blocks_in_both_modes() {
    let mut cached = 0;
    for seed in 2_000_000..2_000_600 {
        let scenario = Scenario::random(seed).with_prefixes(seed);
        holds(&scenario, |scenario| {
            let stepping = Facts::of(scenario, false, None);
            Facts::of(scenario, true, None).difference(&stepping)
        });
        let records = Facts::of(&scenario, true, None).records;
        cached += records.iter().filter(|r| r.cached_tokens > 0).count();
    }
    assert!(
        cached > 1000,
        "only {cached} requests found a cached prefix"
    );
}

#[test]
fn closed_loops_send_at_the_same_instants_in_both_modes() {
    let mut held_back = 0;
    for seed in 2_100_000..2_100_800 {
        let mut scenario = Scenario::random(seed).with_closed_loop(seed);
        if seed % 3 == 0 {
            scenario = scenario.with_prefixes(seed);
        }
        let end = Facts::of(&scenario, true, None).end.unwrap().unwrap();
        let half = SimTime::from_ps(end.as_ps() / 2);
        for horizon in [None, Some(half)] {
            holds(&scenario, |scenario| {
                let stepping = Facts::of(scenario, false, horizon);
                Facts::of(scenario, true, horizon).difference(&stepping)
            });
        }
        held_back += Facts::of(&scenario, true, None).held_back.len();
    }
    assert!(held_back > 1000, "only {held_back} requests were held back");
}
