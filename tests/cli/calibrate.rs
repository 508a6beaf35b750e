//! `pdsim calibrate` on a machine without a GPU, and its flags.

#![cfg_attr(
    feature = "cuda",
    expect(clippy::print_stderr, reason = "tests say what they skip")
)]

use crate::support::Scratch;

#[test]
fn without_a_driver_it_says_so_in_one_line_and_exits_4() {
    // With a driver other words are right; the stand-ins of tests/kernels cover those.
    #[cfg(feature = "cuda")]
    if pdsim::calibrate::cuda::probe_driver() != Err(pdsim::calibrate::cuda::Missing::Driver) {
        eprintln!("SKIPPED: this machine has an NVIDIA driver");
        return;
    }
    for arguments in [
        &["calibrate"][..],
        &["calibrate", "--list"],
        &["calibrate", "--gpu", "7"],
    ] {
        let ran = Scratch::new().pdsim(arguments);
        assert_eq!(ran.code, 4, "{}", ran.err);
        assert_eq!(ran.out, "");
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        if cfg!(feature = "cuda") {
            assert!(ran.err.contains("libcuda was not found"), "{}", ran.err);
        }
    }
}

#[test]
fn an_unknown_format_is_refused_with_those_there_are() {
    let ran = Scratch::new().pdsim(&["calibrate", "--dtype", "bf16,int3"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("int3") && ran.err.contains("bf16, fp16, fp8"),
        "{}",
        ran.err
    );
}

#[test]
fn every_option_is_in_the_help() {
    let ran = Scratch::new().pdsim(&["calibrate", "--help"]);
    assert_eq!(ran.code, 0);
    for option in [
        "--gpu",
        "--list",
        "--quick",
        "--dtype",
        "--name",
        "--out",
        "--resume",
        "--no-peers",
        "--quiet",
    ] {
        assert!(ran.out.contains(option), "{option}: {}", ran.out);
    }
}
