//! `pdsim trace` as built: outputs, exit codes, and the round trip of a run through an exported trace.

use std::path::Path;
use std::process::{Command, Output};

fn pdsim(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pdsim"));
    command.current_dir(folder).args(args).output().unwrap()
}

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    path.to_str().unwrap().to_owned()
}

fn ok(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{err}");
    (out, err)
}

const SCENARIO: &str = "name: round
model: llama-3.1-8b
engine: vllm-v1
workload: WORKLOAD
systems:
  split:
    policy: disaggregated
    prefill: {instances: 1, gpu: h100-sxm, tp: 1}
    decode: {instances: 1, gpu: h100-sxm, tp: 1}
    transfer: {link: rdma}
  chunked:
    policy: chunked
    pool: {instances: 2, gpu: h100-sxm, tp: 1}
";

/// `requests.csv` without its column of rates, which a trace has none of.
fn requests(folder: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_path(folder.join("requests.csv")).unwrap();
    let rate = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "rate");
    let row = |record: csv::StringRecord| {
        let fields = record.iter().enumerate().filter(|(i, _)| Some(*i) != rate);
        fields.map(|(_, field)| field.to_owned()).collect()
    };
    reader
        .records()
        .map(|record| row(record.unwrap()))
        .collect()
}

#[test]
fn a_run_through_an_exported_trace_gives_identical_results() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let write = |name: &str, workload: &str| {
        std::fs::write(at.join(name), SCENARIO.replace("WORKLOAD", workload)).unwrap();
    };
    let bursts = "{on_off: {on: 5 s, off: 10 s, off_share: 0.2}}";
    write(
        "generated.yaml",
        &format!("{{lengths: azure-conv-2023, arrivals: {bursts}, rate: 12 /s, requests: 600}}"),
    );
    for (file, name) in [("t.csv", "csv"), ("t.jsonl", "jsonl")] {
        ok(&pdsim(at, &["trace", "generate", "generated.yaml", file]));
        write(&format!("{name}.yaml"), &format!("{{trace: {file}}}"));
        ok(&pdsim(
            at,
            &[
                "run",
                &format!("{name}.yaml"),
                "--quiet",
                "--no-charts",
                "--out",
                name,
            ],
        ));
    }
    ok(&pdsim(
        at,
        &[
            "run",
            "generated.yaml",
            "--quiet",
            "--no-charts",
            "--out",
            "generated",
        ],
    ));
    let first = requests(&at.join("generated"));
    assert_eq!(first.len(), 1200);
    assert_eq!(first, requests(&at.join("csv")));
    assert_eq!(first, requests(&at.join("jsonl")));
}

#[test]
fn info_prints_the_account_and_draws_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = ok(&pdsim(
        folder.path(),
        &["trace", "info", &sample("bailian.jsonl")],
    ));
    assert!(
        out.contains("4 rows read = 4 kept + 0 dropped") && out.contains("prefix sharing"),
        "{out}"
    );
    assert!(
        out.contains("classes               0 `text` (2), 1 `search` (2), by first appearance"),
        "{out}"
    );
    assert!(
        err.contains("warning: 1 rows have an id seen before"),
        "{err}"
    );
    let page = std::fs::read(folder.path().join("output/bailian/trace.png")).unwrap();
    assert!(page.starts_with(b"\x89PNG"));
    let (json, _) = ok(&pdsim(
        folder.path(),
        &[
            "trace",
            "info",
            "--json",
            "--no-charts",
            &sample("bailian.jsonl"),
        ],
    ));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["kept"], 4);
    assert_eq!(json["class_requests"], serde_json::json!([2, 2]));
}

#[test]
fn a_page_is_drawn_of_every_sample() {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(sample("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with("-dataset.json") && name != "README.md" {
            ok(&pdsim(folder.path(), &["trace", "info", &sample(&name)]));
        }
    }
}

#[test]
fn convert_says_what_was_lost_and_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (_, err) = ok(&pdsim(
        at,
        &[
            "trace",
            "convert",
            &sample("bailian.jsonl"),
            "out.jsonl",
            "--to",
            "mooncake",
        ],
    ));
    assert!(
        err.contains("cannot hold all: 4 classes left out, 4 lists of prefix blocks left out"),
        "{err}"
    );
    std::fs::write(
        at.join("bad.csv"),
        "arrival_s,input_tokens,output_tokens\n0,1,1\n1,x,1\n",
    )
    .unwrap();
    let failed = pdsim(at, &["trace", "convert", "bad.csv", "none.csv"]);
    assert_eq!(failed.status.code(), Some(2));
    let text = String::from_utf8(failed.stderr).unwrap();
    assert!(
        text.contains("bad.csv:3: `x` where a whole number of tokens"),
        "{text}"
    );
    let names: Vec<_> = std::fs::read_dir(at)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn wrong_flags_name_themselves() {
    let folder = tempfile::tempdir().unwrap();
    for (args, says) in [
        (
            ["--sample", "2"],
            "--sample: 2 where a share above 0 and at most 1",
        ),
        (["--window", "5..6"], "--window: `5..6` where two times"),
        (["--format", "mooncak"], "did you mean `mooncake`?"),
        (
            ["--time-unit", "weeks"],
            "--time-unit: `weeks` where one of s, ms, us, ns",
        ),
        (["--failed", "keep"], "--failed: `keep`"),
    ] {
        let output = pdsim(
            folder.path(),
            &["trace", "info", &sample("pdsim.csv"), args[0], args[1]],
        );
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn a_fitted_workload_can_be_pasted_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/sample.csv");
    let (out, _) = ok(&pdsim(at, &["trace", "fit", traces.to_str().unwrap()]));
    assert!(out.contains("workload:\n"), "{out}");
    let scenario = SCENARIO.replace("workload: WORKLOAD\n", &out);
    std::fs::write(at.join("fitted.yaml"), scenario).unwrap();
    ok(&pdsim(at, &["check", "fitted.yaml"]));
}
