//! The files of a synthetic experiment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::testing::report;
use super::{
    REQUESTS_HEADER, Report, Style, emit, pool, sentences, summarise, terminal, warnings, write_all,
};

fn written(report: &Report) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let paths = write_all(folder.path(), report, "name: toy\n").unwrap();
    let files: BTreeMap<String, Vec<u8>> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (name(&path), fs::read(&path).unwrap()))
        .collect();
    let mut named: Vec<String> = paths.iter().map(|path| name(path)).collect();
    named.sort();
    assert_eq!(named, files.keys().cloned().collect::<Vec<_>>());
    files
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn rows(bytes: &[u8]) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_reader(bytes)
        .deserialize()
        .map(|row| row.unwrap())
        .collect()
}

#[test]
fn l7_the_same_runs_write_the_same_bytes_in_any_order() {
    let mut report = report(&[2.0, 8.0], 2, 300);
    let first = written(&report);
    report.runs.reverse();
    assert!(first == written(&report));
}

#[test]
fn requests_csv_agrees_with_the_summary() {
    let report = report(&[2.0, 8.0], 2, 300);
    let files = written(&report);
    let text = String::from_utf8(files["requests.csv"].clone()).unwrap();
    assert_eq!(text.lines().next().unwrap(), REQUESTS_HEADER);
    let requests = rows(&files["requests.csv"]);
    assert_eq!(requests.len(), 2 * 3 * 2 * 300);
    for run in rows(&files["summary.csv"]) {
        if run["seed"] == "pooled" {
            continue;
        }
        let start: f64 = run["window_start_s"].parse().unwrap();
        let same = |r: &&BTreeMap<String, String>| {
            ["system", "rate", "seed"].iter().all(|k| r[*k] == run[*k])
                && r["arrival_s"].parse::<f64>().unwrap() >= start - 1e-6
        };
        let mine: Vec<_> = requests.iter().filter(same).collect();
        assert_eq!(mine.len().to_string(), run["measured"]);
        let met = mine.iter().filter(|r| r["slo_met"] == "1").count();
        assert_eq!(met.to_string(), run["slo_met"]);
        let ttft: f64 = mine
            .iter()
            .map(|r| r["ttft_ms"].parse::<f64>().unwrap())
            .sum();
        let mean: f64 = run["ttft_mean_ms"].parse().unwrap();
        assert!((ttft / mine.len() as f64 - mean).abs() < 1e-5);
    }
}

#[test]
fn pooled_rows_carry_means_and_intervals() {
    let report = report(&[8.0], 3, 300);
    let summary = rows(&written(&report)["summary.csv"]);
    let of = |seed: &str| -> Vec<f64> {
        summary
            .iter()
            .filter(|r| r["system"] == "colocated" && (seed == "pooled") == (r["seed"] == "pooled"))
            .map(|r| r["attainment"].parse().unwrap())
            .collect()
    };
    let (runs, pooled) = (of("0"), of("pooled"));
    assert_eq!((runs.len(), pooled.len()), (3, 1));
    assert!((runs.iter().sum::<f64>() / 3.0 - pooled[0]).abs() < 2e-6);
    let row = summary.iter().find(|r| r["seed"] == "pooled").unwrap();
    assert!(row["attainment_ci95"].parse::<f64>().unwrap() > 0.0);
    assert_eq!(row["measured"], "810");
}

#[test]
fn a_sweep_of_another_key_tells_its_rows_apart() {
    let mut report = report(&[4.0, 4.5], 1, 60);
    report.axis.is_rate = false;
    report.axis.key = "systems.chunked-512.chunk_budget".to_owned();
    let files = written(&report);
    let row = &rows(&files["requests.csv"])[0];
    assert_eq!(row["systems.chunked-512.chunk_budget"], "4 /s");
    assert!(rows(&files["timeseries.csv"])[0].contains_key("systems.chunked-512.chunk_budget"));
}

#[test]
fn a_folder_that_is_a_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taken");
    fs::write(&path, "").unwrap();
    let message = write_all(&path, &report(&[4.0], 1, 20), "")
        .unwrap_err()
        .to_string();
    assert!(message.contains("taken"), "{message}");
}

#[test]
fn rows_are_written_fast_enough_to_be_forgotten() {
    // A guard against a quadratic or allocating writer, far below the measured speed even unoptimised.
    let report = report(&[4.0], 1, 60_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.csv");
    #[expect(clippy::disallowed_methods, reason = "measures the writer")]
    let begin = std::time::Instant::now();
    super::requests::write(&path, &report).unwrap();
    let rate = 180_000.0 / begin.elapsed().as_secs_f64();
    assert!(rate > 50_000.0, "{rate} rows/s");
}

#[test]
fn the_screen_names_the_verdict_before_any_figure() {
    let report = report(&[4.0, 6.0, 8.0, 10.0, 12.0], 3, 1000);
    let style = Style {
        width: 110,
        colour: false,
    };
    let text = terminal(&report, &style);
    if std::env::var_os("PDSIM_SHOW").is_some() {
        emit(&text).unwrap();
    }
    let at = |what: &str| {
        text.find(what)
            .unwrap_or_else(|| panic!("{what} is missing in\n{text}"))
    };
    assert!(at("OVERLOADED") < at("p50"));
    assert!(at("read from the sweep's grid") < at("p50"));
    assert!(at("prefill compute") < at("p50"));
    assert!(!text.contains('\u{1b}'));
    assert!(text.lines().all(|line| line.chars().count() <= 200));
    assert!(text.lines().count() <= 50, "{}", text.lines().count());
}

#[test]
fn one_point_is_decided_by_the_paired_difference() {
    let report = report(&[8.0], 3, 1000);
    let text = terminal(
        &report,
        &Style {
            width: 110,
            colour: true,
        },
    );
    if std::env::var_os("PDSIM_SHOW").is_some() {
        emit(&text).unwrap();
    }
    assert!(text.contains("paired seeds"), "{text}");
    assert!(text.contains('\u{1b}'), "{text}");
}

#[test]
fn systems_without_a_good_request_are_told_apart_by_e2e() {
    let mut report = report(&[20.0], 1, 300);
    for run in &mut report.runs {
        run.metrics.attainment.as_mut().unwrap().met = 0;
    }
    let text = sentences(&report, &pool(&report)).join("\n");
    let expected =
        "disaggregated serves this load better than chunked-512: no good requests, mean E2E";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_warning_names_the_point_only_in_a_sweep() {
    let few = |rates: &[f64]| warnings(&report(rates, 1, 40));
    assert!(few(&[4.0])[0].starts_with("colocated, seed 0: "));
    assert!(few(&[4.0, 5.0])[0].starts_with("colocated at 4 /s, seed 0: "));
}

#[test]
fn the_json_summary_holds_every_point_and_the_paired_differences() {
    let report = report(&[4.0, 8.0], 2, 300);
    let json: serde_json::Value = serde_json::to_value(summarise(&report)).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), 6);
    let point = &json["points"][1];
    let difference = point["figures"]["ttft_p50_ms"]["mean"].as_f64().unwrap()
        - json["points"][0]["figures"]["ttft_p50_ms"]["mean"]
            .as_f64()
            .unwrap();
    let paired = point["minus_first"]["ttft_p50_ms"]["mean"]
        .as_f64()
        .unwrap();
    assert!((difference - paired).abs() < 1e-9);
}

/// Where to leave the charts for a look, from the environment variable `PDSIM_CHARTS`.
fn show(name: &str, report: &Report) {
    if let Some(folder) = std::env::var_os("PDSIM_CHARTS") {
        write_all(&Path::new(&folder).join(name), report, "").unwrap();
    }
}

#[test]
fn charts_are_pngs_of_the_documented_size() {
    let mut report = report(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0], 3, 1000);
    for shape in &mut report.systems[2].shapes {
        shape.gpus = 4;
    }
    show("sweep", &report);
    let files = written(&report);
    for name in [
        "attainment",
        "attainment_per_gpu",
        "ttft_cdf",
        "tpot_cdf",
        "timeline",
    ] {
        let png = &files[&format!("{name}.png")];
        assert_eq!(png[1..4], *b"PNG");
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert_eq!(width, 1920, "{name}");
        assert!(
            png.len() > 10_000 && png.len() < 1_000_000,
            "{name}: {}",
            png.len()
        );
    }
}

#[test]
fn a_single_point_has_no_chart_over_the_axis_and_removes_a_stale_one() {
    let mut report = report(&[11.0], 1, 2000);
    "a system with quite a long name, on six instances".clone_into(&mut report.systems[1].name);
    "and one more that does not fit the same row".clone_into(&mut report.systems[2].name);
    show("single", &report);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("attainment.png"), "old").unwrap();
    let paths = write_all(folder.path(), &report, "").unwrap();
    assert!(paths.iter().all(|path| path.exists()));
    assert!(!folder.path().join("attainment.png").exists());
    assert!(folder.path().join("timeline.png").exists());
}

#[test]
fn charts_survive_runs_that_measured_nothing() {
    let mut report = report(&[4.0, 8.0], 1, 30);
    report.slo = None;
    for run in &mut report.runs {
        run.metrics.ttft = None;
        run.metrics.tpot = None;
        run.metrics.series = crate::metrics::Series::default();
    }
    assert!(!written(&report).keys().any(|name| name.ends_with("png")));
}
