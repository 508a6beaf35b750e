//! What is written to files does not depend on how it was simulated.

use std::collections::BTreeMap;
use std::path::Path;

use pdsim::metrics::{Collector, Config, Slo, Warmup};
use pdsim::report::{Axis, AxisValue, Report, Run, Shape, SystemInfo, write_all};
use pdsim::sim::{Options, simulate};
use pdsim::units::SimDuration;

use crate::scenario::Scenario;

/// Scenarios in one report.
const BATCH: u64 = 50;

#[test]
fn every_file_is_the_same_byte_for_byte() {
    for batch in 0..8 {
        let scenarios: Vec<Scenario> = (0..BATCH)
            .map(|i| Scenario::random(2_000_000 + batch * BATCH + i))
            .collect();
        let (fast, stepping) = (
            files(&scenarios, batch, true),
            files(&scenarios, batch, false),
        );
        assert_eq!(
            fast.keys().collect::<Vec<_>>(),
            stepping.keys().collect::<Vec<_>>()
        );
        for expected in [
            "requests.csv",
            "summary.csv",
            "pools.csv",
            "links.csv",
            "timeseries.csv",
        ] {
            assert!(fast[expected].len() > 1000, "{expected} has rows");
        }
        for (name, fast) in &fast {
            let lines = |bytes: &[u8]| -> Vec<String> {
                String::from_utf8_lossy(bytes)
                    .lines()
                    .map(str::to_owned)
                    .collect()
            };
            if name.ends_with(".csv") && *fast != stepping[name] {
                assert_eq!(
                    lines(fast),
                    lines(&stepping[name]),
                    "{name}, left: fast-forward"
                );
            }
            assert!(*fast == stepping[name], "{name} differs");
        }
    }
}

/// The files of one report over `scenarios`; the measured window differs from batch to batch.
fn files(scenarios: &[Scenario], batch: u64, fast_forward: bool) -> BTreeMap<String, Vec<u8>> {
    let slo = Slo {
        ttft: Some(SimDuration::from_ms(50)),
        tpot: Some(SimDuration::from_ms(10)),
        e2e: None,
        attainment: 0.9,
    };
    let config = Config {
        slo: Some(slo),
        warmup: match batch % 3 {
            0 => Warmup::None,
            1 => Warmup::Requests(3),
            _ => Warmup::Time(SimDuration::from_ms(60)),
        },
        ..Config::default()
    };
    let run = |(system, scenario): (usize, &Scenario)| {
        let spec = scenario.spec_with(fast_forward);
        let mut collector = Collector::new(&config, &spec);
        let requests = scenario.requests.iter().copied();
        simulate(&spec, requests, Options::default(), &mut collector).unwrap();
        Run {
            system,
            point: 0,
            seed: 1,
            metrics: collector.into_metrics(),
        }
    };
    let system = |scenario: &Scenario| SystemInfo {
        name: scenario.spec.name.clone(),
        shapes: vec![Shape {
            layout: String::new(),
            gpus: scenario.spec.gpus(),
        }],
    };
    let value = AxisValue {
        label: "any".to_owned(),
        value: None,
        rate_per_s: None,
    };
    let report = Report {
        name: "random".to_owned(),
        question: None,
        slo: Some(slo),
        systems: scenarios.iter().map(system).collect(),
        axis: Axis {
            key: "any".to_owned(),
            unit: String::new(),
            is_rate: false,
            values: vec![value],
        },
        runs: scenarios.iter().enumerate().map(run).collect(),
        notes: Vec::new(),
        cautions: Vec::new(),
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = write_all(folder.path(), &report, "name: random\n").unwrap();
    paths
        .iter()
        .map(|path| (name(path), std::fs::read(path).unwrap()))
        .collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
