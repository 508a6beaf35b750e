//! Fast-forward against stepping.

use pdsim::units::SimTime;

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
