//! L12: infinite bandwidth and no base time are no transfer.

use pdsim::cluster::{
    FirstToken, Overlap, PoolSpec, Preemption, RequestRecord, Reservation, Role, Sharing,
    SkipPrefill, TransferMode, TransferSpec,
};
use pdsim::net::{Place, Topology};
use pdsim::policy::batch::BatchRule;
use pdsim::units::{SimDuration, SimTime};

use crate::facts::Facts;
use crate::scenario::Scenario;

const FREE: TransferSpec = TransferSpec::link(SimDuration::ZERO, f64::INFINITY);

#[test]
fn l12_a_free_transfer_takes_no_time_and_depends_on_no_size() {
    let mut travelled = 0;
    for seed in 10_000_000..10_000_300 {
        let mut scenario = Scenario::random(seed);
        scenario.spec.transfer = FREE;
        for pool in &mut scenario.spec.pools {
            // Swapping moves bytes, too.
            pool.kv.preemption = Preemption::Recompute;
        }
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
        pool.multiplex = None;
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
        apart.spec.skip = SkipPrefill::default();
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

/// Requests that come one at a time, with decode blocks reserved at arrival and a link of their own.
fn alone(seed: u64) -> Option<Scenario> {
    let mut scenario = Scenario::random(seed);
    let spec = &mut scenario.spec;
    if spec.pools.len() < 2 {
        return None;
    }
    spec.reservation = Reservation::Early;
    spec.skip = SkipPrefill::default();
    spec.transfer.sharing = None;
    spec.transfer.overlap = Overlap::None;
    spec.transfer.staging = None;
    spec.transfer.mode = TransferMode::Push;
    for pool in &mut spec.pools {
        pool.kv.preemption = Preemption::Recompute;
    }
    for (i, request) in scenario.requests.iter_mut().enumerate() {
        request.arrival = SimTime::from_ps(1_000_000_000_000_000 * i as u64);
    }
    Some(scenario)
}

/// When each KV cache had arrived, by request.
fn arrived(scenario: &Scenario) -> Vec<SimTime> {
    let mut records = Facts::of(scenario, true, None).records;
    records.sort_by_key(|r| r.id);
    records.iter().map(|r| r.transfer_end).collect()
}

#[test]
fn what_travels_early_never_arrives_later() {
    let mut earlier = [0, 0];
    for seed in 10_200_000..10_200_300 {
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        let mut before = arrived(&scenario);
        let steps = [Overlap::Chunk, Overlap::Layerwise { layers: 4 }];
        for (i, overlap) in steps.into_iter().enumerate() {
            scenario.spec.transfer.overlap = overlap;
            let now = arrived(&scenario);
            for (now, before) in now.iter().zip(&before) {
                assert!(now <= before, "seed {seed}, {overlap:?}");
                earlier[i] += usize::from(now < before);
            }
            before = now;
        }
    }
    assert!(
        earlier[0] > 50 && earlier[1] > 300,
        "put to the test: {earlier:?}"
    );
}

#[test]
fn a_network_that_nobody_shares_is_a_link() {
    let mut travelled = 0;
    for seed in 10_400_000..10_400_300 {
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        scenario.spec.transfer.bytes_per_sec = 4e3;
        let link = arrived(&scenario);
        let instances: u32 = scenario.spec.pools.iter().map(|pool| pool.instances).sum();
        let place = |i: u32| Place {
            node: i,
            host: None,
            inside: [2 * i, 2 * i + 1],
            network: [2 * i, 2 * i + 1],
        };
        scenario.spec.transfer.sharing = Some(Sharing {
            topology: Topology {
                ports: vec![4e3; 2 * instances as usize],
                most_per_transfer: f64::INFINITY,
                places: (0..instances).map(place).collect(),
            },
            in_flight: 3,
        });
        assert_eq!(arrived(&scenario), link, "seed {seed}");
        travelled += link.iter().filter(|&&at| at != SimTime::NEVER).count();
    }
    assert!(travelled > 1000);
}

#[test]
fn half_the_bandwidth_never_arrives_earlier() {
    let mut later = 0;
    for seed in 10_300_000..10_300_300 {
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        scenario.spec.transfer.bytes_per_sec = 4e3;
        let before = arrived(&scenario);
        scenario.spec.transfer.bytes_per_sec = 2e3;
        for (now, before) in arrived(&scenario).iter().zip(&before) {
            assert!(now >= before, "seed {seed}");
            later += usize::from(now > before);
        }
    }
    assert!(later > 1000, "put to the test: {later}");
}
