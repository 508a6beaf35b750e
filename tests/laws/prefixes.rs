//! L4 and token balance with prefix caches: shared blocks are counted once and what is cached is not computed.

use std::sync::Arc;

use pdsim::cluster::{Observer, Outcome, RequestRecord, Role};
use pdsim::ids::{InstanceId, RequestId};
use pdsim::policy::router::{LoadPenalty, RouterRule};
use pdsim::sim::{Options, StepFact, simulate};
use pdsim::units::SimTime;
use pdsim::workload::Prefixes;

use crate::pick::Pick;
use crate::scenario::Scenario;

#[derive(Default)]
struct Seen {
    used: std::collections::BTreeMap<InstanceId, u64>,
    computed: u64,
    preemptions: u64,
    records: Vec<RequestRecord>,
}

impl Observer for Seen {
    fn ended(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }

    fn stepped(&mut self, fact: &StepFact) {
        if fact.stage == 0 {
            self.computed += fact.prefill_tokens * fact.steps;
        }
    }

    fn kv_changed(&mut self, _: SimTime, instance: InstanceId, _: i64, used: u64) {
        self.used.insert(instance, used);
    }

    fn preempted(&mut self, _: SimTime, _: InstanceId, _: RequestId) {
        self.preemptions += 1;
    }
}

fn run(scenario: &Scenario) -> Seen {
    let mut seen = Seen::default();
    let options = Options {
        prefixes: scenario.prefixes.clone(),
        ..Options::default()
    };
    let requests = scenario.requests.iter().copied();
    simulate(&scenario.spec, requests, options, &mut seen).unwrap();
    seen
}

#[test]
fn l4_shared_blocks_balance_and_cached_tokens_are_not_computed() {
    let mut exact = 0;
    for seed in 5_000_000..5_000_400 {
        let scenario = Scenario::random(seed).with_prefixes(seed);
        let seen = run(&scenario);
        assert!(
            seen.used.values().all(|&used| used == 0),
            "L4, seed {seed}: {:?}",
            seen.used
        );
        let done = seen.records.iter().filter(|r| r.outcome == Outcome::Done);
        let mut to_compute = 0;
        for record in done {
            assert!(
                record.cached_tokens < record.input_tokens,
                "one token is left to compute"
            );
            to_compute += u64::from(record.input_tokens - record.cached_tokens);
        }
        if seen.preemptions == 0 {
            assert_eq!(seen.computed, to_compute, "seed {seed}");
            exact += 1;
        } else {
            assert!(seen.computed >= to_compute, "seed {seed}");
        }
    }
    assert!(exact > 200, "only {exact} scenarios without preemption");
}

/// A colocated scenario of three equal instances, with prompts of `groups` shared starts, one after another.
fn grouped(groups: u32, router: RouterRule) -> Scenario {
    let mut scenario = (0..)
        .map(Scenario::random)
        .find(|s| {
            s.spec.pools.len() == 1 && s.spec.pools[0].pp == 1 && s.spec.pools[0].role == Role::Both
        })
        .expect("some scenario is colocated");
    let pool = &mut scenario.spec.pools[0];
    pool.instances = 3;
    pool.kv.block_tokens = 4;
    pool.kv.blocks = Some(500);
    pool.kv.watermark_blocks = 0;
    pool.kv.prefix_cache = true;
    pool.limits.max_seqs = u32::MAX;
    pool.limits.max_step_tokens = 2048;
    scenario.spec.prefill_router = router;
    let template = scenario.requests[0];
    let pick = &mut Pick::new(1, "groups");
    let mut prefixes = Prefixes::new(4);
    scenario.requests = (0..300_u32)
        .map(|i| {
            // 30 shared blocks and one of its own: 124 tokens.
            let group = u32::try_from(pick.from(0, u64::from(groups) - 1)).unwrap();
            prefixes.push((0..30).map(|depth| group * 30 + depth).chain([100_000 + i]));
            pdsim::workload::RequestSpec {
                arrival: SimTime::from_ps(u64::from(i) * 200_000_000_000),
                input_tokens: 124,
                output_tokens: 2,
                max_output: 2,
                ..template
            }
        })
        .collect();
    scenario.prefixes = Some(Arc::new(prefixes));
    scenario
}

fn cached(scenario: &Scenario) -> u64 {
    run(scenario)
        .records
        .iter()
        .map(|r| u64::from(r.cached_tokens))
        .sum()
}

#[test]
fn a_prefix_aware_router_finds_more_than_round_robin_with_many_groups() {
    // 40 groups of 30 blocks do not fit one instance (500 blocks), a third of them fits each.
    let aware = cached(&grouped(
        40,
        RouterRule::PrefixAware(LoadPenalty::default()),
    ));
    let turns = cached(&grouped(40, RouterRule::RoundRobin));
    assert!(
        aware > turns * 3 / 2,
        "{aware} cached tokens against {turns}"
    );
}
