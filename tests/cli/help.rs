//! Help, version, completions, and what a wrong command line gets.

use crate::support::Scratch;

#[test]
fn help_lists_the_commands_on_stdout() {
    let ran = Scratch::new().pdsim(&["--help"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.err, "");
    for command in ["run", "check", "init", "completions", "Exit codes"] {
        assert!(ran.out.contains(command), "{command}: {}", ran.out);
    }
}

#[test]
fn every_option_of_run_is_in_its_help() {
    let ran = Scratch::new().pdsim(&["run", "--help"]);
    assert_eq!(ran.code, 0);
    let options = [
        "--set",
        "--out",
        "--json",
        "--quiet",
        "--threads",
        "--seeds",
        "--require",
        "--no-fast-forward",
        "--no-requests",
        "--no-charts",
    ];
    for option in options {
        assert!(ran.out.contains(option), "{option}: {}", ran.out);
    }
}

#[test]
fn the_version_is_the_crates() {
    let ran = Scratch::new().pdsim(&["--version"]);
    assert_eq!(ran.out, format!("pdsim {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_wrong_command_line_is_refused_on_stderr_with_code_2() {
    for args in [
        &["chek"][..],
        &["run"],
        &["run", "s.yaml", "--threads", "0"],
        &["run", "s.yaml", "--seeds", "none"],
    ] {
        let ran = Scratch::new().pdsim(args);
        assert_eq!(ran.code, 2, "{args:?}");
        assert_eq!(ran.out, "", "{args:?}");
        assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
    }
    assert!(
        Scratch::new().pdsim(&["chek"]).err.contains("'check'"),
        "a near command is suggested"
    );
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Scratch::new().pdsim(&["completions", shell]);
        assert_eq!(ran.code, 0);
        assert!(ran.out.contains("pdsim"), "{shell}");
    }
}
