//! A synthetic experiment for tests: three systems of different strength over a sweep of rates.

use super::{Axis, AxisValue, Report, Run, Shape, SystemInfo};
use crate::metrics::Slo;
use crate::metrics::testing::{Load, simulate};
use crate::units::SimDuration;

/// What each toy system does to a rate.
struct Toy {
    name: &'static str,
    /// Load on its prefill server at 10 requests/s.
    load: f64,
    tpot_ms: f64,
    gpus: u32,
}

const TOYS: [Toy; 3] = [
    Toy {
        name: "colocated",
        load: 1.1,
        tpot_ms: 31.0,
        gpus: 3,
    },
    Toy {
        name: "chunked-512",
        load: 0.95,
        tpot_ms: 28.0,
        gpus: 3,
    },
    Toy {
        name: "disaggregated",
        load: 0.8,
        tpot_ms: 24.0,
        gpus: 3,
    },
];

/// A sweep over `rates` with `seeds` seeds and `requests` requests per run.
pub(crate) fn report(rates: &[f64], seeds: u64, requests: u32) -> Report {
    let mut runs = Vec::new();
    for (point, rate) in rates.iter().enumerate() {
        for (system, toy) in TOYS.iter().enumerate() {
            for seed in 0..seeds {
                let load = Load {
                    tpot_ms: toy.tpot_ms * (0.9 + rate / 50.0),
                    ..scaled(toy.load * rate / 10.0, *rate, requests)
                };
                runs.push(Run {
                    system,
                    point,
                    seed,
                    metrics: simulate(&load, seed),
                });
            }
        }
    }
    Report {
        name: "toy-chat".to_owned(),
        question: Some(
            "Does splitting prefill and decode beat the same GPUs colocated?".to_owned(),
        ),
        slo: Some(slo()),
        systems: TOYS
            .iter()
            .map(|toy| SystemInfo {
                name: toy.name.to_owned(),
                shapes: vec![
                    Shape {
                        layout: format!("{} x toy", toy.gpus),
                        gpus: toy.gpus,
                    };
                    rates.len()
                ],
            })
            .collect(),
        axis: Axis {
            key: "workload.rate".to_owned(),
            unit: "requests/s".to_owned(),
            is_rate: true,
            values: rates
                .iter()
                .map(|rate| AxisValue {
                    label: format!("{rate} /s"),
                    value: Some(*rate),
                    rate_per_s: Some(*rate),
                })
                .collect(),
        },
        runs,
        notes: vec!["first_token: prefill".to_owned()],
        cautions: Vec::new(),
    }
}

fn slo() -> Slo {
    Slo {
        ttft: Some(SimDuration::from_ms(400)),
        tpot: Some(SimDuration::from_ms(33)),
        e2e: None,
        attainment: 0.9,
    }
}

/// A chat load of `rate` requests/s that keeps the prefill server busy a share `load` of the time.
fn scaled(load: f64, rate: f64, requests: u32) -> Load {
    let mut scaled = Load {
        rate,
        mean_service_s: load / rate,
        ..Load::chat(load, requests)
    };
    scaled.config.slo = Some(slo());
    scaled
}
