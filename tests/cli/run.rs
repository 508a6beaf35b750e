//! `pdsim run` and `pdsim check` when all is well.

use std::process::{Command, Stdio};

use crate::support::Scratch;

#[test]
fn results_go_to_stdout_and_the_rest_to_stderr() {
    let ran = Scratch::new().pdsim(&["run", "s.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("small\n"), "{}", ran.out);
    assert!(ran.out.contains("colocated") && ran.out.contains("split"));
    assert!(!ran.out.contains("wrote "), "{}", ran.out);
    let last = ran.err.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("wrote ") && last.contains("output/small"),
        "{last}"
    );
    for name in ["summary.csv", "requests.csv", "scenario.resolved.yaml"] {
        assert!(last.contains(name), "{name} is not in `{last}`");
    }
}

#[test]
fn quiet_leaves_stderr_empty() {
    let ran = Scratch::new().pdsim(&["run", "s.yaml", "--quiet"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn json_is_one_document() {
    let ran = Scratch::new().pdsim(&["run", "s.yaml", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&ran.out).expect("stdout is JSON");
    assert_eq!(summary["scenario"], "small");
}

#[test]
fn overrides_reach_any_key_and_are_stated_in_the_resolved_scenario() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "run",
        "s.yaml",
        "--out",
        "here",
        "--set",
        "workload.requests=7",
        "--set",
        "systems.split.decode.kv_blocks=900",
        "--seeds",
        "2",
        "--no-requests",
        "--no-charts",
        "--no-fast-forward",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let resolved = scratch.read("here/scenario.resolved.yaml");
    for line in [
        "requests: 7",
        "kv_blocks: 900",
        "seeds: 2",
        "fast_forward: false",
        "requests: false",
        "charts: false",
    ] {
        assert!(resolved.contains(line), "{line} is not in\n{resolved}");
    }
    let names: Vec<String> = scratch
        .files("here")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name == "requests.csv" || name.ends_with(".png")),
        "{names:?}"
    );
    // Seven requests, two seeds, two systems: a row each and two pooled rows.
    assert_eq!(scratch.read("here/summary.csv").lines().count(), 1 + 4 + 2);
}

#[test]
fn stepping_every_token_gives_the_same_bytes() {
    let scratch = Scratch::new();
    scratch.pdsim(&["run", "s.yaml", "--out", "fast"]);
    scratch.pdsim(&["run", "s.yaml", "--out", "slow", "--no-fast-forward"]);
    for name in ["requests.csv", "summary.csv"] {
        assert_eq!(
            scratch.read(&format!("fast/{name}")),
            scratch.read(&format!("slow/{name}")),
            "{name} (law L8)"
        );
    }
}

#[test]
fn every_system_sees_the_same_arrivals_and_lengths() {
    let scratch = Scratch::new();
    let lengths = "workload.lengths={input: {uniform: {min: 10, max: 900}}, output: {uniform: {min: 1, max: 40}}}";
    scratch.pdsim(&[
        "run", "s.yaml", "--out", "here", "--seeds", "2", "--set", lengths,
    ]);
    let requests = scratch.read("here/requests.csv");
    let mut lines = requests.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        header
            .iter()
            .position(|h| *h == name)
            .unwrap_or_else(|| panic!("no column {name}"))
    };
    let kept = [
        "rate",
        "seed",
        "request_id",
        "arrival_s",
        "input_tokens",
        "output_tokens",
    ]
    .map(column);
    let rows = |system: &str| -> Vec<Vec<String>> {
        let of = requests
            .lines()
            .skip(1)
            .map(|line| line.split(',').collect::<Vec<_>>());
        of.filter(|row| row[0] == system)
            .map(|row| kept.iter().map(|&i| row[i].to_owned()).collect())
            .collect()
    };
    assert_eq!(rows("colocated").len(), 400);
    assert_eq!(rows("colocated"), rows("split"));
}

#[test]
fn a_required_figure_that_is_missed_gives_code_3_after_the_results() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "run",
        "s.yaml",
        "--require",
        "split.ttft_p50_ms<0.001",
        "--require",
        "attainment>=0",
    ]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.starts_with("small\n"));
    assert!(
        ran.err
            .contains("error: missed --require split.ttft_p50_ms<0.001: split has ttft_p50_ms "),
        "{}",
        ran.err
    );
    let met = scratch.pdsim(&["run", "s.yaml", "--require", "attainment>=0"]);
    assert_eq!(met.code, 0);
}

#[test]
fn a_requirement_about_nothing_is_refused_before_the_run() {
    let scratch = Scratch::new();
    scratch
        .pdsim(&["run", "s.yaml", "--require", "splt.attainment>=0"])
        .refused(&["did you mean `split`?"]);
    scratch
        .pdsim(&["run", "s.yaml", "--require", "atainment>=0"])
        .refused(&["did you mean `attainment`?"]);
    assert!(!scratch.path("output").exists());
}

#[test]
fn a_sweep_runs_every_point_and_a_flag_on_its_key_fixes_it() {
    let scratch = Scratch::new();
    let sweep = "sweep.workload.rate=[2 /s, 4 /s, 8 /s]";
    scratch.pdsim(&["run", "s.yaml", "--out", "three", "--set", sweep]);
    assert_eq!(
        scratch
            .read("three/summary.csv")
            .lines()
            .filter(|l| l.starts_with("split,"))
            .count(),
        6
    );
    scratch.pdsim(&[
        "run",
        "s.yaml",
        "--out",
        "one",
        "--set",
        sweep,
        "--set",
        "workload.rate=3 /s",
    ]);
    assert!(!scratch.read("one/scenario.resolved.yaml").contains("sweep"));
}

#[test]
fn two_axes_make_a_grid() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--seeds",
        "3",
        "--set",
        "sweep.workload.rate=[2 /s, 4 /s]",
        "--set",
        "sweep.systems.split.decode.tp=[1, 2, 4]",
    ]);
    assert!(
        ran.out.contains("2 systems × 6 points × 3 seeds = 36 runs"),
        "{}",
        ran.out
    );
}

#[test]
fn several_scenarios_run_in_turn_into_folders_of_their_own() {
    let scratch = Scratch::new();
    scratch.write(
        "t.yaml",
        &crate::support::SMALL.replace("name: small", "name: other"),
    );
    assert_eq!(
        scratch
            .pdsim(&["run", "s.yaml", "t.yaml", "--out", "both"])
            .code,
        0
    );
    assert!(
        scratch.path("both/small/summary.csv").exists()
            && scratch.path("both/other/summary.csv").exists()
    );
    scratch
        .pdsim(&["run", "s.yaml", "s.yaml"])
        .refused(&["`small` is taken by another scenario"]);
}

#[test]
fn init_writes_a_scenario_that_checks_and_never_overwrites() {
    let scratch = Scratch::new();
    assert_eq!(scratch.pdsim(&["init", "new.yaml"]).code, 0);
    let ran = scratch.pdsim(&["check", "new.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("new.yaml: ok: 3 systems"), "{}", ran.out);
    scratch
        .pdsim(&["init", "new.yaml"])
        .refused(&["new.yaml exists already"]);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_pdsim"))
        .current_dir(scratch.folder())
        .args(["run", "s.yaml", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_pool_that_no_request_used_is_told_of() {
    let run = |set: &str| {
        let ran = Scratch::new().pdsim(&["run", "s.yaml", "--no-charts", "--set", set]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.err
    };
    let skipped = run("systems.split.skip_prefill={below: 100000}");
    assert!(
        skipped.contains("split, seed 1: pool `prefill` (1 GPU) formed no step")
            && skipped.contains("skip_prefill"),
        "{skipped}"
    );
    let nothing_to_decode = run("workload.lengths={fixed: {input: 512, output: 1}}");
    assert!(
        nothing_to_decode.contains("split, seed 1: pool `decode` (1 GPU) formed no step"),
        "{nothing_to_decode}"
    );
    let used = run("seeds=1");
    assert!(!used.contains("formed no step"), "{used}");
}
