//! The readers on the public traces: exact accounts, exact times.

use pdsim::workload::stats::trace_stats;
use pdsim::workload::trace::ReadWarning;
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
    assert_eq!(trace.len(), rows);
    // The conversation trace has 1,180 distinct stamps on 12,031 rows, and says so; no other has anything to tell.
    let coarse = report
        .warnings
        .iter()
        .all(|w| matches!(w, ReadWarning::CoarseTimes { distinct: 1180, .. }));
    assert!(
        coarse && report.warnings.len() == usize::from(rows == 12_031),
        "{:?}",
        report.warnings
    );
    assert!(report.dropped.is_empty());
    assert!(
        (report.span.as_secs_f64() - span_s).abs() < 0.0006,
        "{}",
        report.span.as_secs_f64()
    );
    assert_eq!(trace.stream().next().unwrap().arrival.as_ps(), 0);
    let median = |mut lengths: Vec<u32>| {
        lengths.sort_unstable();
        lengths[lengths.len() / 2]
    };
    assert_eq!(
        median(trace.stream().map(|r| r.input_tokens).collect()),
        input
    );
    assert_eq!(
        median(trace.stream().map(|r| r.output_tokens).collect()),
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

#[test]
fn sharegpt_lengths_have_300_rows() {
    check(
        "sharegpt_lengths/sharegpt_300.jsonl",
        Format::LlmServingSim,
        300,
        29.137,
        733,
        633,
    );
}

#[test]
fn handmade_bailian_and_burstgpt_rows_are_all_accounted_for() {
    for (file, format, kept, dropped) in [
        ("bailian/handmade.jsonl", Format::Bailian, 3, 0),
        ("burstgpt/handmade_v1.csv", Format::BurstGpt, 3, 2),
        ("burstgpt/handmade_v3.csv", Format::BurstGpt, 3, 1),
    ] {
        let Some(trace) = read(file) else { return };
        assert_eq!(trace.report.format, format);
        assert_eq!(
            (trace.report.kept, trace.report.rows_dropped()),
            (kept, dropped),
            "{file}"
        );
    }
}

#[test]
fn servegen_clients_draw_about_as_many_requests_as_their_windows_say() {
    // Sums of rate × 600 s over the windows of each file.
    for (client, expected) in [(15, 116_926.0), (33, 391_825.0), (42, 50_010.0)] {
        let Some(trace) = read(&format!("servegen/chunk-{client}-trace.csv")) else {
            return;
        };
        assert_eq!(trace.report.format, Format::ServeGen);
        let (kept, rows) = (trace.report.kept as f64, trace.report.rows_read() as f64);
        assert!(
            (rows / expected - 1.0).abs() < 0.05,
            "client {client}: {rows} rows for {expected}"
        );
        assert!(kept > 0.9 * rows, "client {client}: {kept} of {rows}");
    }
}

#[test]
fn statistics_match_the_published_tables() {
    let stats = |file: &str| {
        Some(trace_stats(&super::traces()?.join(file), &ReadOptions::default()).unwrap())
    };
    let near = |seen: f64, told: f64, digit: f64| {
        assert!(
            (seen - told).abs() <= digit / 2.0 + 1e-9,
            "{seen} for {told}"
        );
    };
    let Some(conv) = stats("azure/AzureLLMInferenceTrace_conv.csv") else {
        return;
    };
    near(conv.input.mean, 1154.7, 0.1);
    near(conv.input.sd, 1108.8, 0.1);
    near(conv.output.mean, 211.1, 0.1);
    for ((_, seen), told) in conv
        .input
        .percentiles
        .iter()
        .zip([207.0, 396.0, 1020.0, 1189.0, 2734.5, 4083.0, 4142.0])
    {
        near(*seen, told, 0.1);
    }
    near(conv.gap_cv.unwrap(), 1.09, 0.01);
    near(
        stats("azure/AzureLLMInferenceTrace_code.csv")
            .unwrap()
            .gap_cv
            .unwrap(),
        13.15,
        0.01,
    );
    for (file, told) in [("conversation", 0.374), ("synthetic", 0.651)] {
        let stats = stats(&format!("mooncake/{file}_trace.jsonl")).unwrap();
        near(stats.sharing.unwrap().tokens, told, 0.001);
    }
}
