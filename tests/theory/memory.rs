//! Caches and choices computed by hand: the CPU tier, decode instances chosen at arrival, prompts that stay where they are cached.

use std::sync::Arc;

use pdsim::cluster::{
    CpuTier, KvSpec, Observer, PoolSpec, RequestRecord, Reservation, Role, SystemSpec,
};
use pdsim::ids::InstanceId;
use pdsim::latency::fixed::Fixed;
use pdsim::latency::share::{IdleSms, SmCurve, SmSplit};
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::{Prefixes, RequestSpec};

use crate::system::{pool, system};

#[derive(Default)]
struct Keep {
    records: Vec<RequestRecord>,
    /// Prompt tokens, those cached, and those of them in the CPU tier.
    looked_up: Vec<(u32, u32, u32)>,
}

impl Observer for Keep {
    fn ended(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }

    fn prefix_looked_up(&mut self, _: InstanceId, record: &RequestRecord, from_cpu: u32) {
        let row = (record.input_tokens, record.cached_tokens, from_cpu);
        self.looked_up.push(row);
    }
}

fn at(ms: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_ms(ms)
}

const fn request(ms: u64, input_tokens: u32, output_tokens: u32) -> RequestSpec {
    RequestSpec {
        arrival: SimTime::from_ps(ms * 1_000_000_000),
        input_tokens,
        output_tokens,
        max_output: output_tokens,
        class: 0,
        session: 0,
    }
}

/// 10 ms per step with a prompt and 1 ms per token, 10 ms per decode step.
fn steps() -> Fixed {
    Fixed {
        prefill: SimDuration::from_ms(10),
        prefill_per_token: SimDuration::from_ms(1),
        decode: SimDuration::from_ms(10),
        ..Fixed::default()
    }
}

/// Blocks of 4 tokens, of which prompts may stay cached.
fn caching(pool: PoolSpec, blocks: u64) -> PoolSpec {
    PoolSpec {
        kv: KvSpec {
            block_tokens: 4,
            blocks: Some(blocks),
            prefix_cache: true,
            ..pool.kv
        },
        ..pool
    }
}

/// What happens in both modes, which must be the same.
fn run(spec: &SystemSpec, requests: &[RequestSpec], ids: &[Vec<u32>]) -> Keep {
    let mut prefixes = Prefixes::new(4);
    ids.iter()
        .for_each(|ids| prefixes.push(ids.iter().copied()));
    let prefixes = Arc::new(prefixes);
    let [fast, stepping] = [true, false].map(|fast_forward| {
        let spec = SystemSpec {
            fast_forward,
            ..spec.clone()
        };
        let mut kept = Keep::default();
        let options = Options {
            prefixes: Some(Arc::clone(&prefixes)),
            ..Options::default()
        };
        simulate(&spec, requests.iter().copied(), options, &mut kept).unwrap();
        kept.records.sort_by_key(|record| record.id);
        kept
    });
    assert_eq!(fast.records, stepping.records);
    fast
}

/// A pool that takes one step at a time, and one with prompts and decodes in streams of their own, which alone have the whole GPU.
fn one_stream_and_two() -> [PoolSpec; 2] {
    let one = caching(pool(Role::Both, 1, 1, steps()), 8);
    let split = SmSplit {
        prefill_share: 0.5,
        contention: 1.0,
        idle: IdleSms::Lent,
        curve: SmCurve::default(),
    };
    let two = PoolSpec {
        multiplex: Some(split.streams(&one.latency)),
        batch: BatchRule::SharedSm { chunks: false },
        ..one.clone()
    };
    [one, two]
}

#[test]
fn what_the_gpu_dropped_is_loaded_from_the_cpu_tier_and_lengthens_the_step() {
    // Eight blocks. A leaves four cached; B takes six, so that the last two of A go. C is A's prompt again: two blocks on the GPU, two in the
    // tier, at 5 ms each (4 bytes at 800 B/s), and one token to compute.
    let requests = [request(0, 16, 1), request(100, 24, 1), request(200, 16, 1)];
    let ids = [vec![0, 1, 2, 3], (10..16).collect(), vec![0, 1, 2, 3]];
    for pool in one_stream_and_two() {
        let mut spec = system(vec![pool], f64::INFINITY);
        let plain = run(&spec, &requests, &ids);
        assert_eq!(plain.looked_up[2], (16, 8, 0));
        assert_eq!(plain.records[2].first_token, at(200 + 10 + 8));
        spec.pools[0].kv.cpu_cache = Some(CpuTier {
            blocks: 100,
            bytes_per_sec: 800.0,
        });
        let tiered = run(&spec, &requests, &ids);
        assert_eq!(tiered.looked_up[2], (16, 15, 7));
        assert_eq!(tiered.records[2].first_token, at(200 + 10 + 1 + 2 * 5));
        // A tier of one block has kept the earlier of the two, which left last.
        if let Some(tier) = &mut spec.pools[0].kv.cpu_cache {
            tier.blocks = 1;
        }
        let small = run(&spec, &requests, &ids);
        assert_eq!(small.looked_up[2], (16, 12, 4));
        assert_eq!(small.records[2].first_token, at(200 + 10 + 4 + 5));
    }
}

#[test]
fn a_decode_instance_chosen_at_arrival_counts_those_on_their_way() {
    // A is gone when the prompt of B is done, but it was there when B came.
    let requests = [request(0, 10, 2), request(0, 20, 2)];
    let mut spec = system(
        vec![
            pool(Role::Prefill, 1, 1, steps()),
            pool(Role::Decode, 2, 1, steps()),
        ],
        f64::INFINITY,
    );
    spec.decode_router = RouterRule::LeastRequests;
    let on = |spec: &SystemSpec| {
        let kept = run(spec, &requests, &[]);
        let on = |i: usize| kept.records[i].decode_instance.unwrap().index();
        assert_eq!(kept.records[0].last_token, at(30));
        assert_eq!(kept.records[1].prefill_end, at(50));
        [on(0), on(1)]
    };
    assert_eq!(on(&spec), [1, 1]);
    spec.reservation = Reservation::AtHandoffChosenAtArrival;
    assert_eq!(on(&spec), [1, 2]);
}

#[test]
fn a_prompt_that_its_decode_instance_has_mostly_cached_stays_there() {
    let requests = [
        request(0, 17, 2),
        request(1000, 21, 2),
        request(2000, 21, 2),
    ];
    // The second starts like the first, whose four blocks have travelled; the third does not.
    let ids = [
        vec![0, 1, 2, 3],
        vec![0, 1, 2, 3, 4],
        (10..15).collect::<Vec<u32>>(),
    ];
    let mut spec = system(
        vec![
            caching(pool(Role::Prefill, 1, 1, steps()), 100),
            caching(pool(Role::Decode, 1, 1, steps()), 100),
        ],
        f64::INFINITY,
    );
    spec.reservation = Reservation::AtHandoffChosenAtArrival;
    let computed_on = |below: u32| {
        let mut spec = spec.clone();
        spec.skip.uncached_below = below;
        let kept = run(&spec, &requests, &ids);
        let on = |record: &RequestRecord| record.prefill_instance.unwrap().index();
        kept.records.iter().map(on).collect::<Vec<_>>()
    };
    // Five tokens are missing.
    assert_eq!(computed_on(6), [0, 1, 0]);
    assert_eq!(computed_on(5), [0, 0, 0]);
    assert_eq!(computed_on(22), [1, 1, 1]);
}
