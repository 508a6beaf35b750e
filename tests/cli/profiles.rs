//! `pdsim profile`: list, show, fit, check, and what they refuse.

use std::path::Path;

use crate::support::{Ran, Scratch};

/// The folder of made-up kernel timings.
fn kernels() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/kernels");
    folder.to_string_lossy().into_owned()
}

/// The cells of the table row that starts with these words.
fn cells(ran: &Ran, start: &str) -> Vec<String> {
    let line = ran.out.lines().find(|l| l.trim().starts_with(start));
    let line = line.unwrap_or_else(|| panic!("no row {start} in\n{}", ran.out));
    let rest = &line.trim()[start.len()..];
    rest.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_list_tells_fitted_profiles_from_borrowed_ones() {
    let ran = Scratch::new().pdsim(&["profile", "list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(
        cells(&ran, "h100-sxm"),
        ["80", "3350", "989", "1978", "450", "published"]
    );
    let h20 = cells(&ran, "h20").join(" ");
    assert!(h20.ends_with("datasheet, borrowed from h100-sxm"), "{h20}");
    let b60 = cells(&ran, "b60");
    assert_eq!(b60.last().map(String::as_str), Some("datasheet"));
}

#[test]
fn a_profile_is_shown_with_source_and_errors() {
    let ran = Scratch::new().pdsim(&["profile", "show", "h100"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.starts_with("h100-sxm: published profile\nsource: "),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("Apache-2.0"), "{}", ran.out);
    assert!(
        ran.out.contains("hardware: hopper, 80 GiB at 3350 GB/s"),
        "{}",
        ran.out
    );
    // Knots, samples, three errors on rows, three on sites.
    assert_eq!(cells(&ran, "gemm bf16").len(), 8);
    let ran = Scratch::new().pdsim(&["profile", "show", "h20"]);
    assert!(ran.out.contains("borrowed from h100-sxm"), "{}", ran.out);
}

#[test]
fn surfaces_are_drawn_where_asked() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["profile", "show", "a100-80g-sxm", "--out", "drawn"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for name in [
        "gemm-bf16.png",
        "prefill_attention-bf16-d128.png",
        "decode_attention-bf16-d128.png",
        "collective-all_reduce.png",
    ] {
        assert!(ran.err.contains(name), "{}", ran.err);
        let png = std::fs::read(scratch.path("drawn").join(name)).expect("it was written");
        assert_eq!(&png[1..4], b"PNG", "{name}");
    }
    let quiet = scratch.pdsim(&["profile", "show", "a100-80g-sxm", "--no-charts"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{quiet:?}");
    assert!(!scratch.path("output").exists());
}

#[test]
fn a_fit_is_written_read_back_and_held_against_its_samples() {
    let scratch = Scratch::new();
    let fit = [
        "profile",
        "fit",
        &kernels(),
        "--name",
        "h100-sxm",
        "--out",
        "p.yaml",
    ];
    let ran = scratch.pdsim(&fit);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.starts_with("wrote p.yaml ("), "{}", ran.err);
    let fitted = cells(&ran, "gemm bf16");
    assert_eq!(fitted[1], "72", "samples: {fitted:?}");
    assert!(!fitted.contains(&"-".to_owned()), "validated: {fitted:?}");
    let shown = scratch.pdsim(&["profile", "show", "p.yaml"]);
    assert_eq!(cells(&shown, "gemm bf16"), fitted);
    assert!(shown.out.starts_with("h100-sxm: measured profile\n"));
    let checked = scratch.pdsim(&["profile", "check", "p.yaml", &kernels()]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{checked:?}");
    for kind in ["gemm bf16", "elementwise copy"] {
        let row = cells(&checked, kind);
        assert_eq!(row[1], "0", "outside the grid: {row:?}");
        let median: f64 = row[2].parse().expect("a number of percent");
        assert!(median < 2.0, "{kind}: {row:?}");
    }
    let scenario = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--resolved",
        "--set",
        "systems.colocated.pool.gpu=./p.yaml",
    ]);
    assert_eq!(scenario.code, 0, "{scenario:?}");
    let fact = "calibrated step times (measured profile of h100-sxm";
    assert!(scenario.out.contains(fact), "{}", scenario.out);
}

#[test]
fn a_fit_without_validation_says_no_errors() {
    let scratch = Scratch::new();
    let kernels = kernels();
    let fit = ["profile", "fit", &kernels, "--name", "h100-sxm"];
    let ran = scratch.pdsim(&[&fit[..], &["--no-validation"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(cells(&ran, "gemm bf16")[2..], ["-"; 6]);
    assert!(scratch.path("profile.yaml").exists());
}

/// Fits one bad file; it must be refused without a profile left behind.
fn refused(name: &str, text: &str, pieces: &[&str]) {
    let scratch = Scratch::with(name, text);
    let fit = [
        "profile", "fit", name, "--name", "h100-sxm", "--out", "p.yaml",
    ];
    scratch.pdsim(&fit).refused(pieces);
    assert!(!scratch.path("p.yaml").exists());
}

#[test]
fn bad_samples_are_refused_by_file_line_and_column() {
    let head = "gpu,dtype,m,n,k,time_us\n";
    let file = |rows: &str| format!("{head}{rows}\n");
    let good = "h100-sxm,bf16,1,64,64,2";
    refused(
        "gemm.csv",
        &file(&format!("{good}\nh100-sxm,bf16,2,64,64,0")),
        &["gemm.csv line 3: time_us `0` is not allowed", "above zero"],
    );
    refused(
        "gemm.csv",
        &file("h100-sxm,bf16,2,64,64,-3"),
        &["gemm.csv line 2: time_us `-3` is not allowed"],
    );
    refused(
        "gemm.csv",
        &file("h100-sxm,,2,64,64,3"),
        &["gemm.csv line 2: dtype `` is not allowed", "bf16 or fp8"],
    );
    refused(
        "gemm.csv",
        "gpu,m,n,k,time_us\nh100-sxm,1,64,64,2\n",
        &["column `dtype` is missing; it has gpu, m, n, k, time_us"],
    );
    refused(
        "gemm.csv",
        "gpu,dtype,m,n,k,time\nh100-sxm,bf16,1,64,64,2\n",
        &["column `time_us (or time_ms, time_s)` is missing"],
    );
    // Nanoseconds in a column of seconds.
    refused(
        "gemm.csv",
        "gpu,dtype,m,n,k,time_s\nh100-sxm,bf16,1,64,64,2400\n",
        &["time_s `2400`", "in the unit the column names"],
    );
    refused(
        "gemm.csv",
        &file("b200-sxm,bf16,1,64,64,2"),
        &["no sample in gemm.csv is about h100-sxm; it has b200-sxm"],
    );
    refused(
        "gemm.csv",
        &file(good),
        &["too few samples of h100-sxm for any surface"],
    );
}

#[test]
fn repeats_and_unknown_files_are_told() {
    let scratch = Scratch::new();
    let folder = scratch.path("samples");
    std::fs::create_dir(&folder).expect("the scratch folder is writable");
    let gemm = Path::new(&kernels()).join("gemm.csv");
    let mut text = std::fs::read_to_string(gemm).expect("the samples are committed");
    let second = text.lines().nth(1).map(str::to_owned).expect("it has rows");
    text.push_str(&second);
    scratch.write("samples/gemm.csv", &text);
    scratch.write("samples/notes.csv", "a\n1\n");
    let fit = [
        "profile",
        "fit",
        "samples",
        "--name",
        "h100-sxm",
        "--no-validation",
    ];
    let ran = scratch.pdsim(&fit);
    assert_eq!(ran.code, 0, "{ran:?}");
    for note in [
        "note: 1 rows left out: repeats of a point, averaged",
        "note: files that are no samples: notes",
    ] {
        assert!(ran.err.contains(note), "{}", ran.err);
    }
}

#[test]
fn unknown_and_broken_profiles_are_refused() {
    let scratch = Scratch::new();
    let near = ["unknown GPU `h10-sxm`, did you mean `h100-sxm`?"];
    scratch
        .pdsim(&["profile", "show", "h10-sxm"])
        .refused(&near);
    let kernels = kernels();
    let fit = ["profile", "fit", &kernels, "--name", "my-gpu"];
    scratch.pdsim(&fit).refused(&["unknown GPU `my-gpu`"]);
    let missing = ["profile", "check", "no.yaml", &kernels];
    scratch.pdsim(&missing).refused(&["cannot read no.yaml"]);
    let folder = ["profile", "check", "h100-sxm", "nowhere"];
    scratch.pdsim(&folder).refused(&["cannot read nowhere"]);
    scratch.write("new.yaml", "format: 99\nnovelty: 1\n");
    let newer = scratch.pdsim(&["profile", "show", "new.yaml"]);
    newer.refused(&["new.yaml: format 99 is newer than this pdsim reads"]);
    let borrowed = ["profile", "check", "h20", &kernels, "--gpu", "h100-sxm"];
    scratch
        .pdsim(&borrowed)
        .refused(&["h20: the profile has no surface of its own for any of the samples"]);
}

#[cfg(unix)]
#[test]
fn the_page_of_fit_errors_says_what_the_profiles_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = std::process::Command::new("sh")
        .arg(root.join("docs/fit-errors.sh"))
        .output()
        .unwrap();
    let page = std::fs::read_to_string(root.join("docs/fit-errors.md")).unwrap();
    assert_eq!(String::from_utf8_lossy(&written.stdout), page);
    // A row of it against the command that reads profiles by itself.
    let ran = Scratch::new().pdsim(&["profile", "show", "h100-sxm"]);
    let shown = cells(&ran, "gemm bf16");
    let section = page.split("## ").find(|s| s.starts_with("h100-sxm"));
    let row = section.and_then(|s| s.lines().find(|l| l.starts_with("| gemm bf16")));
    let numbers: Vec<f64> = row
        .unwrap()
        .split(['|', '/', ' '])
        .filter_map(|word| word.parse().ok())
        .take(8)
        .collect();
    let of = |i: usize| shown[i].parse::<f64>().unwrap();
    assert_eq!(numbers[..2], [of(1), of(0)]);
    assert_eq!(numbers[2..], [2, 3, 4, 5, 6, 7].map(of));
}
