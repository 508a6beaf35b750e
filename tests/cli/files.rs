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
