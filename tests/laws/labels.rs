//! L11: labels change nothing but labels.

use pdsim::cluster::{Outcome, RequestRecord};
use pdsim::ids::InstanceId;
use pdsim::workload::RequestSpec;

use crate::facts::Facts;
use crate::scenario::Scenario;

fn by_id(facts: &Facts) -> Vec<RequestRecord> {
    let mut records = facts.records.clone();
    records.sort_by_key(|r| r.id);
    records
}

#[test]
fn l11_classes_are_labels() {
    for seed in 9_000_000..9_000_150 {
        let scenario = Scenario::random(seed);
        let mut renamed = scenario.clone();
        for request in &mut renamed.requests {
            request.class = 3 - request.class;
        }
        let (a, mut b) = (
            Facts::of(&scenario, true, None),
            Facts::of(&renamed, true, None),
        );
        for record in &mut b.records {
            record.class = 3 - record.class;
        }
        assert_eq!(a.difference(&b), None, "L11, seed {seed}");
    }
}

#[test]
fn l11_the_order_of_pools_changes_only_instance_numbers() {
    for seed in 9_100_000..9_100_300 {
        let scenario = Scenario::random(seed);
        let pools = &scenario.spec.pools;
        let mut swapped = scenario.clone();
        // Decode pools first; the order among pools of a role is part of a router's rule and stays.
        swapped.spec.pools.sort_by_key(|pool| pool.name != "decode");
        let decodes: u32 = pools
            .iter()
            .filter(|p| p.name == "decode")
            .map(|p| p.instances)
            .sum();
        let all: u32 = pools.iter().map(|p| p.instances).sum();
        let (decodes, all) = (decodes as usize, all as usize);
        let original = |id: InstanceId| InstanceId::new((id.index() + all - decodes) % all);
        let expected = by_id(&Facts::of(&scenario, true, None));
        let mut records = by_id(&Facts::of(&swapped, true, None));
        for record in &mut records {
            record.prefill_instance = record.prefill_instance.map(original);
            record.decode_instance = record.decode_instance.map(original);
        }
        assert_eq!(records, expected, "L11, seed {seed}");
    }
}

#[test]
fn l11_request_numbers_are_labels() {
    let mut tested = 0;
    for seed in 9_200_000..9_200_300 {
        let scenario = Scenario::random(seed);
        // A refused request in front shifts every number, and with them the rows of tables.
        let mut shifted = scenario.clone();
        shifted.requests.insert(
            0,
            RequestSpec {
                input_tokens: 1_000_000,
                ..scenario.requests[0]
            },
        );
        let expected = by_id(&Facts::of(&scenario, true, None));
        let records = by_id(&Facts::of(&shifted, true, None));
        if !matches!(records[0].outcome, Outcome::Rejected(_)) {
            continue;
        }
        tested += 1;
        for (record, expected) in records[1..].iter().zip(&expected) {
            assert_eq!(
                RequestRecord {
                    id: expected.id,
                    ..*record
                },
                *expected,
                "L11, seed {seed}"
            );
        }
        assert_eq!(records.len(), expected.len() + 1);
    }
    assert!(tested > 150, "only {tested} systems with finite memory");
}
