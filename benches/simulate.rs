//! Simulated requests per second of the engine alone, records kept.
//!
//! `cargo bench --bench simulate`. Eight instances and once a thousand, 1,024 prompt tokens, Poisson arrivals; the step times are of the order of
//! an 8B model on an H100. Output lengths of 800 and 3,200 come at a quarter and a sixteenth of the rate, so
//! that the token load stays equal. `stepping` is the slow twin on the first case.

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pdsim::cluster::{
    Bill, FirstToken, KvReserve, KvSpec, Observer, PoolSpec, Preemption, QueueRule, RequestRecord,
    Reservation, Role, RoleRule, SkipPrefill, StepLimits, SystemSpec, TransferSpec,
};
use pdsim::latency::polynomial::{Coefficients, DecodeTerms, Polynomial, Terms};
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::rng::stream;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;
use rand::RngExt;

const REQUESTS: u32 = 20_000;

struct Keep(Vec<RequestRecord>);

impl Observer for Keep {
    fn ended(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

fn requests(output_tokens: u32, rate: f64) -> Vec<RequestSpec> {
    let mut rng = stream(1, "arrivals");
    let mut at = 0.0;
    (0..REQUESTS)
        .map(|_| {
            at -= (1.0 - rng.random::<f64>()).ln() / rate;
            RequestSpec {
                arrival: SimTime::ZERO
                    + SimDuration::from_secs_f64(at).expect("arrivals are finite"),
                input_tokens: 1024,
                output_tokens,
                max_output: output_tokens,
                class: 0,
                session: 0,
            }
        })
        .collect()
}

fn pool(role: Role, instances: u32, batch: BatchRule, max_step_tokens: u32) -> PoolSpec {
    let decode = Terms {
        a: 8.0,
        b: 4e-5,
        c: 0.02,
    };
    let coefficients = Coefficients {
        prefill: Terms {
            a: 8.0,
            b: 0.02,
            c: 1e-7,
        },
        decode: DecodeTerms {
            small: decode,
            large: decode,
            large_batch_from: u32::MAX,
        },
        prefill_stage_overhead: 0.0,
        step_overhead: 0.0,
        step_overhead_per_token: 0.0,
    };
    PoolSpec {
        name: "pool".to_owned(),
        role,
        instances,
        gpu: "h100-sxm".to_owned(),
        bill: Bill::default(),
        tp: 1,
        pp: 1,
        dp: 1,
        ep: 1,
        latency: Arc::new(Polynomial::new(coefficients).expect("the coefficients are valid")),
        multiplex: None,
        batch,
        queue: QueueRule::default(),
        limits: StepLimits {
            max_step_tokens,
            max_step_prompts: 256,
            max_seqs: 256,
            max_decode_context: None,
            long_prompts: None,
        },
        kv: KvSpec {
            block_tokens: 16,
            blocks: Some(30_000),
            watermark_blocks: 300,
            bytes_per_token: 131_072,
            reserve: KvReserve::Paged,
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        },
    }
}

fn system(pools: Vec<PoolSpec>) -> SystemSpec {
    SystemSpec {
        name: "bench".to_owned(),
        pools,
        roles: RoleRule::Fixed,
        prefill_router: RouterRule::LeastTokens,
        decode_router: RouterRule::LeastTokens,
        skip: SkipPrefill::default(),
        reservation: Reservation::AtHandoff,
        first_token: FirstToken::Prefill,
        transfer: TransferSpec::link(SimDuration::from_ps(10_000_000), 50e9),
        fast_forward: true,
    }
}

fn colocated() -> SystemSpec {
    system(vec![pool(Role::Both, 8, BatchRule::PrefillFirst, 8192)])
}

fn chunked() -> SystemSpec {
    system(vec![pool(Role::Both, 8, BatchRule::DecodeFirst, 512)])
}

fn disaggregated() -> SystemSpec {
    system(vec![
        pool(Role::Prefill, 4, BatchRule::PrefillFirst, 8192),
        pool(Role::Decode, 4, BatchRule::PrefillFirst, 8192),
    ])
}

fn run(spec: &SystemSpec, requests: &[RequestSpec]) -> usize {
    let mut kept = Keep(Vec::with_capacity(requests.len()));
    simulate(
        spec,
        requests.iter().copied(),
        Options::default(),
        &mut kept,
    )
    .expect("the workload is ordered and nothing stalls");
    assert_eq!(kept.0.len(), requests.len());
    kept.0.len()
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(u64::from(REQUESTS)));
    group
        .sample_size(20)
        .measurement_time(Duration::from_secs(3));
    let base = requests(200, 40.0);
    for (name, spec) in [
        ("colocated", colocated()),
        ("4p4d", disaggregated()),
        ("chunked-512", chunked()),
    ] {
        group.bench_function(format!("{name}/200"), |b| b.iter(|| run(&spec, &base)));
    }
    for (output, rate) in [(800, 10.0), (3200, 2.5)] {
        let load = requests(output, rate);
        for (name, spec) in [
            ("colocated", colocated()),
            ("4p4d", disaggregated()),
            ("chunked-512", chunked()),
        ] {
            group.bench_function(format!("{name}/{output}"), |b| b.iter(|| run(&spec, &load)));
        }
    }
    let many = system(vec![pool(Role::Both, 1000, BatchRule::PrefillFirst, 8192)]);
    let load = requests(200, 5000.0);
    group.bench_function("colocated-of-1000/200", |b| b.iter(|| run(&many, &load)));
    let stepping = SystemSpec {
        fast_forward: false,
        ..colocated()
    };
    group.bench_function("colocated-stepping/200", |b| {
        b.iter(|| run(&stepping, &base));
    });
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
