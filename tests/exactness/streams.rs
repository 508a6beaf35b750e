//! Fast-forward against stepping where prompts and decodes run at the same time.

use pdsim::units::SimTime;

use crate::facts::Facts;
use crate::scenario::Scenario;
use crate::shrink::holds;

/// The first `count` scenarios from `seed` on that can be multiplexed, multiplexed.
fn scenarios(seed: u64, count: usize) -> impl Iterator<Item = (u64, Scenario)> {
    (seed..)
        .filter_map(|seed| Some((seed, Scenario::random(seed).multiplexed(seed)?)))
        .take(count)
}

fn agree(scenario: &Scenario, horizon: Option<SimTime>) {
    holds(scenario, |scenario| {
        let stepping = Facts::of(scenario, false, horizon);
        Facts::of(scenario, true, horizon).difference(&stepping)
    });
}

#[test]
fn multiplexed_runs_tell_the_same_facts_in_both_modes() {
    let (mut together, mut preempted) = (0, 0);
    for (seed, scenario) in scenarios(4_000_000, 600) {
        agree(&scenario, None);
        let facts = Facts::of(&scenario, true, None);
        assert!(matches!(facts.end, Some(Ok(_))), "seed {seed}: {facts:?}");
        // Some prompt is computed while another request decodes.
        let decodes = |from, to| {
            let mut records = facts.records.iter();
            records.any(|r| r.decode_start < to && from < r.last_token)
        };
        let mut records = facts.records.iter();
        together += usize::from(records.any(|r| decodes(r.prefill_start, r.prefill_end)));
        preempted += usize::from(!facts.preemptions.is_empty());
    }
    assert!(
        together > 250 && preempted > 60,
        "{together} with both streams at work, {preempted} with preemptions"
    );
}

#[test]
fn multiplexed_runs_are_cut_alike_at_the_horizon() {
    for (_, scenario) in scenarios(4_100_000, 200) {
        let end = Facts::of(&scenario, true, None).end.unwrap().unwrap();
        for eighths in [2, 5] {
            agree(&scenario, Some(SimTime::from_ps(end.as_ps() / 8 * eighths)));
        }
    }
}

#[test]
fn multiplexed_prefix_caches_hold_and_drop_the_same_blocks_in_both_modes() {
    let mut cached = 0;
    for (seed, scenario) in scenarios(4_200_000, 400) {
        let scenario = scenario.with_prefixes(seed);
        agree(&scenario, None);
        let records = Facts::of(&scenario, true, None).records;
        cached += records.iter().filter(|r| r.cached_tokens > 0).count();
    }
    assert!(cached > 500, "only {cached} requests found a cached prefix");
}
