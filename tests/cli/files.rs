//! Output folders that cannot be written: one line, exit code 1, nothing half-written under a final name.

use std::process::Command;

use crate::support::Scratch;

#[test]
fn a_folder_that_cannot_be_made_is_named_before_the_run() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    let ran = scratch.pdsim(&["run", "s.yaml", "--out", "file/below"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(ran.out, "");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(
        ran.err.contains("error: cannot create file/below: ") && ran.err.contains("--out"),
        "{}",
        ran.err
    );
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let scratch = Scratch::new();
    // A limit on the size of files (blocks of 512 or 1024 bytes) fails writes as a full disk does, once the signal
    // that would end the process is ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec '{}' run s.yaml --out here",
        env!("CARGO_BIN_EXE_pdsim")
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(scratch.folder())
        .output()
        .expect("a shell starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.lines()
            .any(|line| line.starts_with("error: cannot ") && line.contains("here/")),
        "{err}"
    );
    assert!(!err.contains("panicked"), "{err}");
    let names: Vec<String> = scratch
        .files("here")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name == "requests.csv" || name.contains("partial")),
        "{names:?}"
    );
}

#[test]
fn step_times_of_different_kinds_are_part_of_the_answer() {
    let scratch = Scratch::new();
    let mixed = [
        "run",
        "s.yaml",
        "--quiet",
        "--no-charts",
        "--set",
        "systems.split.latency=roofline",
    ];
    let ran = scratch.pdsim(&mixed);
    assert_eq!(ran.code, 0, "{ran:?}");
    let caution = "Caution: systems.colocated.pool has polynomial step times, systems.split.prefill roofline ones";
    assert!(ran.out.contains(caution), "{}", ran.out);
    let ran = scratch.pdsim(&["check", "s.yaml", mixed[4], mixed[5]]);
    assert!(
        ran.err
            .contains("warning: systems.colocated.pool has polynomial"),
        "{ran:?}"
    );
    let ran = scratch.pdsim(&["run", "s.yaml", "--quiet", "--no-charts"]);
    assert!(!ran.out.contains("Caution"), "{}", ran.out);
}

#[test]
fn files_of_an_earlier_run_that_this_one_does_not_write_are_removed() {
    let scratch = Scratch::new();
    let names = |scratch: &Scratch| -> Vec<String> {
        let files = scratch.files("here").into_iter();
        files.map(|(name, _)| name).collect()
    };
    std::fs::create_dir(scratch.path("here")).expect("the scratch folder is writable");
    scratch.write("here/placeholder", "");
    let ran = scratch.pdsim(&["run", "s.yaml", "--out", "here"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let all = names(&scratch);
    assert!(all.contains(&"ttft_cdf.png".to_owned()), "{all:?}");
    let ran = scratch.pdsim(&[
        "run",
        "s.yaml",
        "--out",
        "here",
        "--no-charts",
        "--no-requests",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let left = names(&scratch);
    assert!(
        !left
            .iter()
            .any(|name| name.ends_with(".png") || name == "requests.csv"),
        "{left:?}"
    );
    // What pdsim never writes is not its to remove.
    assert!(left.contains(&"placeholder".to_owned()), "{left:?}");
}

#[test]
fn more_threads_than_runs_are_not_started() {
    let ran = Scratch::new().pdsim(&["run", "s.yaml", "--no-charts", "--threads", "65535"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_starter_that_cannot_be_written_leaves_nothing() {
    let scratch = Scratch::new();
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec '{}' init new.yaml 2>&-",
        env!("CARGO_BIN_EXE_pdsim")
    );
    let status = Command::new("sh")
        .args(["-c", &script])
        .current_dir(scratch.folder())
        .status()
        .expect("a shell starts");
    assert_eq!(status.code(), Some(1));
    assert!(!scratch.path("new.yaml").exists());
}
