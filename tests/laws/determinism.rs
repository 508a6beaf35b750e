//! L7: the same scenario gives the same facts, again and on other threads.

use crate::facts::Facts;
use crate::scenario::Scenario;

#[test]
fn l7_a_second_run_and_runs_on_four_threads_tell_the_same() {
    let facts = |seed: u64| {
        let scenario = if seed.is_multiple_of(4) {
            Scenario::moving(seed)
        } else {
            Scenario::random(seed)
        };
        Facts::of(&scenario, true, None)
    };
    let seeds: Vec<u64> = (6_000_000..6_000_080).collect();
    let first: Vec<Facts> = seeds.iter().map(|&seed| facts(seed)).collect();
    let again: Vec<Facts> = seeds.iter().rev().map(|&seed| facts(seed)).collect();
    assert!(first.iter().eq(again.iter().rev()));
    let threaded: Vec<Facts> = std::thread::scope(|scope| {
        let parts: Vec<_> = seeds
            .chunks(20)
            .map(|part| {
                scope.spawn(move || part.iter().map(|&seed| facts(seed)).collect::<Vec<_>>())
            })
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap())
            .collect()
    });
    assert!(first == threaded);
}
