//! L12: infinite bandwidth and no base time are no transfer.

use pdsim::cluster::{FirstToken, PoolSpec, RequestRecord, Role, TransferSpec};
use pdsim::policy::batch::BatchRule;
use pdsim::units::{SimDuration, SimTime};

use crate::facts::Facts;
use crate::scenario::Scenario;

const FREE: TransferSpec = TransferSpec {
    base: SimDuration::ZERO,
    bytes_per_sec: f64::INFINITY,
};

#[test]
fn l12_a_free_transfer_takes_no_time_and_depends_on_no_size() {
    let mut travelled = 0;
    for seed in 10_000_000..10_000_300 {
        let mut scenario = Scenario::random(seed);
        scenario.spec.transfer = FREE;
        let free = Facts::of(&scenario, true, None);
        for record in &free.records {
            assert_eq!(
                record.transfer_start, record.transfer_end,
                "L12, seed {seed}"
            );
            travelled += u64::from(record.transfer_start != SimTime::NEVER);
        }
        for pool in &mut scenario.spec.pools {
            pool.kv.bytes_per_token = 0;
        }
        scenario.spec.transfer.bytes_per_sec = 1.0;
        assert_eq!(
            Facts::of(&scenario, true, None).records,
            free.records,
            "L12, seed {seed}"
        );
    }
    assert!(travelled > 1000);
}

#[test]
fn l12_a_lone_request_does_not_notice_a_free_hand_off() {
    let mut tested = 0;
    for seed in 10_100_000..10_100_300 {
        let mut together = Scenario::random(seed);
        if together.spec.pools.len() > 1 {
            continue;
        }
        tested += 1;
        let pool = &mut together.spec.pools[0];
        pool.instances = 1;
        // Only a prefill-first instance leaves prompts and decodes of one request as they are in pools of their own.
        pool.batch = BatchRule::PrefillFirst;
        let role = |name: &str, role| PoolSpec {
            name: name.to_owned(),
            role,
            ..pool.clone()
        };
        let pools = vec![role("prefill", Role::Prefill), role("decode", Role::Decode)];
        for (i, request) in together.requests.iter_mut().enumerate() {
            request.arrival = SimTime::from_ps(1_000_000_000_000_000 * i as u64);
        }
        let mut apart = together.clone();
        apart.spec.pools = pools;
        apart.spec.transfer = FREE;
        apart.spec.first_token = FirstToken::Prefill;
        let (a, b) = (
            Facts::of(&together, true, None),
            Facts::of(&apart, true, None),
        );
        let instants = |r: &RequestRecord| {
            let start = (r.routed, r.prefill_start, r.prefill_end);
            (
                r.id,
                r.outcome,
                start,
                r.decode_start,
                r.first_token,
                r.last_token,
            )
        };
        let instants = |facts: &Facts| facts.records.iter().map(instants).collect::<Vec<_>>();
        assert_eq!(instants(&a), instants(&b), "L12, seed {seed}");
        assert_eq!(a.gaps, b.gaps, "L12, seed {seed}");
    }
    assert!(tested > 80);
}
