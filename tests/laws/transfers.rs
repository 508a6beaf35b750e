//! Transfers: overlap never loses, slower links are never faster, who posts, what goes through host memory, what stays.

use std::sync::Arc;

use pdsim::cluster::{
    FirstToken, Overlap, PoolSpec, Preemption, RequestRecord, Reservation, Role, Sharing,
    SkipPrefill, Staging, TransferFact, TransferMode, TransferSpec,
};
use pdsim::latency::fixed::Fixed;
use pdsim::net::{Place, Topology};
use pdsim::policy::batch::BatchRule;
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::{Prefixes, RequestSpec};

use crate::facts::Facts;
use crate::scenario::Scenario;

const FREE: TransferSpec = TransferSpec::link(SimDuration::ZERO, f64::INFINITY);

/// A network of nodes of one instance each, every port at `rate`.
fn network(instances: usize, rate: f64, in_flight: u32) -> Sharing {
    let port = |i: usize| u32::try_from(i).unwrap();
    let place = |i: usize| Place {
        node: port(i),
        inside: [port(2 * i), port(2 * i + 1)],
        network: [port(2 * i), port(2 * i + 1)],
        host: None,
    };
    Sharing {
        topology: Topology {
            ports: vec![rate; 2 * instances],
            most_per_transfer: f64::INFINITY,
            places: (0..instances).map(place).collect(),
        },
        in_flight,
    }
}

fn instances(scenario: &Scenario) -> usize {
    let pools = scenario.spec.pools.iter();
    pools.map(|pool| pool.instances as usize).sum()
}

/// A random disaggregated scenario whose requests come one at a time, with decode blocks reserved at arrival.
fn alone(seed: u64) -> Option<Scenario> {
    let mut scenario = Scenario::random(seed);
    let spec = &mut scenario.spec;
    if spec.pools.len() < 2 {
        return None;
    }
    spec.reservation = Reservation::Early;
    spec.skip = SkipPrefill::default();
    for pool in &mut spec.pools {
        pool.kv.preemption = Preemption::Recompute;
    }
    for (i, request) in scenario.requests.iter_mut().enumerate() {
        request.arrival = SimTime::from_ps(1_000_000_000_000_000 * i as u64);
    }
    Some(scenario)
}

/// `senders` prefill instances that take `prompt` per token of a prompt, one decode instance without limits.
pub(crate) fn simple(senders: u32, prompt: SimDuration) -> Scenario {
    let fits = |s: &Scenario| s.spec.pools.len() == 2 && s.spec.pools[0].role == Role::Prefill;
    let mut scenario = (0..).map(Scenario::random).find(fits).unwrap();
    let spec = &mut scenario.spec;
    for (pool, role) in spec.pools.iter_mut().zip([Role::Prefill, Role::Decode]) {
        *pool = PoolSpec {
            role,
            instances: if role == Role::Prefill { senders } else { 1 },
            pp: 1,
            dp: 1,
            ep: 1,
            latency: Arc::new(Fixed {
                prefill_per_token: prompt,
                decode: SimDuration::from_ms(1),
                ..Fixed::default()
            }),
            batch: BatchRule::PrefillFirst,
            ..pool.clone()
        };
        pool.limits.max_seqs = u32::MAX;
        pool.limits.max_step_tokens = u32::MAX;
        pool.limits.max_step_prompts = 1;
        pool.limits.long_prompts = None;
        pool.limits.max_decode_context = None;
        pool.queue = pdsim::cluster::QueueRule::default();
        pool.kv.block_tokens = 4;
        pool.kv.blocks = None;
        pool.kv.watermark_blocks = 0;
        pool.kv.bytes_per_token = 100;
        pool.kv.reserve = pdsim::cluster::KvReserve::Paged;
        pool.kv.preemption = Preemption::Recompute;
        pool.kv.prefix_cache = false;
    }
    spec.prefill_router = pdsim::policy::router::RouterRule::RoundRobin;
    spec.decode_router = pdsim::policy::router::RouterRule::RoundRobin;
    spec.skip = SkipPrefill::default();
    spec.reservation = Reservation::Early;
    spec.first_token = FirstToken::Decode;
    spec.transfer = FREE;
    scenario
}

/// Prompts of so many tokens, `gap` apart.
pub(crate) fn prompts(tokens: &[u32], gap: SimDuration) -> Vec<RequestSpec> {
    let template = Scenario::random(0).requests[0];
    let request = |(i, &input_tokens): (usize, &u32)| RequestSpec {
        arrival: SimTime::ZERO + gap * i as u64,
        input_tokens,
        output_tokens: 3,
        max_output: 3,
        ..template
    };
    tokens.iter().enumerate().map(request).collect()
}

fn ways(scenario: &Scenario) -> Vec<TransferFact> {
    Facts::of(scenario, true, None).ways
}

/// When each KV cache had arrived, by request.
fn arrived(scenario: &Scenario) -> Vec<SimTime> {
    let mut records = Facts::of(scenario, true, None).records;
    records.sort_by_key(|r| r.id);
    records.iter().map(|r| r.transfer_end).collect()
}

fn ms(ms: u64) -> SimDuration {
    SimDuration::from_ms(ms)
}

/// Transfers that take no time, on a network of so many instances.
fn free_ways(instances: usize) -> [TransferSpec; 4] {
    let free = network(instances, f64::INFINITY, u32::MAX);
    let transfer = |mode, overlap| TransferSpec {
        mode,
        overlap,
        sharing: Some(free.clone()),
        ..FREE
    };
    let staged = TransferSpec {
        staging: Some(Staging {
            out_bytes_per_sec: f64::INFINITY,
            into_bytes_per_sec: f64::INFINITY,
        }),
        ..transfer(TransferMode::Push, Overlap::None)
    };
    [
        transfer(TransferMode::Push, Overlap::Chunk),
        transfer(TransferMode::Push, Overlap::Layerwise { layers: 3 }),
        transfer(TransferMode::Pull, Overlap::None),
        staged,
    ]
}

#[test]
fn l12_a_free_network_is_no_transfer_whoever_posts_and_whatever_travels_early() {
    let (mut travelled, mut together) = (0, 0);
    for seed in 11_000_000..11_000_150 {
        let mut busy = Scenario::random(seed);
        for transfer in free_ways(instances(&busy)) {
            busy.spec.transfer = transfer;
            for record in Facts::of(&busy, true, None).records {
                assert_eq!(
                    record.transfer_start, record.transfer_end,
                    "L12, seed {seed}"
                );
                together += usize::from(record.transfer_end != SimTime::NEVER);
            }
        }
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        scenario.spec.transfer = FREE;
        let link = Facts::of(&scenario, true, None).records;
        for transfer in free_ways(instances(&scenario)) {
            scenario.spec.transfer = transfer;
            let records = Facts::of(&scenario, true, None).records;
            assert_eq!(records, link, "L12, seed {seed}");
        }
        travelled += link
            .iter()
            .filter(|r| r.transfer_end != SimTime::NEVER)
            .count();
    }
    assert!(
        travelled > 500 && together > 1000,
        "put to the test: {travelled} {together}"
    );
}

#[test]
fn on_a_network_what_travels_early_never_arrives_later() {
    let mut earlier = [0, 0];
    for seed in 11_100_000..11_100_300 {
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        let transfer = &mut scenario.spec.transfer;
        (transfer.mode, transfer.staging) = (TransferMode::Push, None);
        if transfer.sharing.is_none() {
            continue;
        }
        transfer.overlap = Overlap::None;
        let before = arrived(&scenario);
        let early = [Overlap::Chunk, Overlap::Layerwise { layers: 4 }];
        for (i, overlap) in early.into_iter().enumerate() {
            scenario.spec.transfer.overlap = overlap;
            for (now, before) in arrived(&scenario).iter().zip(&before) {
                assert!(now <= before, "seed {seed}, {overlap:?}");
                earlier[i] += usize::from(now < before);
            }
        }
    }
    assert!(
        earlier[0] > 20 && earlier[1] > 100,
        "put to the test: {earlier:?}"
    );
}

#[test]
fn through_one_busy_port_nobody_loses_to_what_others_send_early() {
    let (mut earlier, mut early_bytes) = (0, 0);
    for seed in 0..60_u64 {
        let pick = &mut crate::pick::Pick::new(seed, "busy port");
        let mut scenario = simple(pick.small(1, 3), SimDuration::from_ms(2));
        let lengths: Vec<u32> = (0..25).map(|_| pick.small(2, 60)).collect();
        scenario.requests = prompts(&lengths, ms(pick.from(5, 60)));
        scenario.spec.transfer = TransferSpec {
            base: ms(pick.from(0, 3)),
            // Only the receiver's port is narrow, and posting takes as long with overlap as without: whole transfers start at the same instants.
            sharing: Some(network(instances(&scenario), f64::INFINITY, u32::MAX)),
            ..FREE
        };
        let topology = &mut scenario.spec.transfer.sharing.as_mut().unwrap().topology;
        *topology.ports.last_mut().unwrap() = pick.of(&[2e4, 5e4, 1e5]);
        let before = arrived(&scenario);
        scenario.spec.transfer.overlap = Overlap::Layerwise { layers: 8 };
        early_bytes += ways(&scenario).iter().map(|w| w.early_bytes).sum::<u64>();
        for (now, before) in arrived(&scenario).iter().zip(&before) {
            // Shares of a port end on whole picoseconds, rounded up each time.
            let slack = SimDuration::from_ps(1000);
            assert!(
                *now <= before.saturating_add(slack),
                "seed {seed}: {now:?} {before:?}"
            );
            earlier += usize::from(now < before);
        }
    }
    assert!(
        earlier > 500 && early_bytes > 100_000,
        "{earlier} {early_bytes}"
    );
}

#[test]
fn half_the_bandwidth_never_lowers_ttft() {
    let mut later = 0;
    for seed in 11_200_000..11_200_400 {
        let Some(mut scenario) = alone(seed) else {
            continue;
        };
        scenario.spec.first_token = FirstToken::Decode;
        let ttft = |scenario: &Scenario| {
            let mut records = Facts::of(scenario, true, None).records;
            records.sort_by_key(|r| r.id);
            records.iter().map(RequestRecord::ttft).collect::<Vec<_>>()
        };
        let before = ttft(&scenario);
        let transfer = &mut scenario.spec.transfer;
        transfer.bytes_per_sec /= 2.0;
        if let Some(sharing) = &mut transfer.sharing {
            sharing
                .topology
                .ports
                .iter_mut()
                .for_each(|rate| *rate /= 2.0);
            sharing.topology.most_per_transfer /= 2.0;
        }
        if let Some(staging) = &mut transfer.staging {
            staging.out_bytes_per_sec /= 2.0;
            staging.into_bytes_per_sec /= 2.0;
        }
        for (now, before) in ttft(&scenario).iter().zip(&before) {
            assert!(now >= before, "seed {seed}: {now:?} {before:?}");
            later += usize::from(now > before);
        }
    }
    assert!(later > 1000, "put to the test: {later}");
}

#[test]
fn who_pulls_posts_on_the_decode_instance() {
    // Two senders, one receiver, prompts done at the same time; posting takes 10 ms, the wire 10 ms.
    let mut scenario = simple(2, ms(1));
    scenario.requests = prompts(&[10, 10], SimDuration::ZERO);
    scenario.spec.transfer = TransferSpec::link(ms(10), 1e5);
    let pushed = ways(&scenario);
    assert_eq!(
        pushed[0].ended, pushed[1].ended,
        "each over a link of its own"
    );
    assert_eq!(pushed[0].ended, SimTime::ZERO + ms(30));
    scenario.spec.transfer.mode = TransferMode::Pull;
    let pulled = ways(&scenario);
    assert_eq!(pulled[0].ended, SimTime::ZERO + ms(30));
    assert_eq!(
        pulled[1].ended,
        SimTime::ZERO + ms(50),
        "one after the other"
    );
    assert_eq!(pulled[1].waited(), ms(20));
    assert_eq!(pulled[1].exposed(), ms(20));
    assert!(pulled.iter().all(|way| way.poster == way.to));
}

#[test]
fn the_cap_of_transfers_in_flight_counts_where_they_are_posted() {
    let most = |mode, in_flight| {
        let mut scenario = simple(3, ms(1));
        scenario.requests = prompts(&[10; 12], SimDuration::ZERO);
        scenario.spec.transfer = TransferSpec {
            mode,
            sharing: Some(network(4, 1e3, in_flight)),
            ..FREE
        };
        let ways = ways(&scenario);
        let flying = |at: SimTime| {
            ways.iter()
                .filter(|w| w.wire <= at && at < w.landed)
                .count()
        };
        ways.iter().map(|way| flying(way.wire)).max().unwrap()
    };
    assert_eq!(most(TransferMode::Push, 2), 6);
    assert_eq!(most(TransferMode::Pull, 2), 2);
}

#[test]
fn whole_copies_add_up_and_wait_their_turn() {
    let mut scenario = simple(1, ms(1));
    // 1000 bytes each: 10 ms to the host, 20 ms between hosts, 40 ms from the host.
    scenario.requests = prompts(&[10, 10], SimDuration::ZERO);
    scenario.spec.transfer = TransferSpec {
        staging: Some(Staging {
            out_bytes_per_sec: 1e5,
            into_bytes_per_sec: 2.5e4,
        }),
        ..TransferSpec::link(SimDuration::ZERO, 5e4)
    };
    let [first, second] = ways(&scenario)[..] else {
        panic!("two transfers");
    };
    assert_eq!(first.ended, SimTime::ZERO + ms(10 + 10 + 20 + 40));
    assert_eq!(first.waited(), SimDuration::ZERO);
    // Done at 20, at the host at 30, on the wire from 40 to 60, and in line for the copy until 80.
    assert_eq!(second.ready, SimTime::ZERO + ms(30));
    assert_eq!(second.turn, SimTime::ZERO + ms(40));
    assert_eq!(second.up, SimTime::ZERO + ms(80));
    assert_eq!(second.ended, SimTime::ZERO + ms(120));
    assert_eq!((second.waited(), second.exposed()), (ms(30), ms(70)));
}

#[test]
fn what_a_decode_instance_has_does_not_travel_again() {
    let mut scenario = simple(1, ms(1));
    for pool in &mut scenario.spec.pools {
        pool.kv.blocks = Some(1000);
        pool.kv.prefix_cache = true;
    }
    // Prompts of 10 blocks of 4 tokens; the second shares 6 of them with the first, the third all.
    scenario.requests = prompts(&[40, 40, 40], ms(1000));
    let mut prefixes = Prefixes::new(4);
    prefixes.push(0..10);
    prefixes.push((0..6).chain(20..24));
    prefixes.push(0..10);
    scenario.prefixes = Some(Arc::new(prefixes));
    scenario.spec.transfer = TransferSpec::link(SimDuration::ZERO, 1e5);
    let held = |scenario: &Scenario| -> Vec<(u64, u64)> {
        let ways = ways(scenario);
        ways.iter().map(|w| (w.bytes, w.held_tokens)).collect()
    };
    // The decode instance computes the last token of a prompt itself, so the last block is never whole there.
    assert_eq!(held(&scenario), [(4000, 0), (1600, 24), (400, 36)]);
    scenario.spec.first_token = FirstToken::Prefill;
    assert_eq!(held(&scenario), [(4000, 0), (1600, 24), (0, 40)]);
    let facts = Facts::of(&scenario, true, None);
    let decode = facts.kv_peak.values().last().unwrap();
    assert_eq!(*decode, 11, "ten blocks of the prompt and one that grows");
    scenario.spec.pools[1].kv.prefix_cache = false;
    assert_eq!(held(&scenario), [(4000, 0); 3]);
}

#[test]
fn held_blocks_are_counted_once_while_two_use_them() {
    let mut scenario = simple(1, ms(1));
    for pool in &mut scenario.spec.pools {
        pool.kv.blocks = Some(1000);
        pool.kv.prefix_cache = true;
    }
    scenario.requests = prompts(&[40, 40], ms(45));
    for request in &mut scenario.requests {
        (request.output_tokens, request.max_output) = (30, 30);
    }
    let mut prefixes = Prefixes::new(4);
    (0..2).for_each(|_| prefixes.push(0..10));
    scenario.prefixes = Some(Arc::new(prefixes));
    let peak = |scenario: &Scenario| {
        let facts = Facts::of(scenario, true, None);
        *facts.kv_peak.values().last().unwrap()
    };
    // Both decode when the first one is longest. They share all whole blocks but the one that the decode instance completes.
    let shared = peak(&scenario);
    scenario.spec.pools[1].kv.prefix_cache = false;
    assert_eq!(peak(&scenario), shared + 9);
}

#[test]
fn prompts_of_one_step_travel_early_side_by_side_over_their_own_link() {
    // Two prompts of 50 tokens in a step of 100 ms, ten layers: 45 tokens of each are there between 10 and 100 ms, 50 bytes per ms and
    // prompt. A link of 200 bytes per ms sends all of them meanwhile; what is left, 500 bytes each, takes 2.5 ms each.
    let mut scenario = simple(1, ms(1));
    scenario.spec.pools[0].limits.max_step_prompts = 2;
    scenario.requests = prompts(&[50, 50], SimDuration::ZERO);
    scenario.spec.transfer = TransferSpec {
        overlap: Overlap::Layerwise { layers: 10 },
        ..TransferSpec::link(SimDuration::ZERO, 2e5)
    };
    let after = |micros: u64| SimTime::ZERO + SimDuration::from_us(micros);
    assert_eq!(arrived(&scenario), [after(102_500), after(105_000)]);
    // At 50 bytes per ms 4500 bytes go early, 22 whole tokens of each prompt; the other 28 take 56 ms, one prompt after the other.
    scenario.spec.transfer.bytes_per_sec = 5e4;
    assert_eq!(arrived(&scenario), [after(156_000), after(212_000)]);
}

#[test]
fn a_link_of_ones_own_is_a_network_that_nobody_shares() {
    let mut early_bytes = 0;
    for seed in 0..80_u64 {
        let pick = &mut crate::pick::Pick::new(seed, "own link");
        let mut scenario = simple(1, SimDuration::from_us(300));
        scenario.spec.pools[0].limits.max_step_prompts = pick.small(1, 4);
        scenario.spec.pools[0].batch = pick.of(&[BatchRule::PrefillFirst, BatchRule::DecodeFirst]);
        scenario.spec.pools[0].limits.max_step_tokens = pick.small(8, 90);
        let lengths: Vec<u32> = (0..25).map(|_| pick.small(2, 60)).collect();
        scenario.requests = prompts(&lengths, ms(pick.from(1, 30)));
        let rate = pick.of(&[1e5, 3e5, 1e6]);
        let overlap = pick.of(&[Overlap::Chunk, Overlap::Layerwise { layers: 8 }]);
        scenario.spec.transfer = TransferSpec {
            overlap,
            per_block: SimDuration::from_us(pick.from(0, 40)),
            ..TransferSpec::link(ms(pick.from(0, 2)), rate)
        };
        let own = ways(&scenario);
        scenario.spec.transfer.sharing = Some(network(2, rate, 1));
        assert_eq!(own, ways(&scenario), "seed {seed}");
        early_bytes += own.iter().map(|w| w.early_bytes).sum::<u64>();
    }
    assert!(early_bytes > 100_000, "{early_bytes}");
}
