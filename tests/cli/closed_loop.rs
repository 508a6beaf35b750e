//! Closed loops and results in vLLM's shape, as a person meets them.

use crate::support::{Ran, SMALL, Scratch};

const OPEN: &str = "  rate: 4 /s\n  requests: 200\n";

/// The small scenario under a client that keeps requests in flight.
fn closed(workload: &str) -> Scratch {
    Scratch::with("s.yaml", &SMALL.replace(OPEN, workload))
}

const EIGHT: &str = "  arrivals: closed\n  concurrency: 8\n  requests: 200\n  warmup: 20\n";

/// The rows of a CSV file as maps from column to field.
fn rows(scratch: &Scratch, name: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(scratch.path(name)).expect("the file is there");
    reader
        .deserialize()
        .map(|row| row.expect("a row of the header's columns"))
        .collect()
}

fn number(row: &std::collections::BTreeMap<String, String>, column: &str) -> f64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column}: {:?}", row[column]))
}

#[test]
fn a_closed_loop_is_never_overloaded_and_keeps_its_requests_in_flight() {
    let scratch = closed(EIGHT);
    let ran = scratch.pdsim(&["run", "s.yaml", "--no-charts"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("closed loop, limited by"), "{}", ran.out);
    for word in ["OVERLOADED", "pile up", "depend on the length"] {
        assert!(!ran.out.contains(word), "{}", ran.out);
    }
    let mut lengths = Vec::new();
    for system in ["colocated", "split"] {
        let requests = rows(&scratch, "output/small/requests.csv");
        let mine: Vec<_> = requests.iter().filter(|r| r["system"] == system).collect();
        assert_eq!(mine.len(), 200);
        assert!(!mine[0].contains_key("client_wait_ms"));
        // A request is sent when one ends: the n-th at the instant at which the (n − 8)-th of all ends came.
        let of = |r: &&std::collections::BTreeMap<String, String>| {
            number(r, "arrival_s") + number(r, "e2e_ms") / 1e3
        };
        let mut ends: Vec<f64> = mine.iter().map(of).collect();
        ends.sort_by(f64::total_cmp);
        for (i, row) in mine.iter().enumerate().skip(8) {
            let at = number(row, "arrival_s");
            assert!((at - ends[i - 8]).abs() < 1e-8, "{system} {i}: {at}");
        }
        lengths.push(
            mine.iter()
                .map(|r| r["input_tokens"].clone() + "/" + &r["output_tokens"])
                .collect::<Vec<_>>(),
        );
    }
    assert_eq!(lengths[0], lengths[1], "all systems see the same lengths");
}

#[test]
fn a_plan_within_a_limit_reports_the_clients_wait_apart_and_overload_as_such() {
    // 40 /s is far beyond two instances that may only hold 8 requests.
    let scratch = closed("  rate: 40 /s\n  concurrency: 8\n  requests: 400\n");
    let ran = scratch.pdsim(&["run", "s.yaml", "--no-charts"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("OVERLOADED"), "{}", ran.out);
    assert!(
        ran.out.contains("client's wait p50 / p90 / p99"),
        "{}",
        ran.out
    );
    for row in rows(&scratch, "output/small/summary.csv") {
        let capacity = number(&row, "requests_per_s");
        let piled = number(&row, "piling_up_share");
        assert!((piled - (1.0 - capacity / 40.0)).abs() < 0.1, "{row:?}");
        // TTFT is that of eight requests, however long the client's queue is.
        assert!(number(&row, "client_wait_p99_ms") > 10.0 * number(&row, "ttft_p99_ms"));
    }
    let requests = rows(&scratch, "output/small/requests.csv");
    let waits: Vec<f64> = requests
        .iter()
        .map(|r| number(r, "client_wait_ms"))
        .collect();
    assert!(
        waits[0] == 0.0 && waits[399] > 1000.0,
        "{} {}",
        waits[0],
        waits[399]
    );
}

#[test]
fn a_plan_that_fits_changes_nothing() {
    let open = Scratch::new();
    let wide = closed("  rate: 4 /s\n  concurrency: 500\n  requests: 200\n");
    for scratch in [&open, &wide] {
        assert_eq!(scratch.pdsim(&["run", "s.yaml", "--no-charts"]).code, 0);
    }
    let without_wait = |text: String| -> Vec<String> {
        text.lines()
            .map(|line| {
                line.trim_end_matches(",0.000000")
                    .trim_end_matches(",client_wait_ms")
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(
        without_wait(open.read("output/small/requests.csv")),
        without_wait(wide.read("output/small/requests.csv"))
    );
}

#[test]
fn the_concurrency_can_be_swept() {
    let scratch = closed(EIGHT);
    let ran = scratch.pdsim(&[
        "run",
        "s.yaml",
        "--quiet",
        "--set",
        "sweep.workload.concurrency=[1, 4, 16]",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("workload.concurrency"), "{}", ran.out);
    let summary = rows(&scratch, "output/small/summary.csv");
    let split: Vec<f64> = summary
        .iter()
        .filter(|r| r["system"] == "split" && r["seed"] == "pooled")
        .map(|r| number(r, "requests_per_s"))
        .collect();
    assert!(split.len() == 3 && split.is_sorted(), "{split:?}");
    // The resolved scenario repeats the run.
    let first = scratch.read("output/small/summary.csv");
    let again = scratch.pdsim(&[
        "run",
        "output/small/scenario.resolved.yaml",
        "--quiet",
        "--out",
        "again",
    ]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(first, scratch.read("again/summary.csv"));
}

#[test]
fn a_trace_can_be_sent_in_a_closed_loop() {
    let generated = format!("  lengths: {{fixed: {{input: 512, output: 16}}}}\n{OPEN}");
    let text = SMALL.replace(
        &generated,
        "  trace: t.csv\n  arrivals: closed\n  concurrency: 2\n",
    );
    let scratch = Scratch::with("s.yaml", &text);
    let rows_of = |n: u32| -> String { (0..n).map(|i| format!("{i}00,{},5\n", i + 1)).collect() };
    scratch.write(
        "t.csv",
        &format!("arrival_s,input_tokens,output_tokens\n{}", rows_of(30)),
    );
    let ran = scratch.pdsim(&["run", "s.yaml", "--no-charts"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let requests = rows(&scratch, "output/small/requests.csv");
    let first: Vec<&str> = requests[..30]
        .iter()
        .map(|r| r["input_tokens"].as_str())
        .collect();
    let expected: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
    assert_eq!(first, expected);
    // 3,000 s as recorded.
    assert!(number(&requests[29], "arrival_s") < 30.0);
}

#[test]
fn keys_that_mean_nothing_in_a_closed_loop_are_refused() {
    let check = |workload: &str| -> Ran { closed(workload).pdsim(&["check", "s.yaml"]) };
    check("  arrivals: closed\n  requests: 5\n").refused(&["`concurrency` is missing"]);
    check("  arrivals: closed\n  concurrency: 0\n  requests: 5\n")
        .refused(&["workload.concurrency: is 0, expected a whole number of at least 1"]);
    check("  arrivals: closed\n  concurrency: 2\n").refused(&["workload.requests"]);
    check("  arrivals: closed\n  concurrency: 2\n  requests: 5\n  rate: 2 /s\n")
        .refused(&["workload.rate: has no effect with `arrivals: closed`"]);
    check("  arrivals: closed\n  concurrency: 2\n  requests: 5\n  duration: 2 s\n")
        .refused(&["workload.duration: has no effect with `arrivals: closed`"]);
    check("  arrivals: close\n  concurrency: 2\n  requests: 5\n  rate: 1 /s\n")
        .refused(&["did you mean `closed`?"]);
    check("  arrivals: closed\n  concurrency: many\n  requests: 5\n")
        .refused(&["workload.concurrency"]);
    let scratch = closed(EIGHT);
    scratch
        .pdsim(&["trace", "generate", "s.yaml", "t.csv"])
        .refused(&["workload.concurrency", "depends on the system"]);
    assert!(!scratch.path("t.csv").exists());
}

/// Results in vLLM's shape of one system of the small scenario, under the scratch folder.
const VLLM: &str = "output/small/vllm-bench/split-seed1.json";

/// Runs the small scenario and asks for results in vLLM's shape.
fn run_for_vllm() -> Scratch {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["run", "s.yaml", "--no-charts", "--vllm-json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("vllm-bench/split-seed1.json"),
        "{}",
        ran.err
    );
    scratch
}

#[test]
fn results_in_vllms_shape_have_its_keys_and_our_figures() {
    let scratch = run_for_vllm();
    let result: serde_json::Value = serde_json::from_str(&scratch.read(VLLM)).expect("it is JSON");
    for key in [
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
        "total_output_tokens",
        "request_throughput",
        "request_goodput",
        "output_throughput",
        "total_token_throughput",
        "mean_ttft_ms",
        "median_ttft_ms",
        "std_ttft_ms",
        "p99_ttft_ms",
        "mean_tpot_ms",
        "median_tpot_ms",
        "std_tpot_ms",
        "p99_tpot_ms",
        "mean_itl_ms",
        "median_itl_ms",
        "p99_itl_ms",
        "mean_e2el_ms",
        "p99_e2el_ms",
    ] {
        assert!(result[key].is_number(), "{key}: {}", result[key]);
    }
    for key in [
        "input_lens",
        "output_lens",
        "ttfts",
        "start_times",
        "errors",
    ] {
        assert_eq!(result[key].as_array().map(Vec::len), Some(200), "{key}");
    }
    let summary = rows(&scratch, "output/small/summary.csv");
    let split = summary
        .iter()
        .find(|r| r["system"] == "split")
        .expect("a row");
    let near = |key: &str, column: &str| {
        let (seen, told) = (
            result[key].as_f64().expect("a number"),
            number(split, column),
        );
        assert!((seen - told).abs() < 1e-5, "{key}: {seen}, {told}");
    };
    near("mean_ttft_ms", "ttft_mean_ms");
    near("p99_tpot_ms", "tpot_p99_ms");
    near("request_throughput", "requests_per_s");
}

#[test]
fn results_in_vllms_shape_read_back_as_the_same_workload() {
    let scratch = run_for_vllm();
    let replayed = SMALL.replace(
        &format!("  lengths: {{fixed: {{input: 512, output: 16}}}}\n{OPEN}"),
        &format!("  trace: {VLLM}\n  format: vllm-bench\n"),
    );
    scratch.write("again.yaml", &replayed);
    let ran = scratch.pdsim(&["run", "again.yaml", "--no-charts", "--out", "again"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (first, again) = (
        rows(&scratch, "output/small/requests.csv"),
        rows(&scratch, "again/requests.csv"),
    );
    assert_eq!(first.len(), again.len());
    for (a, b) in first.iter().zip(&again) {
        for column in [
            "input_tokens",
            "output_tokens",
            "ttft_ms",
            "e2e_ms",
            "status",
        ] {
            assert_eq!(a[column], b[column], "{column}");
        }
    }
    // A later run without the flag leaves nothing stale.
    assert_eq!(scratch.pdsim(&["run", "s.yaml", "--no-charts"]).code, 0);
    assert!(!scratch.path(VLLM).exists());
}

#[test]
fn results_in_vllms_shape_need_records() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["run", "s.yaml", "--vllm-json", "--no-requests"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("cannot be used with"), "{}", ran.err);
    scratch
        .pdsim(&[
            "check",
            "s.yaml",
            "--set",
            "output.vllm_bench=true",
            "--set",
            "output.requests=false",
        ])
        .refused(&["output.vllm_bench: lists every request"]);
}
