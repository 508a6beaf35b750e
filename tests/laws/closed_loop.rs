//! Closed loops: what the client promises, and the laws under it.

use pdsim::cluster::{Outcome, RequestRecord};
use pdsim::metrics::{Collector, Config};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::Client;

use crate::books::Books;
use crate::facts::Facts;
use crate::scenario::Scenario;

fn scenario(seed: u64) -> Scenario {
    Scenario::random(seed).with_closed_loop(seed)
}

/// When a request left, for those that did.
fn left(record: &RequestRecord) -> SimTime {
    match record.outcome {
        Outcome::Done => record.last_token,
        // Refused at arrival.
        Outcome::Rejected(_) => record.arrival,
        Outcome::Unfinished => SimTime::NEVER,
    }
}

#[test]
fn l1_to_l5_hold_in_closed_loops() {
    for seed in 12_000_000..12_000_400 {
        let scenario = scenario(seed);
        let spec = scenario.spec_with(true);
        let mut books = Books::new(&spec, None);
        scenario.run(seed % 2 == 0, None, &mut books).unwrap();
        books.assert_closed();
        assert_eq!(
            books.records.len(),
            scenario.requests.len(),
            "L1, seed {seed}"
        );
    }
}

#[test]
fn a_request_is_sent_at_its_plan_or_when_one_ends_and_never_beyond_the_concurrency() {
    for seed in 12_100_000..12_100_400 {
        let scenario = scenario(seed);
        let Client::Closed { concurrency, paced } = scenario.client else {
            panic!("a closed loop was asked for")
        };
        let facts = Facts::of(&scenario, true, None);
        let mut records = facts.records.clone();
        records.sort_by_key(|record| record.id);
        for (i, record) in records.iter().enumerate() {
            let planned = if paced {
                scenario.requests[i].arrival
            } else {
                SimTime::ZERO
            };
            assert_eq!(record.input_tokens, scenario.requests[i].input_tokens);
            // The place it takes is the one that the earliest of all but `concurrency − 1` requests before it left.
            let mut ends: Vec<SimTime> = records[..i].iter().map(left).collect();
            ends.sort_unstable();
            let place = (i as u64).checked_sub(concurrency);
            let free = place.map_or(SimTime::ZERO, |at| ends[usize::try_from(at).unwrap()]);
            let after = i
                .checked_sub(1)
                .map_or(SimTime::ZERO, |j| records[j].arrival);
            assert_eq!(
                record.arrival,
                planned.max(free).max(after),
                "seed {seed}, request {i}"
            );
            let wait = facts.held_back.iter().find(|(id, _)| *id == record.id);
            let expected = if paced {
                record.arrival - planned
            } else {
                SimDuration::ZERO
            };
            assert_eq!(
                wait.map_or(SimDuration::ZERO, |(_, wait)| *wait),
                expected,
                "seed {seed}, request {i}"
            );
        }
    }
}

#[test]
fn l13_holds_in_closed_loops_and_the_client_keeps_its_concurrency() {
    for seed in 12_200_000..12_200_300 {
        let scenario = scenario(seed);
        let Client::Closed { concurrency, .. } = scenario.client else {
            panic!("a closed loop was asked for")
        };
        let config = Config {
            client: scenario.client,
            ..Config::default()
        };
        let mut collector = Collector::new(&config, &scenario.spec);
        scenario.run(true, None, &mut collector).unwrap();
        let metrics = collector.into_metrics();
        assert!(
            metrics.little.exact,
            "L13, seed {seed}: {:?}",
            metrics.little
        );
        assert!(metrics.little.mean_in_system <= concurrency as f64 + 1e-9);
        let waits = metrics.client_wait.map_or(0, |d| d.count);
        let paced = scenario.client.is_paced();
        assert_eq!(waits, if paced { metrics.counts.measured } else { 0 });
    }
}

#[test]
fn a_concurrency_beyond_the_plan_is_an_open_loop() {
    for seed in 12_300_000..12_300_200 {
        let open = Scenario::random(seed);
        let mut wide = open.clone();
        wide.client = Client::Closed {
            concurrency: 1000,
            paced: true,
        };
        let (open, wide) = (Facts::of(&open, true, None), Facts::of(&wide, true, None));
        assert_eq!(open.difference(&wide), None, "seed {seed}");
        assert!(wide.held_back.is_empty());
    }
}
