//! The cases: configuration, workload and expected times are read from the reference folder.

use std::path::Path;
use std::sync::Arc;

use pdsim::cluster::{
    Bill, FirstToken, KvReserve, KvSpec, Observer, PoolSpec, Preemption, QueueRule, RequestRecord,
    Reservation, Role, RoleRule, SkipPrefill, StepLimits, SystemSpec, TransferSpec,
};
use pdsim::latency::polynomial::{Coefficients, DecodeTerms, Polynomial, Terms};
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;
use serde_yaml::Value;

use super::{TOLERANCE_MS, reference};

/// Keeps every record.
#[derive(Default)]
pub(super) struct Keep(pub(super) Vec<RequestRecord>);

impl Observer for Keep {
    fn ended(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

const CASES: [&str; 13] = [
    "tiny_1p1d",
    "disagg_1p1d",
    "disagg_1p1d_bigbatch",
    "disagg_1p2d",
    "disagg_2p1d",
    "disagg_tp2",
    "disagg_pp2",
    "disagg_66b_paper_placement",
    "bursty_2p2d",
    "long_prompts",
    "colocated_1",
    "colocated_2",
    "colocated_pp2",
];

#[test]
fn every_ttft_and_finish_time_agrees_with_simdistserve_within_a_microsecond() {
    let Some(folder) = reference() else {
        eprintln!("SKIPPED: no simdistserve reference data (set PDSIM_REFERENCE)");
        return;
    };
    for case in CASES {
        for fast_forward in [true, false] {
            let worst = worst_difference_ms(&folder.join(case), fast_forward);
            eprintln!("{case}: largest difference {worst:.7} ms (fast forward: {fast_forward})");
            assert!(
                worst <= TOLERANCE_MS,
                "{case}: a time differs by {worst} ms"
            );
        }
    }
}

fn worst_difference_ms(case: &Path, fast_forward: bool) -> f64 {
    let config: Value =
        serde_yaml::from_str(&std::fs::read_to_string(case.join("case.yaml")).unwrap()).unwrap();
    let spec = system(&config, fast_forward);
    let mut kept = Keep::default();
    simulate(
        &spec,
        workload(&case.join("workload.csv")),
        Options::default(),
        &mut kept,
    )
    .unwrap();
    kept.0.sort_by_key(|record| record.id);

    let mut expected = csv::Reader::from_path(case.join("expected.csv")).unwrap();
    let headers = expected.headers().unwrap().clone();
    let column = |name: &str| headers.iter().position(|h| h == name).unwrap();
    let (ttft, finish) = (column("ttft_ms"), column("finish_ms"));
    let mut worst: f64 = 0.0;
    let mut rows = 0;
    for (row, record) in expected.records().zip(&kept.0) {
        let row = row.unwrap();
        let number = |i: usize| row[i].parse::<f64>().unwrap();
        worst = worst.max((record.ttft().unwrap().as_ms_f64() - number(ttft)).abs());
        worst = worst.max((record.last_token.as_secs_f64() * 1e3 - number(finish)).abs());
        rows += 1;
    }
    assert_eq!(rows, kept.0.len(), "a row for every request");
    worst
}

fn workload(path: &Path) -> Vec<RequestSpec> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let rows = reader.deserialize::<(f64, u32, u32)>().map(Result::unwrap);
    rows.map(|(arrival, input_tokens, passes)| RequestSpec {
        arrival: SimTime::ZERO + SimDuration::from_secs_f64(arrival).unwrap(),
        input_tokens,
        output_tokens: passes + 1,
        max_output: passes + 1,
        class: 0,
        session: 0,
    })
    .collect()
}

fn system(config: &Value, fast_forward: bool) -> SystemSpec {
    let latency = &config["latency_ms"];
    let coefficients = Coefficients {
        prefill: terms(&latency["prefill"]),
        decode: DecodeTerms {
            small: terms(&latency["decode_small"]),
            large: terms(&latency["decode_large"]),
            large_batch_from: u32::try_from(latency["decode_large_batch_from"].as_u64().unwrap())
                .unwrap(),
        },
        prefill_stage_overhead: 1.0,
        step_overhead: 2.0,
        step_overhead_per_token: 0.0001,
    };
    let pool = |name: &str, role: Role| pool(config, coefficients, name, role);
    let colocated = !config["instances"]["mixed"].is_null();
    let pools = if colocated {
        vec![pool("mixed", Role::Both)]
    } else {
        vec![pool("prefill", Role::Prefill), pool("decode", Role::Decode)]
    };
    SystemSpec {
        name: config["name"].as_str().unwrap().to_owned(),
        pools,
        roles: RoleRule::Fixed,
        prefill_router: RouterRule::LeastQueued,
        decode_router: RouterRule::LeastQueued,
        skip: SkipPrefill::default(),
        reservation: Reservation::AtHandoff,
        first_token: FirstToken::Prefill,
        transfer: TransferSpec::link(SimDuration::ZERO, f64::INFINITY),
        fast_forward,
    }
}

/// The pool of that name in a case.
fn pool(config: &Value, coefficients: Coefficients, name: &str, role: Role) -> PoolSpec {
    let limits = &config["limits"];
    let limit = |key: &str| u32::try_from(limits[key].as_u64().unwrap()).unwrap();
    let instances = &config["instances"][name];
    let number = |key: &str| u32::try_from(instances[key].as_u64().unwrap()).unwrap();
    PoolSpec {
        name: name.to_owned(),
        role,
        instances: number("count"),
        gpu: "a100-80g-sxm".to_owned(),
        bill: Bill::default(),
        tp: number("tp"),
        pp: number("pp"),
        dp: 1,
        ep: 1,
        latency: Arc::new(Polynomial::new(coefficients).unwrap()),
        multiplex: None,
        batch: BatchRule::PrefillFirst,
        queue: QueueRule::default(),
        limits: StepLimits {
            max_step_tokens: limit("prefill_batch_tokens"),
            max_step_prompts: limit("prefill_batch_requests"),
            max_seqs: u32::MAX,
            max_decode_context: limits["decode_batch_context_tokens"].as_u64(),
            long_prompts: None,
        },
        kv: KvSpec {
            block_tokens: 16,
            blocks: None,
            watermark_blocks: 0,
            bytes_per_token: 0,
            reserve: KvReserve::Paged,
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        },
    }
}

fn terms(value: &Value) -> Terms {
    let number = |key: &str| value[key].as_f64().unwrap();
    Terms {
        a: number("a"),
        b: number("b"),
        c: number("c"),
    }
}
