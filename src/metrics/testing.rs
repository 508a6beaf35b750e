//! A toy system for tests: one FIFO server computes prompts, then every request decodes on its own.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt as _;

use super::{Collector, Config, RunMetrics, Slo, Warmup};
use crate::cluster::{
    Bill, FirstToken, KvReserve, KvSpec, Outcome, PoolSpec, Preemption, QueueRule, RequestRecord,
    Reservation, Role, RoleRule, RunClock, SkipPrefill, StepLimits, SystemSpec, TransferSpec,
};
use crate::ids::{InstanceId, RequestId};
use crate::latency::{DecodeCurve, LatencyModel, Stage, StepShape};
use crate::policy::batch::BatchRule;
use crate::policy::router::RouterRule;
use crate::rng;
use crate::sim::{Gaps, Observer, PoolSample, StepFact};
use crate::units::{Fine, SimDuration, SimTime};
use crate::workload::RequestSpec;

/// What arrives, and how fast it is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) requests: u32,
    pub(crate) rate: f64,
    /// Requests that arrive at the same instant.
    pub(crate) burst: u32,
    pub(crate) mean_service_s: f64,
    pub(crate) output_tokens: u32,
    pub(crate) tpot_ms: f64,
    pub(crate) config: Config,
}

impl Load {
    /// Poisson arrivals, exponential service of mean 10 ms, one output token.
    pub(crate) fn mm1(load: f64, requests: u32) -> Self {
        Self {
            requests,
            rate: 100.0 * load,
            burst: 1,
            mean_service_s: 0.01,
            output_tokens: 1,
            tpot_ms: 0.0,
            config: Config::default(),
        }
    }

    /// The same with a promise and 100 output tokens.
    pub(crate) fn chat(load: f64, requests: u32) -> Self {
        Self {
            output_tokens: 100,
            tpot_ms: 20.0 + 10.0 * load,
            config: Config {
                slo: Some(Slo {
                    ttft: Some(SimDuration::from_ms(100)),
                    tpot: Some(SimDuration::from_ms(30)),
                    e2e: None,
                    attainment: 0.9,
                }),
                warmup: Warmup::Requests(u64::from(requests / 10)),
                ..Config::default()
            },
            ..Self::mm1(load, requests)
        }
    }
}

#[derive(Debug)]
struct NoLatency;

impl LatencyModel for NoLatency {
    fn step_time(&self, _: &StepShape<'_>, _: Stage) -> SimDuration {
        unreachable!("the toy system has its own service times")
    }

    fn decode_curve(&self, _: u32, _: Stage) -> DecodeCurve {
        unreachable!("the toy system has its own service times")
    }
}

/// One prefill and one decode instance.
pub(crate) fn system() -> SystemSpec {
    let pool = |role, name: &str, batch| PoolSpec {
        name: name.to_owned(),
        role,
        instances: 1,
        gpu: "toy".to_owned(),
        bill: Bill::default(),
        tp: 1,
        pp: 1,
        dp: 1,
        ep: 1,
        latency: Arc::new(NoLatency),
        multiplex: None,
        batch,
        queue: QueueRule::default(),
        limits: StepLimits {
            max_step_tokens: 8192,
            max_step_prompts: 1,
            max_seqs: 1,
            max_decode_context: None,
            long_prompts: None,
        },
        kv: KvSpec {
            block_tokens: 16,
            blocks: Some(4000),
            watermark_blocks: 0,
            bytes_per_token: 1,
            reserve: KvReserve::Paged,
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        },
    };
    SystemSpec {
        name: "toy".to_owned(),
        pools: vec![
            pool(Role::Prefill, "prefill", BatchRule::PrefillFirst),
            pool(Role::Decode, "decode", BatchRule::PrefillFirst),
        ],
        roles: RoleRule::Fixed,
        prefill_router: RouterRule::RoundRobin,
        decode_router: RouterRule::RoundRobin,
        skip: SkipPrefill::default(),
        reservation: Reservation::AtHandoff,
        first_token: FirstToken::Prefill,
        transfer: TransferSpec::link(SimDuration::ZERO, f64::INFINITY),
        fast_forward: true,
    }
}

/// Runs the toy system and closes the books.
pub(crate) fn simulate(load: &Load, seed: u64) -> RunMetrics {
    let mut collector = Collector::new(&load.config, &system());
    drive(load, seed, &mut collector);
    collector.into_metrics()
}

/// What happens to a request, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Prefilled,
    Ended,
    Arrived,
}

fn happenings(records: &[RequestRecord]) -> Vec<(SimTime, Happening, usize)> {
    let mut all: Vec<_> = records
        .iter()
        .enumerate()
        .flat_map(|(i, r)| {
            [
                (r.arrival, Happening::Arrived, i),
                (r.prefill_end, Happening::Prefilled, i),
                (r.last_token, Happening::Ended, i),
            ]
        })
        .collect();
    all.sort_unstable();
    all
}

/// Tells `observer` the facts of a run, sampled like the real loop does.
pub(crate) fn drive(load: &Load, seed: u64, observer: &mut impl Observer) {
    let records = records(load, seed);
    let mut state = [PoolSample::default(); 2];
    let mut queue = VecDeque::new();
    for (now, what, i) in happenings(&records) {
        while observer.next_sample() < now {
            let mut sample = state;
            let started = queue
                .front()
                .is_some_and(|first: &usize| records[*first].prefill_start <= now);
            sample[0].waiting = queue.len() as u64 - u64::from(started);
            sample[0].prefilling = u64::from(started);
            sample[0].kv_capacity = 4000;
            sample[1].kv_capacity = 4000;
            sample[1].kv_used = sample[1].decoding * 20;
            observer.sample(observer.next_sample(), &sample);
        }
        let record = &records[i];
        match what {
            Happening::Arrived => {
                queue.push_back(i);
                observer.arrived(record.id, &request(record));
            }
            Happening::Prefilled => {
                queue.pop_front();
                state[1].decoding += 1;
                observer.stepped(&prefill_step(record));
                observer.kv_changed(now, InstanceId::new(1), 20, state[1].decoding * 20);
            }
            Happening::Ended => {
                state[1].decoding -= 1;
                observer.kv_changed(now, InstanceId::new(1), -20, state[1].decoding * 20);
                if record.output_tokens > 1 {
                    observer.gaps(
                        &RunClock::start(record.first_token),
                        &Gaps {
                            first: Fine::from_secs_f64(record.tpot_secs().unwrap()),
                            step: Fine(0),
                            count: u64::from(record.output_tokens - 1),
                            sequences: 1,
                        },
                    );
                }
                observer.ended(record);
            }
        }
    }
    observer.finished(
        records
            .iter()
            .map(|r| r.last_token)
            .max()
            .unwrap_or_default(),
    );
}

fn request(record: &RequestRecord) -> RequestSpec {
    RequestSpec {
        arrival: record.arrival,
        input_tokens: record.input_tokens,
        output_tokens: record.output_tokens,
        max_output: record.output_tokens,
        class: 0,
        session: 0,
    }
}

fn prefill_step(record: &RequestRecord) -> StepFact {
    StepFact {
        instance: InstanceId::new(0),
        stage: 0,
        start: record.prefill_start,
        end: record.prefill_end,
        steps: 1,
        prompts: 1,
        prefill_tokens: u64::from(record.input_tokens),
        past_tokens: 0,
        decodes: 0,
        context: 0,
        run: None,
    }
}

fn records(load: &Load, seed: u64) -> Vec<RequestRecord> {
    let mut arrivals = rng::stream(seed, "arrivals");
    let mut services = rng::stream(seed, "lengths");
    let exponential = move |rng: &mut rng::Rng, mean: f64| {
        let u: f64 = rng.random();
        SimDuration::from_secs_f64(-mean * (1.0 - u).ln()).unwrap()
    };
    let (mut now, mut free) = (SimTime::ZERO, SimTime::ZERO);
    (0..load.requests)
        .map(|i| {
            if i % load.burst == 0 {
                let gap = f64::from(load.burst) / load.rate;
                now = now + exponential(&mut arrivals, gap);
            }
            let start = now.max(free);
            free = start + exponential(&mut services, load.mean_service_s);
            let jitter = 0.9 + 0.2 * services.random::<f64>();
            let per_token = SimDuration::from_secs_f64(load.tpot_ms / 1e3 * jitter).unwrap();
            RequestRecord {
                id: RequestId::new(i as usize),
                outcome: Outcome::Done,
                class: 0,
                preemptions: 0,
                input_tokens: 1000,
                output_tokens: load.output_tokens,
                cached_tokens: 0,
                prefill_instance: Some(InstanceId::new(0)),
                decode_instance: Some(InstanceId::new(1)),
                arrival: now,
                routed: now,
                prefill_start: start,
                prefill_end: free,
                transfer_start: free,
                transfer_end: free,
                decode_start: free,
                first_token: free,
                last_token: free + per_token * u64::from(load.output_tokens - 1),
            }
        })
        .collect()
}
