//! Multiplexed systems on the command line: what is refused, what is stated, what is explained.

use crate::explain::curve;
use crate::support::{SMALL, Scratch};

/// A scenario with a multiplexed system.
fn multiplexed() -> String {
    let colocated = "policy: colocated\n";
    assert!(SMALL.contains(colocated));
    let split = "policy: multiplexed\n    multiplex: {prefill_share: 0.5}\n";
    SMALL.replacen(colocated, split, 1)
}

/// Checks it with one piece of its text replaced, and expects a refusal with these pieces.
fn refused_multiplexed(from: &str, to: &str, pieces: &[&str]) {
    let text = multiplexed();
    assert!(text.contains(from));
    Scratch::with("s.yaml", &text.replacen(from, to, 1))
        .pdsim(&["check", "s.yaml"])
        .refused(pieces);
}

#[test]
fn impossible_splits_of_a_gpu_are_refused() {
    let split = "multiplex: {prefill_share: 0.5}";
    for (to, pieces) in [
        (
            "multiplex: {prefill_share: 1.0}",
            [
                "s.yaml:12:17: systems.colocated.multiplex.prefill_share: is 1",
                "expected a share from 0.01 to 0.99",
            ],
        ),
        (
            "multiplex: {prefil_share: 0.4}",
            [
                "multiplex.prefil_share: unknown key",
                "did you mean `prefill_share`?",
            ],
        ),
        (
            "multiplex: {contention: 0.8}",
            ["multiplex.contention: is 0.8", "a factor from 1 (none)"],
        ),
        (
            "multiplex: {bandwidth_saturation: 0.6, compute_saturation: 0.5}",
            [
                "multiplex.bandwidth_saturation: is 0.6",
                "at most `compute_saturation`",
            ],
        ),
        (
            "multiplex: {idle_sms: shared}",
            ["multiplex.idle_sms: unknown word `shared`", "lent, kept"],
        ),
    ] {
        refused_multiplexed(split, to, &pieces);
    }
}

#[test]
fn systems_whose_streams_cannot_share_a_gpu_are_refused() {
    let pool = "pool: {instances: 2, gpu: a100-80g-sxm}";
    let with = |more: &str| format!("pool: {{instances: 2, gpu: a100-80g-sxm, {more}}}");
    for (to, pieces) in [
        (with("pp: 2"), ["colocated.pool.pp: is 2", "write `pp: 1`"]),
        (
            with("batch: mixed"),
            ["colocated.pool.batch: ", "one step at a time"],
        ),
        (
            with("chunk_budget: 512, max_step_tokens: 4096"),
            [
                "colocated.pool.max_step_tokens: is for whole prompts",
                "remove one of the two",
            ],
        ),
        (
            format!("{pool}\n    {}", pool.replace("pool", "prefill")),
            ["policy `multiplexed` has no pool `prefill`", "remove it"],
        ),
        (
            format!("transfer: {{link: nvlink}}\n    {pool}"),
            [
                "colocated.transfer: is for disaggregated systems only",
                "remove it",
            ],
        ),
    ] {
        refused_multiplexed(pool, &to, &pieces);
    }
    let (from, to) = ("policy: multiplexed", "policy: chunked");
    let only = "colocated.multiplex: is for `policy: multiplexed` only";
    refused_multiplexed(from, to, &[only]);
    let set = "systems.colocated.pool.batch=shared_sm";
    let ran = Scratch::new().pdsim(&["check", "s.yaml", "--set", set]);
    ran.refused(&[
        "colocated.pool.batch: is `shared_sm`",
        "`policy: multiplexed`",
    ]);
}

#[test]
fn a_step_beside_the_other_stream_is_explained_as_well() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "explain",
        "s.yaml",
        "--set",
        "latency=calibrated",
        "--set",
        "systems.colocated.policy=multiplexed",
    ]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let first = |when: &str| {
        let heading =
            format!("Unloaded time to first token against prompt length (one step {when}):");
        let rows = curve(&ran.out, &heading);
        assert_eq!(rows.len(), 8, "{when}: {}", ran.out);
        rows
    };
    let pairs = first("while nothing decodes")
        .into_iter()
        .zip(first("beside decodes"));
    for ((tokens, alone), (_, beside)) in pairs {
        // Half of the SMs.
        let ratio = beside / alone;
        let least = if tokens >= 2048 { 1.7 } else { 1.0 };
        assert!(
            ratio >= least && ratio < 2.001,
            "{tokens}: {alone} {beside}"
        );
    }
    assert!(
        ran.out
            .contains("One decode of 32 sequences with 1024 tokens each beside prompts: ")
    );
}

#[test]
fn the_resolved_scenario_states_the_whole_split_and_what_it_does() {
    let scratch = Scratch::with("s.yaml", &multiplexed());
    let ran = scratch.pdsim(&["check", "s.yaml", "--resolved"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for piece in [
        "prefill_share: 0.5",
        "idle_sms: lent",
        "contention: 1.0",
        "compute_saturation: 1.0",
        "bandwidth_saturation: 0.35",
        "prompts on 50 % of the SMs beside decodes on 50 %: computing takes 2.00 and 2.00 times as long, memory 1.00 and 1.00 times",
    ] {
        assert!(ran.out.contains(piece), "{piece} is not in\n{}", ran.out);
    }
    let (_verdict, resolved) = ran.out.split_once('\n').expect("a line, then the scenario");
    let again = Scratch::with("s.yaml", resolved).pdsim(&["check", "s.yaml", "--resolved"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(
        again.out, ran.out,
        "a resolved scenario is its own resolution"
    );
}

#[test]
fn a_share_can_be_swept_and_both_modes_write_the_same() {
    let scratch = Scratch::with("s.yaml", &multiplexed());
    let sweep = "sweep.systems.colocated.multiplex.prefill_share=[0.3, 0.7]";
    let files = [
        &["--out", "fast"][..],
        &["--out", "slow", "--no-fast-forward"],
    ]
    .map(|more| {
        let base = ["run", "s.yaml", "--no-charts", "--set", sweep];
        let ran = scratch.pdsim(&[&base[..], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ["summary.csv", "requests.csv", "pools.csv"]
            .map(|file| scratch.read(&format!("{}/{file}", more[1])))
    });
    assert!(files[0] == files[1], "fast-forward and stepping differ");
    let rows = files[0][0].lines().count();
    assert!(rows > 4, "two points of two systems: {rows} rows");
}
