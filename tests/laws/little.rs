//! L13: Little's law on the numbers of every run, and per phase at every sample.

use pdsim::cluster::{Outcome, Preemption, RequestRecord, Role, SystemSpec};
use pdsim::metrics::{Collector, Config, Warmup};
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};

use crate::facts::Facts;
use crate::scenario::Scenario;

#[test]
fn l13_mean_in_system_is_rate_times_mean_sojourn() {
    for seed in 11_000_000..11_000_200 {
        let scenario = Scenario::random(seed);
        let spec = scenario.spec_with(true);
        let end = simulate(
            &spec,
            scenario.requests.iter().copied(),
            Options::default(),
            &mut (),
        )
        .unwrap();
        let half = SimTime::from_ps(end.as_ps() / 2);
        let some = scenario.requests.len() as u64 / 4;
        let quarter = SimDuration::from_ps(end.as_ps() / 4);
        let warmups = [Warmup::None, Warmup::Requests(some), Warmup::Time(quarter)];
        for (horizon, warmup) in [None, Some(half)]
            .into_iter()
            .flat_map(|horizon| warmups.map(|warmup| (horizon, warmup)))
        {
            let config = Config {
                warmup,
                ..Config::default()
            };
            let mut collector = Collector::new(&config, &spec);
            simulate(
                &spec,
                scenario.requests.iter().copied(),
                Options {
                    seed: 1,
                    horizon,
                    ..Options::default()
                },
                &mut collector,
            )
            .unwrap();
            let metrics = collector.into_metrics();
            assert!(
                metrics.little.exact,
                "L13, seed {seed}, {warmup:?}: {:?}",
                metrics.little
            );
            let counts = metrics.counts;
            if counts.done == counts.measured && counts.done > 0 {
                // The reader's own check: all three figures are of the same requests and the same span.
                let e2e = metrics.e2e.as_ref().unwrap().mean_ms / 1e3;
                let product = metrics.throughput.requests_per_s * e2e;
                let mean = metrics.little.mean_in_system;
                assert!(
                    (mean - product).abs() <= 1e-9 * mean,
                    "L13, seed {seed}, {warmup:?}: {mean} {product}"
                );
            }
        }
    }
}

/// Requests that the records place in each phase of pools of `role` at `now`: (before prefill end, handing off, decoding).
fn expected(
    spec: &SystemSpec,
    records: &[RequestRecord],
    role: Role,
    now: SimTime,
) -> (u64, u64, u64) {
    let roles: Vec<Role> = spec
        .pools
        .iter()
        .flat_map(|pool| std::iter::repeat_n(pool.role, pool.instances as usize))
        .collect();
    let within = |from: SimTime, to: SimTime| u64::from(from <= now && now < to);
    let mut counts = (0, 0, 0);
    for r in records.iter().filter(|r| r.outcome == Outcome::Done) {
        let on = roles[r.prefill_instance.unwrap().index()];
        if on == role {
            counts.0 += within(r.routed, r.prefill_end);
        }
        if on == Role::Prefill && role == Role::Decode {
            // It waited there for an early reservation.
            counts.0 += within(r.arrival, r.routed);
        }
        if on == Role::Prefill && r.decode_instance.is_some() {
            counts.1 += u64::from(role == Role::Prefill) * within(r.prefill_end, r.transfer_end);
            counts.2 += u64::from(role == Role::Decode) * within(r.transfer_end, r.last_token);
        } else if on == role && on != Role::Prefill {
            counts.2 += within(r.prefill_end, r.last_token);
        }
    }
    counts
}

#[test]
fn every_sample_places_each_request_in_the_phase_of_its_record() {
    for seed in 11_100_000..11_100_200 {
        let mut scenario = Scenario::random(seed);
        for pool in &mut scenario.spec.pools {
            // A history does not tell when a prompt is computed again elsewhere.
            if pool.kv.preemption == Preemption::ReturnToPrefill {
                pool.kv.preemption = Preemption::Recompute;
            }
        }
        let facts = Facts::of(&scenario, seed % 2 == 0, None);
        for (now, pools) in facts.samples.iter().step_by(7) {
            for role in [Role::Both, Role::Prefill, Role::Decode] {
                let mine = || {
                    scenario
                        .spec
                        .pools
                        .iter()
                        .zip(pools)
                        .filter(|(pool, _)| pool.role == role)
                };
                let prompts: u64 = mine().map(|(_, s)| s.waiting + s.prefilling).sum();
                let handing_off: u64 = mine().map(|(_, s)| s.handing_off).sum();
                let decoding: u64 = mine().map(|(_, s)| s.decoding).sum();
                let (before, handing, after) = expected(&scenario.spec, &facts.records, role, *now);
                let seen = (prompts + decoding, handing_off);
                assert_eq!(
                    seen,
                    (before + after, handing),
                    "seed {seed}, {role:?} at {now:?}"
                );
                // Preempted sequences wait as prompts again.
                if facts.preemptions.is_empty() {
                    assert_eq!(
                        (prompts, decoding),
                        (before, after),
                        "seed {seed}, {role:?} at {now:?}"
                    );
                }
            }
        }
    }
}
