//! Tests of the samples reader.

use std::fmt::Write as _;

use super::*;
use crate::hardware::gpu;
use crate::latency::profile::{check, fit, parse, predict, profile_yaml};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn error(name: &str, text: &str) -> String {
    let folder = folder(&[(name, text)]);
    read(folder.path(), "h100-sxm").unwrap_err().to_string()
}

#[test]
fn rows_of_other_gpus_and_repeats_are_set_apart() {
    let folder = folder(&[(
        "gemm.csv",
        "gpu,dtype,m,n,k,time_us\nh100_sxm,bf16,1,64,64,2\nh100_sxm,bf16,1,64,64,4\nl4,bf16,1,64,64,9\n",
    )]);
    let samples = read(folder.path(), "H100-SXM").unwrap();
    assert_eq!(samples.rows.len(), 1);
    assert!((samples.rows[0].seconds - 3e-6).abs() < 1e-12);
    assert_eq!(samples.gpus, ["h100_sxm", "l4"]);
    assert_eq!(samples.dropped["repeats of a point, averaged"], 1);
}

#[test]
fn the_unit_is_that_of_the_column() {
    let folder = folder(&[(
        "generation_attention.csv",
        "gpu,kv_dtype,batch,kv_len,heads,kv_heads,head_dim,latency_ms\nh100_sxm,fp8,4,100,32,8,128,0.5\n",
    )]);
    let samples = read(folder.path(), "h100-sxm").unwrap();
    assert!((samples.rows[0].seconds - 5e-4).abs() < 1e-12);
    assert_eq!(samples.rows[0].point, [4.0, 100.0, 8.0, 4.0]);
}

#[test]
fn bad_input_names_file_line_and_column() {
    let head = "gpu,dtype,m,n,k,time_us\n";
    for (text, needle) in [
        (
            "gpu,dtype,m,n,k,latency\nh100-sxm,bf16,1,2,3,4\n".to_owned(),
            "column `time_us (or time_ms, time_s)` is missing",
        ),
        (
            "gpu,m,n,k,time_us\nh100-sxm,1,2,3,4\n".to_owned(),
            "column `dtype` is missing",
        ),
        (
            format!("{head}h100-sxm,,1,2,3,4\n"),
            "line 2: dtype `` is not allowed",
        ),
        (
            format!("{head}h100-sxm,bf16,1,2,3,4\nh100-sxm,bf16,1,2,3,0\n"),
            "line 3: time_us `0` is not allowed",
        ),
        (
            format!("{head}h100-sxm,bf16,1,2,3,-4\n"),
            "line 2: time_us `-4`",
        ),
        (
            format!("{head}h100-sxm,bf16,0,2,3,4\n"),
            "line 2: m `0` is not allowed",
        ),
        (
            format!("{head}h100-sxm,bf16,1,2,3,4e9\n"),
            "in the unit the column names",
        ),
        (format!("{head}b200_sxm,bf16,1,2,3,4\n"), "no sample in"),
    ] {
        let message = error("gemm.csv", &text);
        assert!(message.contains(needle), "{message}");
    }
}

#[test]
fn an_empty_folder_says_that_nothing_is_about_the_gpu() {
    let folder = folder(&[("notes.csv", "a\n1\n")]);
    let message = read(folder.path(), "h100-sxm").unwrap_err().to_string();
    assert!(message.contains("no sample in"), "{message}");
}

/// Samples of a made-up GPU kernel: a fixed cost and a roofline at half speed.
fn made_up() -> String {
    let mut text = "gpu,dtype,m,n,k,time_us\n".to_owned();
    for m in [1, 8, 64, 256, 1024, 4096] {
        for n in [128, 1024, 4096, 8192] {
            for k in [256, 1024, 4096] {
                let (m_, n_, k_) = (f64::from(m), f64::from(n), f64::from(k));
                let flops = 2.0 * m_ * n_ * k_ / 989e12;
                let bytes = 2.0 * (m_ * k_ + m_ * n_ + n_ * k_) / 3350e9;
                let us = 3.0 + 2e6 * flops.max(bytes);
                writeln!(text, "h100-sxm,bf16,{m},{n},{k},{us}").unwrap();
            }
        }
    }
    text
}

#[test]
fn a_fit_survives_writing_and_reading() {
    let folder = folder(&[("gemm.csv", &made_up())]);
    let samples = read(folder.path(), "h100-sxm").unwrap();
    let facts = crate::hardware::profile("h100-sxm").unwrap();
    let gpu = gpu("h100-sxm").unwrap();
    let report = fit(&samples.rows, &gpu, true);
    let text = profile_yaml(&facts, &report.surfaces);
    let again = crate::hardware::ProfileFile::parse(&text, "x.yaml").unwrap();
    let surfaces = parse(again.surfaces.as_ref().unwrap(), "x.yaml").unwrap();
    let (fitted, read_back) = (report.surfaces.values().next(), surfaces.values().next());
    let (fitted, read_back) = (fitted.unwrap(), read_back.unwrap());
    assert_eq!(fitted.error, read_back.error);
    for sample in &samples.rows {
        let a = predict(fitted, &sample.point, &gpu).seconds;
        let b = predict(read_back, &sample.point, &gpu).seconds;
        assert!((a / b - 1.0).abs() < 1e-9);
        assert!((b / sample.seconds - 1.0).abs() < 0.25, "{sample:?}: {b}");
    }
    let (checked, missing) = check(&surfaces, &samples.rows, &gpu);
    assert!(missing.is_empty());
    assert!(checked[0].error.median < 6.0, "{checked:?}");
    assert_eq!(checked[0].outside, 0);
}
