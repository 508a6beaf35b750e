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

#[test]
fn experts_lie_where_their_rows_loaded_them() {
    let folder = folder(&[(
        "moe.csv",
        "gpu,dtype,tokens,hidden,expert_size,top_k,experts,tp,ep,distribution,time_us\n\
         h100-sxm,bf16,16,4096,1536,8,128,1,1,balanced,10\n\
         h100-sxm,bf16,16,4096,1536,8,128,1,1,uniform,10\n\
         h100-sxm,bf16,1024,4096,1536,8,128,1,8,power_law_1.2,10\n",
    )]);
    let samples = read(folder.path(), "h100-sxm").unwrap();
    let loads: Vec<[f64; 3]> = samples
        .rows
        .iter()
        .map(|s| [s.point[4], s.point[0], s.point[6]])
        .collect();
    // Skew, visits and experts touched: dealt in turn all 128 are, picked independently 82 are.
    let expected = [[1.0, 128.0, 82.4], [1.0, 128.0, 128.0], [2.2, 1800.0, 16.0]];
    for (load, expected) in loads.iter().zip(expected) {
        for (x, e) in load.iter().zip(expected) {
            assert!((x / e - 1.0).abs() < 0.1, "{loads:?}");
        }
    }
    assert_eq!(loads.len(), 3);
}

#[test]
fn launches_and_copies_become_figures() {
    let launch =
        "gpu,op,kernel,time_us\nh100-sxm,kernel,pdsim,4.1\nh100-sxm,graph_node,pdsim,1.3\n";
    let mut copy = "gpu,op,bytes,time_us\n".to_owned();
    for bytes in [1e6, 16e6, 64e6, 256e6] {
        writeln!(
            copy,
            "h100-sxm,host_to_device,{bytes},{}",
            10.0 + bytes / 50e3
        )
        .unwrap();
        writeln!(
            copy,
            "h100-sxm,device_to_host,{bytes},{}",
            10.0 + bytes / 40e3
        )
        .unwrap();
    }
    let folder = folder(&[("launch.csv", launch), ("copy.csv", &copy)]);
    let samples = read(folder.path(), "h100-sxm").unwrap();
    let mut file = crate::hardware::profile("h100-sxm").unwrap();
    let report = fit(&samples.rows, &file.gpu(), true);
    assert_eq!(report.surfaces.len(), 4, "{:?}", report.too_few);
    file.surfaces = None;
    let text = profile_yaml(&file, &report.surfaces);
    let again = crate::hardware::ProfileFile::parse(&text, "x.yaml").unwrap();
    let surfaces = parse(again.surfaces.as_ref().unwrap(), "x.yaml").unwrap();
    let node = SurfaceKind::Launch(crate::latency::profile::Launch::GraphNode);
    let us = predict(&surfaces[&node], &[1.0], &file.gpu()).seconds * 1e6;
    assert!((us - 1.3).abs() < 0.01, "{us}");
    let rate = crate::latency::calibrated::host_bandwidth(&again, "x.yaml").unwrap();
    // The slower way, with its fixed time.
    let rate = rate.unwrap() / 1e9;
    assert!((39.0..40.1).contains(&rate), "{rate} GB/s");
    let error = error("launch.csv", "gpu,op,time_us\nh100-sxm,thread,4\n");
    assert!(
        error.contains("op `thread` is not allowed; it must be kernel, graph or graph_node"),
        "{error}"
    );
    let error = error_of_copy();
    assert!(error.contains("op `sideways` is not allowed"), "{error}");
}

fn error_of_copy() -> String {
    error("copy.csv", "gpu,op,bytes,time_us\nh100-sxm,sideways,9,4\n")
}

#[test]
fn both_ways_of_tokens_to_experts_are_read() {
    let deepep = "gpu,mode,ranks,hidden,top_k,sms,tokens,dispatch_ms,combine_ms\n\
                  h100_sxm,ll,8,7168,8,0,16,0.02,0.03\n\
                  h100_sxm,normal,8,7168,8,24,4096,0.5,0.6\n\
                  h100_sxm,normal,8,7168,8,20,4096,0.5,0.6\n";
    let nvlink = "gpu,op,impl,hidden,top_k,moe_ep,tokens,latency_ms\n\
                  h100_sxm,prepare,NVLinkTwoSided,7168,8,4,1,0.01\n\
                  h100_sxm,dispatch,NVLinkOneSided,7168,8,4,1,0.015\n";
    let own =
        "gpu,op,mode,ranks,hidden,top_k,tokens,time_us\nh100-sxm,combine,one_sided,4,7168,8,1,20\n";
    let folder = folder(&[
        ("deepep.csv", deepep),
        ("moe_alltoall.csv", nvlink),
        ("moe_dispatch.csv", own),
    ]);
    let samples = read(folder.path(), "h100-sxm").unwrap();
    let kinds: Vec<String> = samples.rows.iter().map(|s| s.kind.names().1).collect();
    assert_eq!(
        kinds,
        [
            "dispatch-normal",
            "dispatch-low_latency",
            "dispatch-one_sided",
            "combine-normal",
            "combine-low_latency",
            "combine-one_sided"
        ]
    );
    assert_eq!(
        samples.dropped.values().sum::<u64>(),
        2,
        "{:?}",
        samples.dropped
    );
    // Of eight choices among eight ranks, 1 - (7/8)^8 = 66 % of the seven other ranks see a token.
    let row = samples.rows[0].point[1];
    assert!((row / (7168.0 * 7.0 * 0.6564) - 1.0).abs() < 1e-3, "{row}");
    let bad = error(
        "moe_dispatch.csv",
        "gpu,op,mode,ranks,hidden,top_k,tokens,time_us\nh100-sxm,combine,fast,4,7168,8,1,20\n",
    );
    assert!(
        bad.contains("mode `fast` is not allowed; it must be normal, low_latency or one_sided"),
        "{bad}"
    );
}
