//! Where prefix-aware routing pays and where it does not.

use std::sync::Arc;

use pdsim::cluster::{KvSpec, Observer, RequestRecord, Role};
use pdsim::latency::fixed::Fixed;
use pdsim::policy::router::{LoadPenalty, RouterRule};
use pdsim::rng;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::{Prefixes, RequestSpec};
use rand::RngExt as _;

use crate::system::{pool, system};

#[derive(Default)]
struct Means {
    ended: u64,
    ttft_ms: f64,
    e2e_ms: f64,
    cached: u64,
    prompt: u64,
}

impl Observer for Means {
    fn ended(&mut self, record: &RequestRecord) {
        self.ended += 1;
        self.ttft_ms += record.ttft().unwrap().as_ms_f64();
        self.e2e_ms += record.e2e().unwrap().as_ms_f64();
        self.cached += u64::from(record.cached_tokens);
        self.prompt += u64::from(record.input_tokens);
    }
}

const PREFIX_BLOCKS: u32 = 64;
const OWN_BLOCKS: u32 = 4;

/// Four instances with room for a dozen prefixes each; 1,500 prompts of 1,088 tokens, 1,024 of them shared within a group, 100 output
/// tokens each. A step takes 2 ms and 20 us per prompt token, or 5 ms and 1 ms per decoding sequence.
fn run(router: RouterRule, groups: u32, gap_ms: f64) -> Means {
    let steps = Fixed {
        prefill: SimDuration::from_ms(2),
        prefill_per_token: SimDuration::from_ps(20_000_000),
        decode: SimDuration::from_ms(5),
        decode_per_sequence: SimDuration::from_ms(1),
    };
    let mut one = pool(Role::Both, 4, 1, steps);
    one.kv = KvSpec {
        block_tokens: 16,
        blocks: Some(u64::from(PREFIX_BLOCKS) * 25),
        prefix_cache: true,
        ..one.kv
    };
    let mut spec = system(vec![one], f64::INFINITY);
    spec.prefill_router = router;
    let mut prefixes = Prefixes::new(16);
    let mut draws = rng::stream(1, "routing");
    let mut now_ms = 0.0;
    let requests: Vec<RequestSpec> = (0..1500_u32)
        .map(|i| {
            now_ms -= gap_ms * (1.0 - draws.random::<f64>()).ln();
            let group = draws.random_range(0..groups);
            let shared = group * PREFIX_BLOCKS..(group + 1) * PREFIX_BLOCKS;
            let first = groups * PREFIX_BLOCKS + i * OWN_BLOCKS;
            prefixes.push(shared.chain(first..first + OWN_BLOCKS));
            RequestSpec {
                arrival: SimTime::ZERO + SimDuration::from_secs_f64(now_ms / 1e3).unwrap(),
                input_tokens: 16 * (PREFIX_BLOCKS + OWN_BLOCKS),
                output_tokens: 100,
                max_output: 100,
                class: 0,
                session: 0,
            }
        })
        .collect();
    let options = Options {
        prefixes: Some(Arc::new(prefixes)),
        ..Options::default()
    };
    let mut means = Means::default();
    simulate(&spec, requests, options, &mut means).unwrap();
    let count = means.ended as f64;
    means.ttft_ms /= count;
    means.e2e_ms /= count;
    println!(
        "{groups} groups, {router:?}: TTFT {:.1} ms, E2E {:.0} ms, cached {:.2}",
        means.ttft_ms,
        means.e2e_ms,
        means.cached as f64 / means.prompt as f64
    );
    means
}

fn prefix_aware(context_milli: u32) -> RouterRule {
    RouterRule::PrefixAware(LoadPenalty {
        context_milli,
        ..LoadPenalty::default()
    })
}

#[test]
fn prefix_aware_routing_loses_to_round_robin_on_one_hot_prefix() {
    // Everybody's prefix is on one instance, whose decode batch nobody counts.
    let aware = run(prefix_aware(0), 1, 50.0);
    let turns = run(RouterRule::RoundRobin, 1, 50.0);
    assert!(
        aware.e2e_ms > 1.5 * turns.e2e_ms,
        "E2E {} ms against {} ms",
        aware.e2e_ms,
        turns.e2e_ms
    );
    // Contexts in the penalty put that right.
    let weighed = run(prefix_aware(1000), 1, 50.0);
    assert!(
        weighed.e2e_ms < 1.1 * turns.e2e_ms,
        "E2E {} ms against {} ms",
        weighed.e2e_ms,
        turns.e2e_ms
    );
}

#[test]
fn prefix_aware_routing_wins_over_round_robin_with_many_prefixes() {
    // Forty prefixes are more than one instance has room for, but not more than four.
    let aware = run(prefix_aware(0), 40, 50.0);
    let turns = run(RouterRule::RoundRobin, 40, 50.0);
    assert!(
        aware.cached > turns.cached * 3 / 2,
        "{} cached tokens against {}",
        aware.cached,
        turns.cached
    );
    assert!(
        aware.ttft_ms < 0.7 * turns.ttft_ms,
        "TTFT {} ms against {} ms",
        aware.ttft_ms,
        turns.ttft_ms
    );
}
