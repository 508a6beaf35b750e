//! The scenarios that ship: each checks, opens with its question, and runs when shrunk.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::Scratch;

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = fs::read_dir(folder).expect("the scenarios ship");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "yaml"));
    paths.sort();
    assert!(paths.len() >= 5, "{paths:?}");
    paths
}

#[test]
fn every_scenario_opens_with_its_question_and_what_to_look_at() {
    for path in shipped() {
        let text = fs::read_to_string(&path).expect("a scenario can be read");
        assert!(text.starts_with("# Question: "), "{}", path.display());
        assert!(text.contains("# What to look at: "), "{}", path.display());
        assert!(text.contains("\nquestion: "), "{}", path.display());
    }
}

#[test]
fn every_scenario_runs_when_shrunk() {
    let scratch = Scratch::new();
    for path in shipped() {
        let text = fs::read_to_string(&path).expect("a scenario can be read");
        let shrink = if text.contains("\n  trace: ") {
            "workload.limit=60"
        } else {
            "workload.requests=60"
        };
        let path = path.to_string_lossy();
        let ran = scratch.pdsim(&[
            "run",
            &path,
            "--out",
            "here",
            "--seeds",
            "1",
            "--no-charts",
            "--set",
            shrink,
            "--set",
            "workload.warmup=0",
        ]);
        assert_eq!(ran.code, 0, "{path}: {ran:?}");
    }
}

#[test]
fn the_readme_shows_what_its_command_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).expect("the README ships");
    let (_, after) = readme
        .split_once("```text\n")
        .expect("the README shows the answer");
    let (shown, _) = after.split_once("```\n").expect("the block ends");
    let scenario = root.join("scenarios/distserve.yaml");
    let ran = Scratch::new().pdsim(&["run", &scenario.to_string_lossy(), "--no-charts"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(shown), lines(&ran.out), "left: README.md");
}
