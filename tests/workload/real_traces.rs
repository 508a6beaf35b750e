//! The readers on the public traces: exact accounts, exact times.

use pdsim::workload::{Format, ReadOptions, Trace, read_trace};

fn read(file: &str) -> Option<Trace> {
    let path = super::traces()?.join(file);
    Some(read_trace(&path, &ReadOptions::default()).unwrap())
}

/// Kept rows, format, span in seconds to the millisecond, median prompt and output.
fn check(file: &str, format: Format, rows: u64, span_s: f64, input: u32, output: u32) {
    let Some(trace) = read(file) else { return };
    let report = &trace.report;
    assert_eq!(report.format, format);
    assert_eq!((report.rows_read(), report.kept), (rows, rows));
    assert_eq!(trace.requests.len() as u64, rows);
    assert!(report.dropped.is_empty() && report.warnings.is_empty());
    assert!(
        (report.span.as_secs_f64() - span_s).abs() < 0.0006,
        "{}",
        report.span.as_secs_f64()
    );
    assert_eq!(trace.requests[0].arrival.as_ps(), 0);
    let median = |mut lengths: Vec<u32>| {
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    };
    assert_eq!(
        median(trace.requests.iter().map(|r| r.input_tokens).collect()),
        input
    );
    assert_eq!(
        median(trace.requests.iter().map(|r| r.output_tokens).collect()),
        output
    );
}

#[test]
fn azure_conversation_2023_has_19366_rows() {
    check(
        "azure/AzureLLMInferenceTrace_conv.csv",
        Format::Azure,
        19_366,
        3501.722,
        1020,
        129,
    );
}

#[test]
fn azure_code_2023_has_8819_rows() {
    check(
        "azure/AzureLLMInferenceTrace_code.csv",
        Format::Azure,
        8_819,
        3435.948,
        1469,
        13,
    );
}

#[test]
fn mooncake_conversation_has_12031_rows() {
    check(
        "mooncake/conversation_trace.jsonl",
        Format::Mooncake,
        12_031,
        3536.999,
        6909,
        350,
    );
}

#[test]
fn mooncake_synthetic_has_3993_rows() {
    check(
        "mooncake/synthetic_trace.jsonl",
        Format::Mooncake,
        3_993,
        1022.025,
        11_587,
        69,
    );
}
