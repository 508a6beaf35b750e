//! What the answer says where nothing was measured, where a client falls behind, and where the figures have a window.

use crate::support::{Ran, SMALL, Scratch};

const OPEN: &str = "  rate: 4 /s\n  requests: 200\n";

fn with(workload: &str) -> Scratch {
    Scratch::with("s.yaml", &SMALL.replace(OPEN, workload))
}

fn run(scratch: &Scratch, more: &[&str]) -> Ran {
    scratch.pdsim(&[&["run", "s.yaml", "--no-charts"], more].concat())
}

/// A figure of the first row of the summary.
fn figure(scratch: &Scratch, column: &str) -> f64 {
    let mut reader = csv::Reader::from_path(scratch.path("output/small/summary.csv"))
        .expect("a run writes its summary");
    let row: std::collections::BTreeMap<String, String> = reader
        .deserialize()
        .next()
        .expect("a row")
        .expect("fields of the header's columns");
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

#[test]
fn littles_law_holds_on_the_printed_figures_beside_a_warm_up() {
    for workload in [
        "  rate: 4 /s\n  requests: 200\n  warmup: 50\n",
        "  rate: 4 /s\n  requests: 200\n  warmup: 20 s\n",
        "  arrivals: closed\n  concurrency: 8\n  requests: 200\n  warmup: 100\n",
    ] {
        let scratch = with(workload);
        assert_eq!(run(&scratch, &[]).code, 0);
        let inside = figure(&scratch, "mean_in_system");
        let product = figure(&scratch, "requests_per_s") * figure(&scratch, "e2e_mean_ms") / 1e3;
        assert!((inside / product - 1.0).abs() < 1e-4, "{inside} {product}");
    }
}

#[test]
fn a_warm_up_that_leaves_nothing_is_refused() {
    for (workload, more, pieces) in [
        (
            "  rate: 4 /s\n  requests: 200\n  warmup: 1 h\n",
            &[][..],
            &[
                "s.yaml: workload.warmup: leaves out every request: the last of 200 arrives after",
                "lower `workload.warmup`",
            ][..],
        ),
        (
            "  rate: 4 /s\n  duration: 20 s\n  warmup: 20 s\n",
            &[],
            &[
                "workload.warmup: leaves out the first 20 s, but no request arrives after 20 s (`workload.duration`)",
            ],
        ),
        (
            "  rate: 4 /s\n  requests: 200\n  warmup: 20 s\n",
            &["--set", "horizon=10 s"],
            &[
                "no request arrives after 10 s (`horizon`)",
                "raise `horizon`",
            ],
        ),
        (
            "  rate: 4 /s\n  requests: 200\n  warmup: 20 s\n",
            &["--set", "horizon=1 us", "--set", "workload.warmup=0"],
            &["s.yaml: horizon: no request arrives before it"],
        ),
        (
            "  arrivals: closed\n  concurrency: 8\n  requests: 200\n  warmup: 1 h\n",
            &[],
            &["workload.warmup: leaves out every request"],
        ),
    ] {
        let scratch = with(workload);
        run(&scratch, more).refused(pieces);
        assert!(!scratch.path("output/small/summary.csv").exists());
    }
}

#[test]
fn a_point_of_a_sweep_without_a_measured_request_has_no_verdict() {
    let text = SMALL
        .replace(OPEN, "  rate: 4 /s\n  requests: 200\n  warmup: 20 s\n")
        .replacen(
            "gpu: a100-80g-sxm",
            "gpu: a100-80g-sxm, price_per_hour_usd: 9",
            1,
        );
    let scratch = Scratch::with("s.yaml", &text);
    let ran = run(&scratch, &["--set", "sweep.workload.requests=[20, 200]"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("nothing measured 20; stable 200"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("no request arrived after the warm-up"),
        "{}",
        ran.err
    );
    let summary = scratch.read("output/small/summary.csv");
    let at = |row: &str, column: &str| {
        let place = summary
            .lines()
            .next()
            .unwrap()
            .split(',')
            .position(|c| c == column);
        row.split(',').nth(place.unwrap()).unwrap().to_owned()
    };
    let first = summary.lines().nth(1).unwrap();
    assert_eq!(
        (
            at(first, "measured").as_str(),
            at(first, "verdict").as_str()
        ),
        ("0", "")
    );
    assert!(
        !ran.out.contains(": ."),
        "no sentence breaks off: {}",
        ran.out
    );
}

/// A client that may have eight requests in flight and plans far more, of prompts that meet their promise.
const BEHIND: &str = "  rate: 40 /s\n  concurrency: 4\n  requests: 2000\n";

#[test]
fn a_promise_kept_by_a_client_that_falls_behind_is_said_to_be_about_what_it_sends() {
    let scratch = with(BEHIND);
    let ran = run(&scratch, &["--set", "slo={ttft: 10 s, tpot: 1 s}"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("OVERLOADED"), "{}", ran.out);
    assert!(ran.out.contains("is kept by"), "{}", ran.out);
    let said = "Kept and overloaded at once: the promise is about what the client sends within its concurrency, not about its plan";
    assert!(ran.out.contains(said), "{}", ran.out);
    assert!(
        ran.out
            .contains("the client's wait depends on the length of the run"),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains("its latencies depend on the length"),
        "{}",
        ran.out
    );
    let row = |name: &str| {
        ran.out
            .lines()
            .find(|l| l.trim_start().starts_with(name))
            .unwrap()
    };
    assert!(
        !row("TTFT p50").contains('*') && row("client's wait").contains('*'),
        "{}",
        ran.out
    );
    // An open loop beyond its capacity says nothing of the kind.
    let open = with("  rate: 40 /s\n  requests: 2000\n");
    let ran = run(&open, &["--set", "slo={ttft: 1 h, tpot: 1 s}"]);
    assert!(
        ran.out.contains("OVERLOADED") && ran.out.contains("is kept by"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("Kept and overloaded"), "{}", ran.out);
}

#[test]
fn requests_that_a_client_never_got_to_send_are_counted() {
    let scratch = with(BEHIND);
    let ran = run(&scratch, &["--set", "horizon=20 s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (arrived, never) = (figure(&scratch, "arrived"), figure(&scratch, "never_sent"));
    // About 800 were planned in 20 s of 40 /s.
    assert!(
        (700.0..900.0).contains(&(arrived + never)),
        "{arrived} {never}"
    );
    assert!(never > 100.0, "{arrived} {never}");
    let said = format!(
        "{never} of {} requests planned before the horizon were never sent",
        arrived + never
    );
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert!(ran.out.contains("planned, never sent"), "{}", ran.out);
    // Without a horizon all are sent in the end.
    let ran = run(&scratch, &[]);
    assert_eq!(figure(&scratch, "never_sent").to_bits(), 0.0_f64.to_bits());
    assert!(!ran.err.contains("never sent"), "{}", ran.err);
}

#[test]
fn the_layout_of_a_sweep_is_that_of_the_point_shown() {
    let scratch = Scratch::new();
    let text = format!("{SMALL}sweep: {{systems.split.prefill.instances: [1, 3]}}\n");
    scratch.write("s.yaml", &text);
    let told = run(&scratch, &[]).out;
    let shown = told.split_once("At systems.split.prefill.instances = ");
    let (_, shown) = shown.unwrap_or_else(|| panic!("{told}"));
    assert!(shown.starts_with("3: "), "{told}");
    assert!(shown.contains("3P1D: a100-80g-sxm"), "{told}");
    assert!(!shown.contains("1P1D"), "{told}");
    assert!(told.contains("split (2 to 4 GPUs)"), "{told}");
    assert!(told.contains("split (4 GPUs) "), "{told}");
    let json = run(&scratch, &["--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("stdout is JSON");
    assert_eq!(json["systems"][0]["gpus"], 2);
    assert_eq!(json["systems"][1]["gpus"], serde_json::Value::Null);
    assert_eq!(json["systems"][1]["layout"], "varies");
    let layouts = [1, 3].map(|split: usize| json["points"][split]["layout"].as_str());
    let starts = ["1P1D: ", "3P1D: "];
    for (layout, start) in layouts.iter().zip(starts) {
        assert!(layout.is_some_and(|l| l.starts_with(start)), "{layout:?}");
    }
    assert_eq!(json["points"][3]["gpus"], 4);
}

#[test]
fn a_system_that_rejects_every_request_is_not_called_stable() {
    // The warm-up fits into eight blocks of 16 tokens, nothing after it does.
    let lengths = "  lengths: {fixed: {input: 512, output: 16}}\n";
    let replayed = SMALL.replace(&format!("{lengths}{OPEN}"), "  trace: t.csv\n  warmup: 1\n");
    let scratch = Scratch::with("s.yaml", &replayed);
    let rows = (1..=200).map(|at| format!("{at},512,16\n"));
    let trace: String = rows.collect();
    let header = "arrival_s,input_tokens,output_tokens\n0,64,16\n";
    scratch.write("t.csv", &format!("{header}{trace}"));
    let small = ["--set", "systems.colocated.pool.kv_blocks=8"];
    let ran = run(&scratch, &small);
    let told = format!("{}{}", ran.out, ran.err);
    assert!(
        told.contains("colocated  every request rejected\n"),
        "{told}"
    );
    assert!(told.contains("split      stable"), "{told}");
    assert!(told.contains("200 of 200 requests were rejected"), "{told}");
    assert!(!told.contains("rest on 0"), "{told}");
    let summary = scratch.read("output/small/summary.csv");
    let row = summary.lines().find(|row| row.starts_with("colocated,"));
    assert!(row.is_some_and(|row| !row.contains("stable")), "{row:?}");
    let json = run(&scratch, &[&small[..], &["--json"]].concat()).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("stdout is JSON");
    assert_eq!(json["points"][0]["verdict"], serde_json::Value::Null);
    assert_eq!(json["points"][1]["verdict"], "stable");
}

#[test]
fn good_requests_beyond_those_done_are_explained_by_the_drain() {
    const NOTE: &str = "the time that the last arrivals take to end counts";
    // Ten requests in a few seconds that end long after: all good, and the drain is most of the run.
    let scratch = with("  rate: 4 /s\n  requests: 10\n");
    let slow = [
        "--set",
        "slo={ttft: 60 s, tpot: 60 s}",
        "--set",
        "workload.lengths={fixed: {input: 512, output: 500}}",
    ];
    let ran = run(&scratch, &slow);
    let (good, done) = (
        figure(&scratch, "good_requests_per_s"),
        figure(&scratch, "requests_per_s"),
    );
    assert!(good > done, "{good} {done}");
    let offered = figure(&scratch, "offered_requests_per_s");
    let attainment = figure(&scratch, "attainment");
    assert!((good / offered - attainment).abs() < 1e-5, "{good}");
    assert!(ran.out.contains(NOTE), "{}", ran.out);
    // A promise that all of them break.
    let strict = [&slow[2..], &["--set", "slo={ttft: 1 ms}"]].concat();
    let ran = run(&scratch, &strict);
    assert!(!ran.out.contains(NOTE), "{}", ran.out);
}
