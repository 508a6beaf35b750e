//! Files that break off, are damaged, joined or too long.

use super::*;

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
