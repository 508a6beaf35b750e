//! Every reader on its hand-made sample: format by content, exact accounts, exact times.

use std::path::{Path, PathBuf};

use pdsim::workload::trace::DropReason as R;
use pdsim::workload::{Format, ReadOptions, RequestSpec, Trace, read_trace};

fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(file)
}

fn read(file: &str) -> Trace {
    read_trace(&sample(file), &ReadOptions::default()).unwrap()
}

/// Reads a sample and holds format, drops and requests (arrival in µs, prompt, output) against what stands in it.
fn check(file: &str, format: Format, dropped: &[(R, u64)], requests: &[(u64, u32, u32)]) -> Trace {
    let trace = read(file);
    let report = &trace.report;
    assert_eq!((report.format, report.detected), (format, true), "{file}");
    assert_eq!(
        report
            .dropped
            .iter()
            .map(|(r, n)| (*r, *n))
            .collect::<Vec<_>>(),
        dropped,
        "{file}"
    );
    let rows = requests.len() as u64 + dropped.iter().map(|(_, n)| n).sum::<u64>();
    assert_eq!(
        (report.rows_read(), report.kept),
        (rows, requests.len() as u64),
        "{file}"
    );
    let seen: Vec<_> = trace
        .stream()
        .map(|r: RequestSpec| {
            assert_eq!(
                r.arrival.as_ps() % 1_000_000,
                0,
                "{file}: whole microseconds"
            );
            (
                r.arrival.as_ps() / 1_000_000,
                r.input_tokens,
                r.output_tokens,
            )
        })
        .collect();
    assert_eq!(seen, requests, "{file}");
    trace
}

fn warnings(trace: &Trace) -> String {
    let all: Vec<String> = trace
        .report
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect();
    all.join("\n")
}

#[test]
fn pdsims_own_formats_keep_their_times() {
    let csv = check(
        "pdsim.csv",
        Format::PdsimCsv,
        &[(R::NoOutputTokens, 1)],
        &[(250_000, 900, 40), (1_500_000, 64, 12)],
    );
    assert_eq!(csv.report.classes, ["chat", "batch"]);
    let jsonl = check(
        "pdsim.jsonl",
        Format::PdsimJsonl,
        &[],
        &[(250_000, 900, 40), (750_000, 120, 7), (1_500_000, 1500, 12)],
    );
    assert_eq!(jsonl.report.classes, ["chat", ""]);
}

#[test]
fn azure_of_2023_and_2024() {
    // 100 ns digits: checked to the microsecond by the shares of the first row.
    let trace = read("azure_2023.csv");
    let ps: Vec<u64> = trace.stream().map(|r| r.arrival.as_ps()).collect();
    assert_eq!(ps, [0, 50_000_100_000, 900_000_000_000]);
    check(
        "azure_2024.csv",
        Format::Azure,
        &[(R::NoOutputTokens, 1)],
        &[(0, 111, 5), (7_400, 222, 12)],
    );
}

#[test]
fn mooncake_and_its_relatives() {
    check(
        "mooncake.jsonl",
        Format::Mooncake,
        &[],
        &[(0, 600, 50), (0, 700, 40), (3_000_000, 1200, 1)],
    );
    let sessions = check(
        "mooncake_sessions.jsonl",
        Format::Mooncake,
        &[(R::NoTokenCount, 1)],
        &[(0, 300, 40), (2_500_000, 400, 60)],
    );
    assert!(warnings(&sessions).contains("1 turns have a delay instead of a time"));
    let seconds = check(
        "guidellm.jsonl",
        Format::GuideLlm,
        &[],
        &[(0, 256, 32), (750_000, 512, 64)],
    );
    assert!(seconds.report.to_string().contains("times in s"));
}

#[test]
fn bailian_counts_doubles_and_missing_parents() {
    let trace = check(
        "bailian.jsonl",
        Format::Bailian,
        &[],
        &[
            (0, 44, 21),
            (8_750_000, 77, 13),
            (8_750_000, 15, 2),
            (9_500_000, 15, 3),
        ],
    );
    assert_eq!(trace.report.classes, ["text", "search"]);
    let warnings = warnings(&trace);
    assert!(
        warnings.contains("1 rows have an id seen before"),
        "{warnings}"
    );
    assert!(warnings.contains("1 turns name a parent"), "{warnings}");
}

#[test]
fn burstgpt_is_read_by_column_name_and_sorted() {
    let v1 = check(
        "burstgpt_v1.csv",
        Format::BurstGpt,
        &[(R::NoPromptTokens, 1), (R::NoOutputTokens, 1)],
        &[(0, 100, 18), (39_000_000, 350, 60)],
    );
    // The failed row at 52 s stands before the kept one at 49 s: only kept rows must be in order.
    assert_eq!(warnings(&v1), "");
    let v3 = check(
        "burstgpt_v3.csv",
        Format::BurstGpt,
        &[],
        &[(0, 120, 44), (6_900_000, 800, 13), (34_500_000, 260, 30)],
    );
    assert_eq!(v3.report.classes, ["ChatGPT", "GPT-4"]);
}

#[test]
fn servegen_draws_from_its_windows() {
    let trace = read("servegen-trace.csv");
    assert_eq!(
        (trace.report.format, trace.report.detected),
        (Format::ServeGen, true)
    );
    let requests: Vec<RequestSpec> = trace.stream().collect();
    // 30 + 60 + 60 expected; the bound is five standard deviations wide.
    assert!((70..240).contains(&requests.len()), "{}", requests.len());
    assert!(
        requests
            .iter()
            .all(|r| matches!(r.input_tokens, 100 | 200) && matches!(r.output_tokens, 10 | 30))
    );
    assert!(
        warnings(&trace)
            .contains("drawn from 4 windows (1 with rate 0, 3 with the lengths of another window)")
    );
    assert_eq!(
        requests,
        read("servegen-trace.csv").stream().collect::<Vec<_>>()
    );
}

#[test]
fn sharegpt_estimates_tokens_and_says_so() {
    let trace = check(
        "sharegpt.json",
        Format::ShareGpt,
        &[(R::NoAnswer, 1)],
        &[(0, 7, 15)],
    );
    let warnings = warnings(&trace);
    assert!(
        warnings.contains("estimated at 4 characters per token"),
        "{warnings}"
    );
    assert!(warnings.contains("no arrival times"), "{warnings}");
}

#[test]
fn simulators_of_the_field() {
    check(
        "vidur.csv",
        Format::Vidur,
        &[],
        &[(0, 300, 40), (4_250_000, 500, 90)],
    );
    let lengths = check(
        "vidur_lengths.csv",
        Format::Vidur,
        &[],
        &[(0, 300, 40), (0, 500, 90)],
    );
    assert!(warnings(&lengths).contains("no arrival times"));
    let splitwise = check(
        "splitwise.csv",
        Format::Splitwise,
        &[],
        &[(0, 1400, 12), (30_000, 900, 5), (55_000, 77, 21)],
    );
    assert!(warnings(&splitwise).contains("1 rows have an id seen before"));
}

#[test]
fn llmservingsim_unfolds_sessions_and_sorts_them() {
    let trace = read("llmservingsim.jsonl");
    let ns: Vec<(u64, u32)> = trace
        .stream()
        .map(|r| (r.arrival.as_ps() / 1000, r.input_tokens))
        .collect();
    assert_eq!(
        ns,
        [
            (0, 200),
            (300_000_001, 100),
            (450_000_000, 130),
            (5_300_000_001, 150)
        ]
    );
    let warnings = warnings(&trace);
    assert!(
        warnings.contains("1 turns have a delay") && warnings.contains("sorted by arrival"),
        "{warnings}"
    );
}

#[test]
fn results_of_load_generators() {
    check(
        "vllm_bench.json",
        Format::VllmBench,
        &[(R::Failed, 1)],
        &[(0, 128, 32), (750_000, 256, 16)],
    );
    let old = check(
        "vllm_bench_old.json",
        Format::VllmBench,
        &[],
        &[(0, 128, 32), (0, 256, 16)],
    );
    assert!(warnings(&old).contains("no arrival times"));
    check(
        "aiperf.jsonl",
        Format::AiPerf,
        &[(R::Failed, 1), (R::Warmup, 1)],
        &[(0, 512, 105), (2_000_000, 640, 9)],
    );
    check(
        "inference_perf.json",
        Format::InferencePerf,
        &[(R::Failed, 1)],
        &[(0, 300, 21)],
    );
}

#[test]
fn weka_unfolds_sub_agents_in_order() {
    let trace = check(
        "weka.json",
        Format::Weka,
        &[],
        &[
            (0, 130, 20),
            (0, 70, 5),
            (10_500_000, 90, 7),
            (12_000_000, 200, 30),
            (13_000_000, 120, 8),
        ],
    );
    assert!(warnings(&trace).contains("each of the 2 sessions starts at its own time zero"));
}

#[test]
fn every_sample_has_a_test_here() {
    let text = include_str!("samples.rs");
    for entry in std::fs::read_dir(sample("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let companion = name.ends_with("-dataset.json") || name == "README.md";
        assert!(
            companion || text.contains(&format!("\"{name}\"")),
            "{name} is not read by any test"
        );
    }
}
