//! Field reports: what people measured on P/D deployments, as scenarios.
//!
//! The reports are public threads with incomplete settings, so the tests hold the simulator to the identities that their
//! numbers obey and to the directions they show, not to their milliseconds. Each scenario lies beside its test, names its
//! thread, and can be run by hand: `pdsim run tests/field/f3.yaml`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod f1;
mod f2;
mod f3;
mod f4;
mod f5;

use std::path::Path;

use pdsim::metrics::RunMetrics;
use pdsim::report::Report;
use pdsim::scenario::Experiment;

/// Loads a scenario of this folder under overrides.
fn experiment(file: &str, flags: &[&str]) -> Experiment {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/field")
        .join(file);
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    pdsim::scenario::load(&path, &flags).unwrap()
}

/// Runs it.
fn run(file: &str, flags: &[&str]) -> Report {
    pdsim::sweep::run(&experiment(file, flags), None, &|| ()).unwrap()
}

/// The figures of a system at a point of the sweep.
fn metrics<'r>(report: &'r Report, system: &str, point: usize) -> &'r RunMetrics {
    let index = report
        .systems
        .iter()
        .position(|s| s.name == system)
        .unwrap();
    &report.runs_of(index, point)[0].metrics
}

/// The mean of a latency in seconds.
fn mean_s(distribution: &Option<pdsim::metrics::Distribution>) -> f64 {
    distribution.as_ref().unwrap().mean_ms / 1e3
}

/// Little's law from the outside, as a benchmark's reader applies it: requests per second between warm-up and the last
/// arrival, times their mean E2E.
fn in_flight(m: &RunMetrics) -> f64 {
    m.offered_per_s * mean_s(&m.e2e)
}

/// Asserts that two figures agree to a share.
#[track_caller]
fn near(seen: f64, expected: f64, share: f64) {
    assert!(
        (seen / expected - 1.0).abs() <= share,
        "{seen} instead of {expected}"
    );
}
