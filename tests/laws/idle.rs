//! L6: an instance with runnable work is never idle.

use pdsim::cluster::{Preemption, RequestRecord, Reservation, Role, SkipPrefill};
use pdsim::ids::InstanceId;
use pdsim::sim::{Observer, Options, StepFact, simulate};
use pdsim::units::SimTime;

use crate::scenario::Scenario;

#[derive(Default)]
struct Steps {
    facts: Vec<StepFact>,
    records: Vec<RequestRecord>,
}

impl Observer for Steps {
    fn stepped(&mut self, fact: &StepFact) {
        self.facts.push(*fact);
    }

    fn ended(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }
}

type Span = (SimTime, SimTime);

/// Overlapping and touching spans joined, empty ones dropped.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|(from, to)| from < to);
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// The parts of `spans` (a union) outside `cover` (a union).
fn outside(spans: &[Span], cover: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    for &(start, to) in spans {
        let mut from = start;
        for &(begin, end) in cover.iter().filter(|c| c.1 > start && c.0 < to) {
            left.push((from, begin));
            from = end;
        }
        left.push((from, to));
    }
    union(left)
}

/// When an instance has a request that is its to move, and when something else may hold all of those back.
fn work(
    role: Role,
    reservation: Reservation,
    id: InstanceId,
    records: &[RequestRecord],
) -> (Vec<Span>, Vec<Span>) {
    let here = |instance: Option<InstanceId>| instance == Some(id);
    let (mut work, mut excused) = (Vec::new(), Vec::new());
    for r in records {
        match role {
            // Memory is taken by sequences that can run, so one always can.
            // So does what skipped the prefill pools.
            Role::Both | Role::Decode if here(r.prefill_instance) => {
                work.push((r.routed, r.last_token));
            }
            Role::Prefill if here(r.prefill_instance) => {
                work.push((r.routed, r.prefill_end));
                if r.transfer_end != SimTime::NEVER {
                    // Its blocks are pinned until the KV cache has left.
                    excused.push((r.prefill_end, r.transfer_end));
                }
            }
            Role::Decode if here(r.decode_instance) => {
                work.push((r.transfer_end, r.last_token));
                // Blocks reserved for a KV cache on its way keep preempted sequences waiting.
                let since = match reservation {
                    Reservation::AtHandoff | Reservation::AtHandoffChosenAtArrival => r.prefill_end,
                    Reservation::Early => r.arrival,
                };
                excused.push((since, r.transfer_end));
            }
            // A one-token output holds what was reserved early until its prompt is done; its history does not tell where.
            Role::Decode if reservation == Reservation::Early && r.decode_instance.is_none() => {
                excused.push((r.arrival, r.last_token));
            }
            _ => {}
        }
    }
    (union(work), union(excused))
}

#[test]
fn l6_no_instance_idles_with_runnable_work() {
    let (mut strict, mut excused_some) = (0, 0);
    for seed in 5_000_000..5_000_500 {
        let mut scenario = Scenario::random(seed);
        for pool in &mut scenario.spec.pools {
            // A history does not tell when a prompt is computed again elsewhere.
            if pool.kv.preemption == Preemption::ReturnToPrefill {
                pool.kv.preemption = Preemption::Recompute;
            }
        }
        let spec = scenario.spec_with(seed % 2 == 0);
        let mut steps = Steps::default();
        simulate(
            &spec,
            scenario.requests.iter().copied(),
            Options::default(),
            &mut steps,
        )
        .unwrap();
        let pools = spec
            .pools
            .iter()
            .flat_map(|pool| std::iter::repeat_n(pool, pool.instances as usize));
        for (index, pool) in pools.enumerate() {
            let id = InstanceId::new(index);
            let (work, excused) = work(pool.role, spec.reservation, id, &steps.records);
            let mine = steps.facts.iter().filter(|f| f.instance == id);
            let busy = union(mine.map(|f| (f.start, f.end)).collect());
            let idle = outside(&work, &busy);
            assert_eq!(
                outside(&busy, &work),
                [],
                "L6, seed {seed}: {id:?} steps without work"
            );
            let preempting = steps.records.iter().any(|r| r.preemptions > 0);
            // Seats and blocks of a KV cache on its way keep prompts that skipped the prefill pools waiting.
            let skips = pool.role == Role::Decode && spec.skip != SkipPrefill::default();
            let held_back =
                skips || pool.kv.blocks.is_some() && (pool.role != Role::Both || preempting);
            let unexcused = if held_back {
                outside(&idle, &excused)
            } else {
                idle.clone()
            };
            assert_eq!(unexcused, [], "L6, seed {seed}: {id:?} idles");
            strict += usize::from(!work.is_empty());
            excused_some += usize::from(!idle.is_empty());
        }
    }
    assert!(
        strict > 500 && excused_some > 5,
        "the law was put to the test: {strict}, {excused_some}"
    );
}
