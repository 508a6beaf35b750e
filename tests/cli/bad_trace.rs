//! Traces that cannot be used, or only with a warning.

use crate::support::{Ran, SMALL, Scratch};

const HEADER: &str = "arrival_s,input_tokens,output_tokens\n";

/// Checks a scenario that replays this text as its trace.
fn check(trace: &str, more: &[&str]) -> Ran {
    let generated = "  lengths: {fixed: {input: 512, output: 16}}\n  rate: 4 /s\n  requests: 200\n";
    let scratch = Scratch::with("s.yaml", &SMALL.replace(generated, "  trace: t.csv\n"));
    scratch.write("t.csv", trace);
    scratch.pdsim(&[&["check", "s.yaml"][..], more].concat())
}

#[test]
fn a_missing_trace_names_the_key() {
    check(HEADER, &["--set", "workload.trace=nowhere.csv"])
        .refused(&["workload.trace: nowhere.csv: cannot read", "current folder"]);
}

#[test]
fn an_empty_trace_is_refused() {
    check(HEADER, &[]).refused(&["t.csv: no request in this trace"]);
    check("", &[]).refused(&["t.csv"]);
}

#[test]
fn a_malformed_line_is_named_with_what_was_expected() {
    check(&format!("{HEADER}0,100,5\n1,many,5\n"), &[]).refused(&["t.csv:3: ", "many", "expected"]);
    check(&format!("{HEADER}0,100,5\nNaN,100,5\n"), &[]).refused(&["t.csv:3: ", "NaN"]);
    check(&format!("{HEADER}0,100,5\n1,-100,5\n"), &[]).refused(&["t.csv:3: ", "-100"]);
}

#[test]
fn an_unsorted_trace_is_sorted_with_a_warning() {
    let ran = check(&format!("{HEADER}5,100,5\n1,100,5\n"), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("sorted"), "{}", ran.err);
}

#[test]
fn keys_of_generated_requests_do_not_go_with_a_trace() {
    let trace = format!("{HEADER}0,100,5\n1,100,5\n");
    check(&trace, &["--set", "workload.requests=5"]).refused(&[
        "workload.requests: is for generated requests only",
        "`limit`",
    ]);
    check(
        &trace,
        &[
            "--set",
            "workload.rate=5 /s",
            "--set",
            "workload.time_scale=2",
        ],
    )
    .refused(&["remove one of them"]);
    check(&trace, &["--set", "workload.format=azur"]).refused(&["did you mean `azure`?"]);
    check(&trace, &["--set", "workload.limit=0"]).refused(&["workload.limit: is 0"]);
}
