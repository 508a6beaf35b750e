//! Tests of reading whole traces.

mod damaged;
mod options;

use std::io::Cursor;
use std::path::Path;

use super::reader::{Reader, read_in_order};
use super::recorded::{collect, read_up_to};
use super::*;
use crate::units::SimDuration;
use crate::workload::RequestSpec;

fn read_with(bytes: impl Into<Vec<u8>>, options: &ReadOptions) -> Result<Trace, TraceError> {
    let (bytes, path) = (bytes.into(), Path::new("t.csv"));
    read_in_order(
        || Reader::from_input(Cursor::new(bytes.clone()), path, options),
        |reader| collect(reader, path, options, usize::MAX),
    )
}

fn read(text: &str) -> Result<Trace, TraceError> {
    read_with(text, &ReadOptions::default())
}

fn read_as(text: &str, format: Option<Format>) -> Result<Trace, TraceError> {
    let options = ReadOptions {
        format,
        ..ReadOptions::default()
    };
    read_with(text, &options)
}

fn requests(trace: &Trace) -> Vec<RequestSpec> {
    trace.stream().collect()
}

fn arrivals_ps(trace: &Trace) -> Vec<u64> {
    trace
        .stream()
        .map(|request| request.arrival.as_ps())
        .collect()
}

const PDSIM: &str = "arrival_s,input_tokens,output_tokens\n";

/// Ten rows a second apart with prompts 1 to 10.
fn ten() -> String {
    let rows: String = (0..10).map(|i| format!("{i},{},5\n", i + 1)).collect();
    format!("{PDSIM}{rows}")
}

fn seconds(n: u64) -> SimDuration {
    SimDuration::from_ms(n * 1000)
}

#[test]
fn the_format_is_found_from_the_content() {
    let cases = [
        (
            "arrival_s,input_tokens,output_tokens\n0,2,3\n",
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
    assert_eq!(arrivals_ps(&trace), [500_000_000_000, 1_500_000_000_000]);
    assert_eq!(
        (
            requests(&trace)[0].input_tokens,
            requests(&trace)[0].output_tokens
        ),
        (7, 9)
    );
}

#[test]
fn rows_without_a_class_are_a_class_of_their_own_wherever_they_stand() {
    let text = "arrival_s,input_tokens,output_tokens,class\n0,1,1,\n1,1,1,gold\n2,1,1,\n";
    let trace = read(text).unwrap();
    let classes: Vec<u16> = requests(&trace)
        .iter()
        .map(|request| request.class)
        .collect();
    assert_eq!(classes, [0, 1, 0]);
    assert_eq!(trace.report.classes, ["", "gold"]);
    let none = read("arrival_s,input_tokens,output_tokens,class\n0,1,1,\n1,1,1,\n").unwrap();
    assert!(none.report.classes.is_empty());
}

#[test]
fn classes_are_numbered_in_order_of_appearance() {
    let trace =
        read("arrival_s,input_tokens,output_tokens,class\n0,1,1,chat\n1,1,1,batch\n2,1,1,chat\n")
            .unwrap();
    let classes: Vec<u16> = requests(&trace)
        .iter()
        .map(|request| request.class)
        .collect();
    assert_eq!(classes, [0, 1, 0]);
    assert_eq!(trace.report.classes, ["chat", "batch"]);
}

#[test]
fn rows_read_are_kept_or_dropped_with_a_reason() {
    let trace = read(&format!("{PDSIM}0,5,0\n1,0,5\n2,0,0\n3,5,5\n")).unwrap();
    assert_eq!((trace.report.rows_read(), trace.report.kept), (4, 1));
    assert_eq!(trace.report.dropped[&DropReason::NoPromptTokens], 2);
    assert_eq!(trace.report.dropped[&DropReason::NoOutputTokens], 1);
    assert_eq!(arrivals_ps(&trace), [3_000_000_000_000]);
}

#[test]
fn an_unsorted_trace_is_sorted_stably_with_a_warning() {
    let trace = read(&format!("{PDSIM}3,1,1\n1,2,2\n1,3,3\n2,4,4\n")).unwrap();
    let inputs: Vec<u32> = trace.stream().map(|request| request.input_tokens).collect();
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
        "t.csv:3: `x` where a time, a decimal number of at least 0, in column `arrival_s` is expected (1 rows before it were good)"
    );
    assert!(error("-1,1,1\n").starts_with("t.csv:3: `-1` where a time"));
    assert!(error("NaN,1,1\n").starts_with("t.csv:3: `NaN` where a time"));
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
            .contains("`-4` where a time of at least 0")
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
        "t.csv: no request in this trace: 1 rows read, dropped: 1 no output tokens (failed or empty reply)"
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
        read("{\"a\": \"b\\\\c\"}\n")
            .unwrap_err()
            .to_string()
            .contains("first line `{\"a\": \"b\\\\c\"}`")
    );
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

#[test]
fn a_rate_in_the_wrong_unit_names_the_likely_one() {
    let rows: String = (0..50)
        .map(|i| format!("{{\"timestamp\": {i}, \"input_length\": 5, \"output_length\": 5}}\n"))
        .collect();
    // Seconds read as Mooncake's milliseconds: 1000 requests/s is still plausible.
    let trace = read_with(rows.as_str(), &ReadOptions::default()).unwrap();
    assert!(trace.report.warnings.is_empty());
    let options = ReadOptions {
        time_unit: Some(TimeUnit::Microseconds),
        ..ReadOptions::default()
    };
    let trace = read_with(rows.as_str(), &options).unwrap();
    let text = trace.report.warnings[0].to_string();
    assert!(text.contains("read as us: they look like s;"), "{text}");
    assert_eq!(arrivals_ps(&trace)[1], 1_000_000);
}

#[test]
fn naive_times_that_jump_an_hour_are_told() {
    let rows = |minute: u32| -> String {
        let row = |i| format!("2023-10-29 02:{minute:02}:{i:02},5,5\n");
        (0..60).map(row).collect()
    };
    let header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    let text = format!("{header}{}{}", rows(59), rows(0));
    let trace = read(&text).unwrap();
    let jump = ReadWarning::DaylightSaving {
        line: 62,
        back: true,
    };
    assert!(
        trace.report.warnings.contains(&jump),
        "{:?}",
        trace.report.warnings
    );
}
