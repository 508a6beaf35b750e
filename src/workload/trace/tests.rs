//! Tests of reading whole traces.

use super::*;
use std::io::Cursor;

fn read(text: &str) -> Result<Trace, TraceError> {
    read_as(text, None)
}

fn read_as(text: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    let options = ReadOptions {
        format,
        ..ReadOptions::default()
    };
    read_from(
        Cursor::new(text.as_bytes().to_vec()),
        Path::new("t.csv"),
        &options,
    )
}

fn arrivals_ps(trace: &Trace) -> Vec<u64> {
    trace
        .requests
        .iter()
        .map(|request| request.arrival.as_ps())
        .collect()
}

const PDSIM: &str = "arrival_s,input_tokens,output_tokens\n";

#[test]
fn the_format_is_found_from_the_content() {
    let cases = [
        (
            "arrival_s,input_tokens,output_tokens\n1,2,3\n",
            Format::PdsimCsv,
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
            Format::Azure,
        ),
        (
            "{\"timestamp\": 5, \"input_length\": 7, \"output_length\": 9, \"hash_ids\": [1]}\n",
            Format::Mooncake,
        ),
    ];
    for (text, format) in cases {
        let trace = read(text).unwrap();
        assert_eq!(trace.report.format, format);
        assert!(trace.report.detected);
        assert_eq!(arrivals_ps(&trace), [0]);
    }
}

#[test]
fn relative_times_survive_the_shift_exactly() {
    let trace = read(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.9999999,1,2\n2023-11-17 00:00:00.0000001,3,4",
    )
    .unwrap();
    assert_eq!(arrivals_ps(&trace), [0, 200_000]);
    assert!(trace.report.shifted_by_ps > 0);
    assert!(trace.report.to_string().contains("first arrival is at 0"));
}

#[test]
fn columns_are_found_by_name_with_bom_and_crlf() {
    let trace =
        read("\u{feff}output_tokens,note,Arrival_S,input_tokens\r\n9,a,0.5,7\r\n8,b,1.5,6\r\n")
            .unwrap();
    assert_eq!(arrivals_ps(&trace), [0, 1_000_000_000_000]);
    assert_eq!(
        (
            trace.requests[0].input_tokens,
            trace.requests[0].output_tokens
        ),
        (7, 9)
    );
}

#[test]
fn classes_are_numbered_in_order_of_appearance() {
    let trace =
        read("arrival_s,input_tokens,output_tokens,class\n0,1,1,chat\n1,1,1,batch\n2,1,1,chat\n")
            .unwrap();
    let classes: Vec<u16> = trace.requests.iter().map(|request| request.class).collect();
    assert_eq!(classes, [0, 1, 0]);
    assert_eq!(trace.report.classes, ["chat", "batch"]);
}

#[test]
fn rows_read_are_kept_or_dropped_with_a_reason() {
    let trace = read(&format!("{PDSIM}0,5,0\n1,0,5\n2,0,0\n3,5,5\n")).unwrap();
    assert_eq!((trace.report.rows_read(), trace.report.kept), (4, 1));
    assert_eq!(trace.report.dropped[&DropReason::NoPromptTokens], 2);
    assert_eq!(trace.report.dropped[&DropReason::NoOutputTokens], 1);
    // The shift counts from the first request that is kept.
    assert_eq!(arrivals_ps(&trace), [0]);
}

#[test]
fn an_unsorted_trace_is_sorted_stably_with_a_warning() {
    let trace = read(&format!("{PDSIM}3,1,1\n1,2,2\n1,3,3\n2,4,4\n")).unwrap();
    let inputs: Vec<u32> = trace
        .requests
        .iter()
        .map(|request| request.input_tokens)
        .collect();
    assert_eq!(inputs, [2, 3, 4, 1]);
    assert_eq!(trace.report.warnings, [ReadWarning::Unsorted { rows: 1 }]);
}

#[test]
fn a_malformed_line_names_file_line_and_expectation() {
    let error = |rows: &str| {
        read(&format!("{PDSIM}0,1,1\n{rows}"))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("x,1,1\n"),
        "t.csv:3: `x` where seconds, a decimal number of at least 0 in column `arrival_s` is expected (1 rows before it were good)"
    );
    assert!(error("-1,1,1\n").starts_with("t.csv:3: `-1` where seconds"));
    assert!(error("NaN,1,1\n").starts_with("t.csv:3: `NaN` where seconds"));
    assert!(error("1,1\n").contains("t.csv:3: a row of 2 fields where a field for each column"));
    assert!(error("1,4294967296,1\n").contains("`4294967296` where a whole number of tokens"));
    assert!(error("1,1.5,1\n").contains("`1.5` where a whole number of tokens"));
    assert!(error("1,-1,1\n").contains("`-1` where a whole number of tokens"));
}

#[test]
fn a_malformed_json_line_names_its_line() {
    let good = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n";
    let error = |line: &str| read(&format!("{good}\n{line}")).unwrap_err().to_string();
    assert!(error("{\"timestamp\": 0, \"input_le").starts_with("t.csv:3: "));
    assert!(
        error("{\"timestamp\": -4, \"input_length\": 1, \"output_length\": 1}")
            .contains("`-4` where milliseconds")
    );
    assert!(
        error("{\"timestamp\": 4, \"input_length\": -1, \"output_length\": 1}")
            .contains("`input_length`")
    );
}

#[test]
fn an_empty_trace_is_an_error() {
    assert!(matches!(read(""), Err(TraceError::Empty { read: 0, .. })));
    assert!(matches!(
        read(PDSIM),
        Err(TraceError::Empty { read: 0, .. })
    ));
    let error = read(&format!("{PDSIM}0,1,0\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "t.csv: no request in this trace: 1 rows read, dropped: 1 with no output tokens (failed or empty reply)"
    );
}

#[test]
fn an_unknown_format_shows_the_line_and_the_known_names() {
    let error = read("a,b,c\n1,2,3\n").unwrap_err().to_string();
    assert!(
        error.starts_with("t.csv:1: the format is not known from the first line `a,b,c`"),
        "{error}"
    );
    let error = read_as("a,b,c\n1,2,3\n", Some(Format::PdsimCsv))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("t.csv:1: columns `a,b,c` where a header with the columns arrival_s"),
        "{error}"
    );
}

#[test]
fn a_span_beyond_the_clock_is_an_error() {
    let error = read(&format!("{PDSIM}0,1,1\n99999999,1,1\n")).unwrap_err();
    assert!(matches!(error, TraceError::TooLong { .. }));
}
