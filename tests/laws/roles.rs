//! Laws of systems in which instances change roles.

use std::sync::Arc;

use pdsim::cluster::{
    Band, DecodeLoad, DynamicRule, FirstToken, KvReserve, LongPrompts, MixedPoolRule, Preemption,
    QueueRule, Reservation, Role, RoleRule, SkipPrefill, StepLimits, TransferSpec,
};
use pdsim::ids::InstanceId;
use pdsim::latency::fixed::Fixed;
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

use crate::books::Books;
use crate::facts::Facts;
use crate::idle::{outside, steps_of, union};
use crate::scenario::Scenario;

fn books(scenario: &Scenario, fast_forward: bool, horizon: Option<SimTime>) -> (Books, SimTime) {
    let spec = scenario.spec_with(fast_forward);
    let mut books = Books::new(&spec, horizon);
    let options = Options {
        seed: 1,
        horizon,
        ..Options::default()
    };
    let requests = scenario.requests.iter().copied();
    let end = simulate(&spec, requests, options, &mut books);
    books.assert_closed();
    (books, end.unwrap())
}

#[test]
fn l1_to_l5_hold_where_roles_change() {
    for seed in 21_000_000..21_000_600 {
        let scenario = Scenario::moving(seed);
        let (whole, end) = books(&scenario, seed % 2 == 0, None);
        assert_eq!(
            whole.records.len(),
            scenario.requests.len(),
            "L1, seed {seed}"
        );
        let horizon = SimTime::from_ps(end.as_ps() / 10 * (seed % 10));
        let (_, stopped) = books(&scenario, seed % 2 == 1, Some(horizon));
        assert!(stopped <= horizon);
    }
}

#[test]
fn l1_to_l5_hold_where_roles_change_and_prompts_start_alike() {
    for seed in 21_100_000..21_100_200 {
        let scenario = Scenario::moving(seed).with_prefixes(seed);
        let spec = scenario.spec_with(true);
        let mut books = Books::new(&spec, None);
        let options = Options {
            seed: 1,
            prefixes: scenario.prefixes.clone(),
            ..Options::default()
        };
        simulate(
            &spec,
            scenario.requests.iter().copied(),
            options,
            &mut books,
        )
        .unwrap();
        books.assert_closed();
    }
}

#[test]
fn l6_no_moving_instance_idles_with_runnable_work() {
    // With memory and seats for all, a request on an instance can always move: its prompt from the queue to its end, its sequence from
    // when its KV cache is there to its last token.
    let mut put_to_test = 0;
    for seed in 21_200_000..21_200_300 {
        let mut scenario = Scenario::moving(seed);
        for pool in &mut scenario.spec.pools {
            pool.kv.blocks = None;
            pool.limits.max_seqs = u32::MAX;
            // A batch that runs to completion waits for a KV cache on its way, too.
            if pool.batch == BatchRule::RunToCompletion {
                pool.batch = BatchRule::Mixed;
            }
        }
        scenario.spec.reservation = Reservation::AtHandoff;
        let (records, steps) = steps_of(&scenario, seed % 2 == 0);
        let instances: u32 = scenario.spec.pools.iter().map(|pool| pool.instances).sum();
        for i in 0..instances as usize {
            let id = Some(InstanceId::new(i));
            let mut work = Vec::new();
            for r in &records {
                if r.prefill_instance == id {
                    work.push((r.routed, r.prefill_end));
                }
                if r.decode_instance == id {
                    let here = r.prefill_instance == id;
                    work.push((
                        if here { r.prefill_end } else { r.transfer_end },
                        r.last_token,
                    ));
                }
            }
            let busy = steps.iter().filter(|f| Some(f.instance) == id);
            let busy = union(busy.map(|f| (f.start, f.end)).collect());
            let work = union(work);
            assert_eq!(outside(&work, &busy), [], "L6, seed {seed}: {id:?} idles");
            assert_eq!(
                outside(&busy, &work),
                [],
                "L6, seed {seed}: {id:?} steps without work"
            );
            put_to_test += usize::from(!work.is_empty());
        }
    }
    assert!(put_to_test > 500, "{put_to_test}");
}

/// A rule whose marks no load reaches.
fn never() -> RoleRule {
    RoleRule::Dynamic(DynamicRule {
        prefill_queue: Band {
            low: 1e-9,
            high: 1e18,
        },
        decode_load: DecodeLoad::Sequences,
        decode: Band {
            low: 1e-9,
            high: 1e18,
        },
        at_least: [1, 1],
        dwell: SimDuration::ZERO,
        switch_time: SimDuration::from_ms(1),
    })
}

#[test]
fn a_dynamic_system_whose_marks_are_never_reached_is_the_static_split() {
    for seed in 21_300_000..21_300_400 {
        let mut fixed = Scenario::split(seed).with_prefixes(seed);
        if seed % 2 == 0 {
            fixed.prefixes = None;
        }
        // Any instance could come to decode, so requests that do not fit there are refused; memory is made the same for both.
        let kv = fixed.spec.pools[0].kv;
        for pool in &mut fixed.spec.pools {
            pool.kv = kv;
        }
        let largest = fixed
            .requests
            .iter()
            .map(|r| r.input_tokens + r.max_output)
            .max();
        let moving = fixed.clone().under(never());
        let fits = kv.blocks.is_none_or(|blocks| {
            blocks * u64::from(kv.block_tokens)
                >= u64::from(largest.unwrap()) + u64::from(kv.block_tokens)
        });
        if !fits {
            continue;
        }
        for fast_forward in [true, false] {
            let expected = Facts::of(&fixed, fast_forward, None);
            let seen = Facts::of(&moving, fast_forward, None);
            assert_eq!(seen.difference(&expected), None, "seed {seed}");
        }
    }
}

#[test]
fn a_mixed_pool_that_nobody_joins_is_the_static_split() {
    let mut travelled = 0;
    for seed in 21_400_000..21_400_300 {
        let mut fixed = Scenario::split(seed);
        let spec = &mut fixed.spec;
        // The rule takes the prompt instance with the least pending tokens; with one decode instance it has no choice there.
        spec.prefill_router = RouterRule::LeastTokens;
        spec.skip = SkipPrefill::default();
        spec.reservation = Reservation::AtHandoff;
        spec.transfer.sharing = None;
        spec.pools.retain(|pool| pool.role == Role::Prefill);
        let decode = pdsim::cluster::PoolSpec {
            name: "decode".to_owned(),
            role: Role::Decode,
            instances: 1,
            ..spec.pools[0].clone()
        };
        spec.pools.push(decode);
        for pool in &mut spec.pools {
            pool.kv.blocks = None;
            pool.kv.preemption = Preemption::Recompute;
        }
        let moving = fixed.clone().under(RoleRule::MixedPool(MixedPoolRule {
            prompt_tokens: u64::MAX,
            kv_share: 1.0,
        }));
        let (expected, seen) = (
            Facts::of(&fixed, true, None),
            Facts::of(&moving, true, None),
        );
        assert_eq!(seen.difference(&expected), None, "seed {seed}");
        travelled += seen.transfers.len();
    }
    assert!(travelled > 1000, "put to the test: {travelled}");
}

#[test]
fn requests_of_one_instance_do_not_travel() {
    // One token of room: every second prompt pulls an instance, most requests stay where they are.
    let (mut stayed, mut travelled) = (0, 0);
    for seed in 21_500_000..21_500_200 {
        let scenario = Scenario::split(seed).under(RoleRule::MixedPool(MixedPoolRule {
            prompt_tokens: 1,
            kv_share: 1.0,
        }));
        for r in Facts::of(&scenario, true, None).records {
            if r.decode_instance.is_none() {
                continue;
            }
            let apart = r.decode_instance != r.prefill_instance;
            assert_eq!(
                apart,
                r.transfer_start != SimTime::NEVER,
                "seed {seed}: {r:?}"
            );
            (stayed, travelled) = (stayed + u64::from(!apart), travelled + u64::from(apart));
        }
    }
    assert!(stayed > 500 && travelled > 500, "{stayed} {travelled}");
}

#[test]
fn a_long_prompt_that_passes_through_may_be_kept_from_interrupting_decodes() {
    // Number 0 decodes on the first token instance from 200 to 500 ms, one token in 10 ms. While the prompt instance computes number 1 and
    // number 2 waits there, number 3 comes, which pulls that token instance to compute its prompt; it will decode on the other one.
    let prompts = [(0, 200, 31), (300, 50, 2), (301, 50, 2), (302, 20, 2)];
    let mut scenario = Scenario::split(21_700_000).under(RoleRule::MixedPool(MixedPoolRule {
        prompt_tokens: 1,
        kv_share: 1.0,
    }));
    let start = |scenario: &Scenario| {
        let records = Facts::of(scenario, true, None).records;
        let of = |id: usize| *records.iter().find(|r| r.id.index() == id).unwrap();
        let (busy, long) = (of(0), of(3));
        assert_eq!(long.prefill_instance, busy.decode_instance);
        assert_ne!(long.decode_instance, busy.decode_instance);
        long.prefill_start - SimTime::ZERO
    };
    scenario.spec.transfer = TransferSpec::link(SimDuration::ZERO, f64::INFINITY);
    scenario.spec.first_token = FirstToken::Prefill;
    for (pool, instances) in scenario.spec.pools.iter_mut().zip([1, 2]) {
        (pool.instances, pool.pp, pool.multiplex) = (instances, 1, None);
        pool.batch = BatchRule::PrefillFirst;
        (pool.queue, pool.kv.reserve) = (QueueRule::default(), KvReserve::Paged);
        (pool.kv.block_tokens, pool.kv.blocks) = (1, Some(10_000));
        pool.kv.watermark_blocks = 0;
        pool.limits = StepLimits {
            max_step_tokens: u32::MAX,
            max_step_prompts: u32::MAX,
            max_seqs: u32::MAX,
            max_decode_context: None,
            long_prompts: None,
        };
        pool.latency = Arc::new(Fixed {
            prefill_per_token: SimDuration::from_ms(1),
            decode: SimDuration::from_ms(10),
            ..Fixed::default()
        });
    }
    scenario.requests = prompts
        .map(|(at, input_tokens, output_tokens)| RequestSpec {
            arrival: SimTime::ZERO + SimDuration::from_ms(at),
            input_tokens,
            output_tokens,
            max_output: output_tokens,
            class: 0,
            session: 0,
        })
        .to_vec();
    let step_end = SimDuration::from_ms(310);
    assert_eq!(start(&scenario), step_end);
    for (above, starts) in [(20, step_end), (19, SimDuration::from_ms(500))] {
        scenario.spec.pools[1].limits.long_prompts = Some(LongPrompts {
            above,
            most: u32::MAX,
            interrupts: false,
        });
        assert_eq!(start(&scenario), starts, "longer than {above}");
    }
}

#[test]
fn an_instance_drains_and_takes_its_time_before_it_works_in_its_new_role() {
    // Nothing is sent to it from when it begins to drain until it has the new role.
    let mut tested = 0;
    for seed in 21_600_000..21_600_600 {
        let scenario = Scenario::moving(seed);
        let RoleRule::Dynamic(rule) = &scenario.spec.roles else {
            continue;
        };
        let facts = Facts::of(&scenario, true, None);
        for (at, &(left, id, role)) in facts.roles.iter().enumerate() {
            if role.is_some() {
                continue;
            }
            let later = &facts.roles[at + 1..];
            // The last one may not get there before the run ends.
            let Some(&(taken, ..)) = later.iter().find(|r| r.1 == id) else {
                continue;
            };
            assert!(taken >= left + rule.switch_time, "seed {seed}: {id:?}");
            tested += 1;
            for r in &facts.records {
                let came = |at: SimTime, on| on == Some(id) && at > left && at < taken;
                assert!(
                    !came(r.routed, r.prefill_instance),
                    "seed {seed}: {id:?} {r:?}"
                );
            }
        }
        let mut since = std::collections::BTreeMap::new();
        for &(at, id, role) in &facts.roles {
            let before = since.get(&id).copied().unwrap_or(SimTime::ZERO);
            if role.is_none() {
                assert!(
                    at >= before + rule.dwell,
                    "seed {seed}: {id:?} did not dwell"
                );
            }
            since.insert(id, at);
        }
    }
    assert!(tested > 200, "put to the test: {tested}");
}

#[test]
fn whole_sequences_reserved_at_once_never_overcommit_a_moving_instance() {
    for seed in 21_700_000..21_700_300 {
        let mut scenario = Scenario::moving(seed);
        for pool in &mut scenario.spec.pools {
            pool.kv.reserve = if seed % 2 == 0 {
                KvReserve::Oracle
            } else {
                KvReserve::MaxOutput
            };
            pool.batch = BatchRule::Mixed;
        }
        scenario.spec.first_token = FirstToken::Decode;
        let (books, _) = books(&scenario, true, None);
        assert!(
            books.records.iter().all(|r| r.preemptions == 0),
            "seed {seed}"
        );
    }
}
