//! L1 to L5 on random scenarios, to the end and up to a horizon, in both modes.

use pdsim::cluster::Outcome;
use pdsim::sim::{Options, simulate};
use pdsim::units::SimTime;

use crate::books::Books;
use crate::scenario::Scenario;

fn books(scenario: &Scenario, fast_forward: bool, horizon: Option<SimTime>) -> (Books, SimTime) {
    let spec = scenario.spec_with(fast_forward);
    let mut books = Books::new(&spec, horizon);
    let end = simulate(
        &spec,
        scenario.requests.iter().copied(),
        Options { horizon },
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
        let scenario = Scenario::random(seed);
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
