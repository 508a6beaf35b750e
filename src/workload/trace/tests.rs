//! Tests of reading whole traces.

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

/// Ten rows a second apart with prompts 1 to 10.
fn ten() -> String {
    let rows: String = (0..10).map(|i| format!("{i},{},5\n", i + 1)).collect();
    format!("{PDSIM}{rows}")
}

fn kept(options: &ReadOptions) -> (Vec<u64>, Vec<u32>, ReadReport) {
    let trace = read_with(ten(), options).unwrap();
    let seconds = arrivals_ps(&trace)
        .iter()
        .map(|ps| ps / 1_000_000_000_000)
        .collect();
    let inputs = trace.stream().map(|request| request.input_tokens).collect();
    (seconds, inputs, trace.report)
}

fn seconds(n: u64) -> SimDuration {
    SimDuration::from_ms(n * 1000)
}

#[test]
fn a_window_keeps_its_arrivals_and_starts_at_zero() {
    let window = Some(Window {
        from: seconds(3),
        to: Some(seconds(6)),
    });
    let (at, inputs, report) = kept(&ReadOptions {
        window,
        ..ReadOptions::default()
    });
    assert_eq!((at, inputs), (vec![0, 1, 2], vec![4, 5, 6]));
    assert_eq!(
        (
            report.rows_read(),
            report.dropped[&DropReason::OutsideWindow]
        ),
        (10, 7)
    );
}

#[test]
fn a_limit_stops_the_read() {
    let (at, _, report) = kept(&ReadOptions {
        limit: Some(4),
        ..ReadOptions::default()
    });
    assert_eq!(
        (at, report.rows_read(), report.stopped_at_limit),
        (vec![0, 1, 2, 3], 4, true)
    );
}

#[test]
fn thinning_keeps_sessions_whole_and_the_asked_share() {
    let rows: String = (0..4000)
        .map(|i| format!("{i},1,1,,s{}\n", i / 4))
        .collect();
    let text = format!("arrival_s,input_tokens,output_tokens,class,session\n{rows}");
    let options = ReadOptions {
        sample: Some(0.3),
        ..ReadOptions::default()
    };
    let trace = read_with(text, &options).unwrap();
    let sessions: Vec<u64> = arrivals_ps(&trace)
        .iter()
        .map(|ps| ps / 4_000_000_000_000)
        .collect();
    for session in &sessions {
        assert_eq!(sessions.iter().filter(|s| *s == session).count(), 4);
    }
    // 300 of 1000 sessions, within four standard deviations.
    assert!(
        (242..358).contains(&(sessions.len() / 4)),
        "{}",
        sessions.len() / 4
    );
}

#[test]
fn time_is_scaled_or_stretched_to_a_rate() {
    let (at, ..) = kept(&ReadOptions {
        time_scale: Some(2.0),
        ..ReadOptions::default()
    });
    assert_eq!(at[9], 18);
    let options = ReadOptions {
        rate: Some(0.1),
        ..ReadOptions::default()
    };
    let trace = read_with(ten(), &options).unwrap();
    assert!((trace.rate().unwrap() - 0.1).abs() < 1e-12);
    assert_eq!(*arrivals_ps(&trace).last().unwrap(), 90_000_000_000_000);
}

#[test]
fn shuffled_arrivals_are_poisson_at_the_same_mean_and_keep_the_lengths() {
    let rows: String = (0..20_000)
        .map(|i| format!("{i},{},5\n", i % 97 + 1))
        .collect();
    let options = ReadOptions {
        shuffle_arrivals: true,
        seed: 3,
        ..ReadOptions::default()
    };
    let trace = read_with(format!("{PDSIM}{rows}"), &options).unwrap();
    let requests = requests(&trace);
    let gaps: Vec<f64> = requests
        .windows(2)
        .map(|p| (p[1].arrival - p[0].arrival).as_secs_f64())
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean - 1.0).abs() < 0.04, "mean gap {mean}");
    assert!(
        (variance.sqrt() / mean - 1.0).abs() < 0.05,
        "variation {}",
        variance.sqrt() / mean
    );
    assert!(
        requests
            .iter()
            .enumerate()
            .all(|(i, r)| r.input_tokens as usize == i % 97 + 1)
    );
}

#[test]
fn long_contexts_are_dropped_or_cut() {
    let text = format!("{PDSIM}0,90,10\n1,91,10\n2,5,200\n");
    let beyond = |beyond| {
        let max_context = Some(MaxContext {
            tokens: 100,
            beyond,
        });
        let options = ReadOptions {
            max_context,
            ..ReadOptions::default()
        };
        read_with(text.clone(), &options).unwrap()
    };
    let dropped = beyond(Beyond::Drop);
    assert_eq!(
        (
            dropped.len(),
            dropped.report.dropped[&DropReason::BeyondMaxContext]
        ),
        (1, 2)
    );
    let cut: Vec<(u32, u32)> = beyond(Beyond::Truncate)
        .stream()
        .map(|r| (r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(cut, [(90, 10), (90, 10), (1, 99)]);
}

#[test]
fn failed_requests_can_keep_their_prefill() {
    let options = ReadOptions {
        failed: Failed::PrefillOnly,
        ..ReadOptions::default()
    };
    let trace = read_with(format!("{PDSIM}0,5,0\n1,0,0\n2,7,3\n"), &options).unwrap();
    let lengths: Vec<(u32, u32)> = trace
        .stream()
        .map(|r| (r.input_tokens, r.output_tokens))
        .collect();
    assert_eq!(lengths, [(5, 1), (7, 3)]);
    assert!(
        trace
            .report
            .warnings
            .contains(&ReadWarning::PrefillOnly { rows: 1 })
    );
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

#[test]
fn a_cut_gzip_says_how_many_rows_were_good() {
    use std::io::Write as _;
    let rows: String = (0..50_000)
        .map(|i| format!("{i},{},5\n", i * 7919 % 1000 + 1))
        .collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(format!("{PDSIM}{rows}").as_bytes())
        .unwrap();
    let whole = encoder.finish().unwrap();
    assert_eq!(
        read_with(whole.clone(), &ReadOptions::default())
            .unwrap()
            .len(),
        50_000
    );
    let error = read_with(&whole[..whole.len() / 2], &ReadOptions::default()).unwrap_err();
    let TraceError::Malformed { good, .. } = &error else {
        panic!("{error}")
    };
    assert!(*good > 1000, "{good}");
    assert!(error.to_string().contains("gzip data cut short"), "{error}");
}

#[test]
fn joined_and_mixed_files_are_refused_at_their_seam() {
    let joined = format!("{PDSIM}0,1,1\n{PDSIM}0,1,1\n");
    let error = read(&joined).unwrap_err().to_string();
    assert!(
        error.starts_with("t.csv:3:") && error.contains("were two files joined?"),
        "{error}"
    );
    let mixed =
        format!("{PDSIM}0,1,1\n{{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}}\n");
    let error = read(&mixed).unwrap_err().to_string();
    assert!(error.contains("looks like mooncake"), "{error}");
}

#[test]
fn impossible_options_name_their_key() {
    let key = |change: &dyn Fn(&mut ReadOptions)| {
        let mut options = ReadOptions::default();
        change(&mut options);
        match read_with(ten(), &options) {
            Err(TraceError::Options(error)) => error.key,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(key(&|o| o.rate = Some(0.0)), "rate");
    assert_eq!(key(&|o| o.sample = Some(1.5)), "sample");
    assert_eq!(key(&|o| o.limit = Some(0)), "limit");
    assert_eq!(key(&|o| o.time_scale = Some(f64::NAN)), "time_scale");
    assert_eq!(key(&|o| o.time_scale = Some(1e9)), "time_scale");
    let (tokens, beyond) = (1, Beyond::Drop);
    assert_eq!(
        key(&|o| o.max_context = Some(MaxContext { tokens, beyond })),
        "max_context"
    );
    let (from, to) = (seconds(5), Some(seconds(5)));
    assert_eq!(key(&|o| o.window = Some(Window { from, to })), "window");
}

#[test]
fn files_that_are_no_text_say_what_they_are() {
    for (bytes, says) in [
        (&b"PAR1\x15\x04"[..], "Parquet"),
        (b"PK\x03\x04", "zip archive"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "Git LFS pointer",
        ),
    ] {
        let error = read_with(bytes, &ReadOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, format in 0..=Format::ALL.len()) {
        let options = ReadOptions {
            format: Format::ALL.get(format).copied(),
            ..ReadOptions::default()
        };
        let _ = read_with(bytes, &options);
    }
}

/// The samples of all formats, cut at any byte and with any byte replaced, give an answer or an error.
#[test]
fn cut_and_damaged_samples_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let whole = std::fs::read(&path).unwrap();
        let format = Format::detect(&whole).ok();
        let read = |bytes: Vec<u8>| {
            let options = ReadOptions {
                format,
                ..ReadOptions::default()
            };
            let _ = read_in_order(
                || Reader::from_input(Cursor::new(bytes.clone()), &path, &options),
                |reader| collect(reader, &path, &options, usize::MAX),
            );
        };
        for cut in 0..whole.len() {
            read(whole[..cut].to_vec());
        }
        for at in 0..whole.len() {
            for byte in [b'"', b'9', b'-', b'\n', 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                read(damaged);
            }
        }
    }
}

#[test]
fn a_trace_too_long_for_memory_streams_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.csv");
    let rows: String = (0..500)
        .map(|i| format!("{}.5,{},{}\n", i + 3, i % 50 + 1, i % 9 + 1))
        .collect();
    std::fs::write(&path, format!("{PDSIM}{rows}")).unwrap();
    let options = ReadOptions::default();
    let whole = read_up_to(&path, &options, 500).unwrap();
    let streamed = read_up_to(&path, &options, 499).unwrap();
    assert!(whole.is_in_memory() && !streamed.is_in_memory());
    assert_eq!(requests(&whole), requests(&streamed));
    let (fast, slow) = (
        whole.with_rate(7.0).unwrap(),
        streamed.with_rate(7.0).unwrap(),
    );
    assert_eq!(requests(&fast), requests(&slow));
    // A file that changes under the simulation ends the stream and says so.
    std::fs::write(&path, format!("{PDSIM}3.5,1,1\nbroken\n")).unwrap();
    assert_eq!(
        (streamed.stream().count(), streamed.failure().is_some()),
        (1, true)
    );
    assert_eq!(whole.failure(), None);
}

#[test]
fn a_long_trace_that_lost_rows_or_begins_earlier_is_not_read_as_a_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.csv");
    let rows = |from: u64, to: u64| -> String {
        let rows: String = (from..to)
            .map(|i| format!("{},1,1\n", 200_000 + i))
            .collect();
        format!("{PDSIM}{rows}")
    };
    for other in [rows(5, 400), rows(0, 500)] {
        std::fs::write(&path, rows(5, 500)).unwrap();
        let trace = read_up_to(&path, &ReadOptions::default(), 100).unwrap();
        assert_eq!((trace.stream().count(), trace.failure()), (495, None));
        std::fs::write(&path, other).unwrap();
        assert!(trace.stream().count() < 495);
        assert!(
            trace.failure().unwrap().contains("changed"),
            "{:?}",
            trace.failure()
        );
    }
}

#[test]
fn a_time_unit_that_is_named_holds_for_pdsim_jsonl_as_well() {
    let row = |at| format!("{{\"arrival_s\": {at}, \"input_tokens\": 9, \"output_tokens\": 3}}\n");
    let options = ReadOptions {
        time_unit: Some(TimeUnit::Milliseconds),
        ..ReadOptions::default()
    };
    let trace = read_with([row("0"), row("2.5")].concat(), &options).unwrap();
    assert_eq!(arrivals_ps(&trace), [0, 2_500_000_000]);
}
