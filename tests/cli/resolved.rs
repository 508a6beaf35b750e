//! Law L7: the same scenario gives the same bytes, on any number of threads, and from its resolved form.

use crate::support::{SMALL, Scratch};

/// Runs `scenario` and hands back every file it wrote.
fn files(scratch: &Scratch, scenario: &str, out: &str, more: &[&str]) -> Vec<(String, Vec<u8>)> {
    let ran = scratch.pdsim(&[&["run", scenario, "--out", out][..], more].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    scratch.files(out)
}

fn assert_same(one: &[(String, Vec<u8>)], other: &[(String, Vec<u8>)]) {
    let names = |files: &[(String, Vec<u8>)]| {
        files
            .iter()
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(one), names(other));
    for ((name, a), (_, b)) in one.iter().zip(other) {
        assert!(a == b, "{name} differs");
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let scratch = Scratch::new();
    let sweep = [
        "--set",
        "sweep.workload.rate=[2 /s, 4 /s, 8 /s]",
        "--seeds",
        "3",
    ];
    let one = files(
        &scratch,
        "s.yaml",
        "one",
        &[&sweep[..], &["--threads", "1"]].concat(),
    );
    let four = files(
        &scratch,
        "s.yaml",
        "four",
        &[&sweep[..], &["--threads", "4"]].concat(),
    );
    assert!(one.len() >= 4);
    assert_same(&one, &four);
}

#[test]
fn the_resolved_scenario_repeats_the_run() {
    let scratch = Scratch::new();
    let first = files(&scratch, "s.yaml", "first", &[]);
    let again = files(&scratch, "first/scenario.resolved.yaml", "again", &[]);
    assert_same(&first, &again);
}

#[test]
fn a_sweep_over_what_defaults_depend_on_repeats_too() {
    // The step-time model of `decode` is a published polynomial at tp 1 and 2, calibrated at tp 8.
    let scratch = Scratch::new();
    let sweep = [
        "--set",
        "sweep.systems.split.decode.tp=[1, 2, 8]",
        "--seeds",
        "2",
    ];
    let first = files(&scratch, "s.yaml", "first", &sweep);
    let resolved = scratch.read("first/scenario.resolved.yaml");
    assert!(resolved.contains("systems.split.decode.tp"), "{resolved}");
    let again = files(&scratch, "first/scenario.resolved.yaml", "again", &[]);
    assert_same(&first, &again);
}

#[test]
fn a_trace_beside_the_scenario_is_found_again() {
    let scratch = Scratch::with(
        "deep.yaml",
        &SMALL.replace(
            "  lengths: {fixed: {input: 512, output: 16}}\n  rate: 4 /s\n  requests: 200\n",
            "  trace: t.csv\n",
        ),
    );
    scratch.write(
        "t.csv",
        "arrival_s,input_tokens,output_tokens\n0,100,5\n0.5,200,6\n1.25,300,7\n",
    );
    let first = files(&scratch, "deep.yaml", "first", &[]);
    let again = files(&scratch, "first/scenario.resolved.yaml", "again", &[]);
    assert_same(&first, &again);
}

#[test]
fn the_resolved_scenario_states_defaults_and_why() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["check", "s.yaml", "--resolved"]);
    for piece in [
        "# systems.colocated.pool: polynomial step times (published set `distserve` for opt-13b tp 1 on a100-80g-sxm)",
        "KV blocks of 16 tokens",
        "pdsim: ",
        "attainment: 0.9",
        "arrivals: poisson",
        "max_decode_context: 65536",
        "first_token: prefill",
        "horizon: none",
    ] {
        assert!(ran.out.contains(piece), "{piece} is not in\n{}", ran.out);
    }
}
