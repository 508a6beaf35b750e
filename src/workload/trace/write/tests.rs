//! Tests of writing.

use super::*;
use crate::workload::lengths::named;
use crate::workload::{ArrivalProcess, Generated, RequestSpec};

fn sample(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn converted(path: &Path, format: Format) -> (String, Losses) {
    let mut out = Vec::new();
    let (_, losses) = convert(path, &ReadOptions::default(), format, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), losses)
}

fn save(folder: &tempfile::TempDir, name: &str, text: &str) -> std::path::PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn seconds_keep_every_picosecond() {
    let text = |ps| seconds(SimTime::from_ps(ps));
    assert_eq!(text(0), "0");
    assert_eq!(text(1), "0.000000000001");
    assert_eq!(text(1_500_000_000_000), "1.5");
    assert_eq!(text(12_000_000_000_034), "12.000000000034");
}

#[test]
fn a_generated_workload_written_and_read_is_the_same_workload() {
    let workload = Workload::generated(Generated {
        arrivals: ArrivalProcess::Gamma { rate: 7.0, cv: 2.0 },
        lengths: named("mooncake-conversation").unwrap().lengths,
        requests: Some(500),
        duration: None,
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let generated: Vec<RequestSpec> = workload.stream(9).collect();
    for format in [Format::PdsimCsv, Format::PdsimJsonl] {
        let mut out = Vec::new();
        let (n, losses) = write_workload(&workload, 9, format, &mut out).unwrap();
        assert_eq!((n, losses.none()), (500, true));
        let path = save(&folder, format.name(), &String::from_utf8(out).unwrap());
        let trace = read_trace(&path, &ReadOptions::default()).unwrap();
        assert_eq!(trace.stream().collect::<Vec<_>>(), generated, "{format}");
    }
}

#[test]
fn jsonl_holds_what_every_sample_holds() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "mooncake.jsonl",
        "bailian.jsonl",
        "weka.json",
        "burstgpt_v3.csv",
        "pdsim.csv",
        "aiperf.jsonl",
    ] {
        let (once, losses) = converted(&sample(name), Format::PdsimJsonl);
        assert!(losses.none(), "{name}: {losses}");
        let (twice, _) = converted(&save(&folder, "once.jsonl", &once), Format::PdsimJsonl);
        assert_eq!(once, twice, "{name}");
        let read = |path: &Path| {
            read_trace(path, &ReadOptions::default())
                .unwrap()
                .stream()
                .collect::<Vec<_>>()
        };
        let lengths = |all: Vec<RequestSpec>| -> Vec<_> {
            all.iter()
                .map(|r| (r.arrival, r.input_tokens, r.output_tokens, r.class))
                .collect()
        };
        let again = lengths(read(&folder.path().join("once.jsonl")));
        let first = lengths(read(&sample(name)));
        assert_eq!(again, first, "{name}");
    }
}

#[test]
fn mooncake_round_trips_to_the_byte_and_counts_what_it_cannot_hold() {
    let (text, losses) = converted(&sample("mooncake.jsonl"), Format::Mooncake);
    assert_eq!(
        text,
        std::fs::read_to_string(sample("mooncake.jsonl")).unwrap()
    );
    assert!(losses.none());
    let (_, losses) = converted(&sample("bailian.jsonl"), Format::Mooncake);
    assert_eq!((losses.blocks, losses.classes), (4, 4));
    let (_, losses) = converted(&sample("azure_2023.csv"), Format::Mooncake);
    assert_eq!(losses.rounded_times, 1);
    assert_eq!(
        losses.to_string(),
        "1 arrivals rounded to the format's resolution"
    );
}

#[test]
fn formats_for_reading_only_are_refused_by_name() {
    let mut out = Vec::new();
    let error = convert(
        &sample("pdsim.csv"),
        &ReadOptions::default(),
        Format::Weka,
        &mut out,
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("one of pdsim-csv, pdsim-jsonl, mooncake"),
        "{error}"
    );
}
