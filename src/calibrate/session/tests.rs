use std::cell::Cell;

use super::*;
use crate::calibrate::fake::Fake;
use crate::calibrate::plan::{Options, plan};
use crate::model;

fn short_plan(fake: &Fake) -> Vec<Work> {
    let models = vec![model::model("llama-3.1-8b").unwrap()];
    let options = Options {
        quick: true,
        dtypes: Vec::new(),
    };
    let mut plan = plan(fake.facts(), &models, &options);
    plan.truncate(150);
    plan
}

const LIMITS: Limits = Limits {
    settings: Settings::quick(),
    time_s: 1e9,
};

fn calibrate(
    fake: &mut Fake,
    folder: &std::path::Path,
    resume: bool,
) -> Result<Outcome, SessionError> {
    let plan = short_plan(fake);
    let mut store = Store::open(folder, &fake.facts.name, resume)?;
    run(fake, &plan, &mut store, &LIMITS, &|| 0.0, &mut |_| {})
}

#[test]
fn a_right_device_is_checked_and_measured_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    let outcome = calibrate(&mut fake, folder.path(), false).unwrap();
    assert!(outcome.verdicts.len() > 20);
    assert!(
        outcome.verdicts.iter().all(Verdict::right),
        "{:?}",
        outcome.verdicts
    );
    assert_eq!(outcome.measured, 150);
    assert_eq!((outcome.skipped.len(), outcome.left), (0, 0));
}

#[test]
fn a_wrong_kernel_gives_no_samples() {
    for wrong in [Kind::DecodeAttention, Kind::Gemm, Kind::Copy] {
        let folder = tempfile::tempdir().unwrap();
        let mut fake = Fake::new();
        fake.wrong = Some(wrong);
        calibrate(&mut fake, folder.path(), false).unwrap();
        let store = Store::open(folder.path(), &fake.facts.name, true).unwrap();
        assert!(!store.samples().is_empty());
        assert!(
            store.samples().iter().all(|s| s.work.kind() != wrong),
            "{wrong:?}"
        );
    }
}

#[test]
fn an_interrupted_run_goes_on_and_ends_with_the_samples_of_a_whole_one() {
    let plan = short_plan(&Fake::new());
    let whole = tempfile::tempdir().unwrap();
    calibrate(&mut Fake::new(), whole.path(), false).unwrap();

    let parts = tempfile::tempdir().unwrap();
    let mut measured = 0;
    while measured < plan.len() {
        // Time for forty points at a turn.
        let calls = Cell::new(0.0);
        let clock = || {
            calls.set(calls.get() + 1.0);
            calls.get()
        };
        let mut fake = Fake::new();
        let mut store = Store::open(parts.path(), &fake.facts.name, measured > 0).unwrap();
        let limits = Limits {
            time_s: 41.0,
            ..LIMITS
        };
        let outcome = run(&mut fake, &plan, &mut store, &limits, &clock, &mut |_| {}).unwrap();
        assert_eq!(outcome.resumed, measured);
        assert_eq!(
            outcome.measured + outcome.resumed + outcome.left,
            plan.len()
        );
        measured += outcome.measured;
    }
    for kind in Kind::ALL {
        let file = format!("samples/{}.csv", kind.name());
        let read = |f: &tempfile::TempDir| std::fs::read_to_string(f.path().join(&file)).ok();
        assert_eq!(read(&whole), read(&parts), "{file}");
    }
}

#[test]
fn slow_points_and_those_that_do_not_fit_are_skipped_and_not_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let slow: fn(&Work) -> Option<DeviceError> = |w| match w {
        Work::Gemm(g) if g.m >= 8192 => Some(DeviceError::Slow { limit_s: 20.0 }),
        _ => None,
    };
    let mut fake = Fake::new();
    fake.fault = Some(slow);
    let outcome = calibrate(&mut fake, folder.path(), false).unwrap();
    assert!(!outcome.skipped.is_empty());
    let again = calibrate(&mut Fake::new(), folder.path(), true).unwrap();
    assert_eq!((again.measured, again.resumed), (0, 150));
}

#[test]
fn a_stuck_device_stops_the_run_but_the_next_one_passes_by_the_point() {
    let folder = tempfile::tempdir().unwrap();
    let stuck: fn(&Work) -> Option<DeviceError> = |w| match w {
        Work::Prefill(p) if p.new_tokens > 1000 => Some(DeviceError::Stuck { limit_s: 60.0 }),
        _ => None,
    };
    let mut fake = Fake::new();
    fake.fault = Some(stuck);
    let error = calibrate(&mut fake, folder.path(), false)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--resume"), "{error}");
    let again = calibrate(&mut Fake::new(), folder.path(), true).unwrap();
    assert_eq!(again.measured + again.resumed, 150);
    assert_eq!(again.left, 0);
}

#[test]
fn little_memory_skips_the_large_points_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.facts.free_bytes = 256 << 20;
    let outcome = calibrate(&mut fake, folder.path(), false).unwrap();
    assert!(outcome.measured > 50 && !outcome.skipped.is_empty());
    for (_, error) in &outcome.skipped {
        assert!(matches!(error, DeviceError::OutOfMemory { .. }));
    }
}
