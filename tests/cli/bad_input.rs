//! Everything a person can get wrong in a scenario: one line that names the thing to change, exit code 2, no panic.

use crate::support::{SMALL, Scratch};

/// Runs the small scenario with one override and expects a refusal with these pieces.
pub(crate) fn refused(set: &str, pieces: &[&str]) {
    let scratch = Scratch::new();
    scratch
        .pdsim(&["run", "s.yaml", "--set", set])
        .refused(pieces);
    assert!(
        !scratch.path("output").exists(),
        "nothing is written for a scenario that is refused"
    );
}

/// Checks the small scenario with one piece of its text replaced, and expects a refusal with these pieces.
fn refused_text(from: &str, to: &str, pieces: &[&str]) {
    assert!(SMALL.contains(from));
    Scratch::with("s.yaml", &SMALL.replace(from, to))
        .pdsim(&["check", "s.yaml"])
        .refused(pieces);
}

#[test]
fn an_unknown_key_is_named_with_its_place_and_neighbour() {
    refused_text(
        "  rate: 4",
        "  rat: 4",
        &[
            "s.yaml:7:3: workload.rat: unknown key `rat`, did you mean `rate`?",
            "allowed: ",
        ],
    );
    refused(
        "workload.rat=4 /s",
        &[
            "--set workload.rat=4 /s: workload.rat: ",
            "did you mean `rate`?",
        ],
    );
}

#[test]
fn a_missing_unit_is_refused_with_an_example() {
    refused_text(
        "rate: 4 /s",
        "rate: 4",
        &[
            "s.yaml:7:3: workload.rate: `4` has no unit",
            "`6 /s`",
            "/min",
        ],
    );
    refused("slo.ttft=250", &["slo.ttft: `250` has no unit", "`50 ms`"]);
    refused(
        "systems.split.transfer.link={bandwidth: 25 Gb/s}",
        &["unknown unit `Gb/s`", "GB/s", "Gbps"],
    );
}

#[test]
fn impossible_numbers_are_refused() {
    refused(
        "workload.rate=0 /s",
        &["workload.rate: is 0, expected a finite number above 0"],
    );
    refused(
        "workload.rate=-1 /s",
        &["workload.rate: `-1 /s` is negative"],
    );
    refused(
        "workload.rate=NaN /s",
        &["does not start with a finite number"],
    );
    refused("workload.rate=.nan", &["workload.rate: "]);
    refused(
        "workload.lengths={fixed: {input: -5, output: 3}}",
        &["workload.lengths.fixed.input: is the integer `-5`"],
    );
    refused(
        "workload.lengths={fixed: {input: 0, output: 3}}",
        &["is 0, expected a whole number of at least 1 token"],
    );
    refused("workload.requests=0", &["workload.requests: is 0"]);
    refused(
        "slo.attainment=1.5",
        &["slo.attainment: is 1.5, expected a share"],
    );
    refused("slo.attainment=.nan", &["slo.attainment: is NaN"]);
    refused(
        "systems.split.memory_fraction=.nan",
        &["memory_fraction: is NaN"],
    );
    refused(
        "systems.split.decode.instances=0",
        &["decode.instances: is 0, expected 1 to"],
    );
    refused("systems.split.max_seqs=0", &["max_seqs: is 0"]);
    refused(
        "systems.colocated.latency={fixed: {prefill: 5 ms}}",
        &["lets steps take no time"],
    );
    refused(
        "seeds=0",
        &["seeds: is the integer `0`, expected a number of seeds"],
    );
}

#[test]
fn names_that_do_not_exist_get_the_nearest() {
    refused(
        "model=opt-13",
        &["model: unknown model `opt-13`, did you mean `opt-13b`?"],
    );
    refused(
        "systems.split.decode.gpu=a100-80g-sx",
        &["decode.gpu: unknown GPU `a100-80g-sx`, did you mean `a100-80g-sxm`?"],
    );
    refused(
        "engine=distserv",
        &["engine: unknown engine `distserv`, did you mean `distserve`?"],
    );
    refused(
        "workload.lengths=sharegp",
        &["workload.lengths: is `sharegp`", "did you mean `sharegpt`?"],
    );
    refused("workload.arrivals=poison", &["did you mean `poisson`?"]);
    refused(
        "systems.split.router=round_robbin",
        &["did you mean `round_robin`?"],
    );
    refused(
        "systems.split.transfer.link=nvlnk",
        &["did you mean `nvlink`?"],
    );
    refused(
        "systems.split.policy=disagregated",
        &["did you mean `disaggregated`?"],
    );
    refused(
        "systems.split.latency=rofline",
        &["did you mean `roofline`?"],
    );
}

#[test]
fn a_model_too_large_says_by_how_much_and_what_would_fit() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", "model=llama-3.1-70b"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains(
            "s.yaml:12:5: systems.colocated.pool: llama-3.1-70b at tp 1 pp 1 does not fit"
        ),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("GiB too much; tp 2 would fit"),
        "{}",
        ran.err
    );
    assert_eq!(ran.err.lines().count(), 3, "one line per pool: {}", ran.err);
}

#[test]
fn degrees_that_cannot_cut_the_model_are_refused() {
    refused(
        "systems.colocated.pool.tp=3",
        &[
            "--set systems.colocated.pool.tp=3: systems.colocated.pool.tp: tp 3 does not divide the 40 attention heads",
            "possible: 1, 2, 4",
        ],
    );
    refused(
        "systems.colocated.pool.pp=41",
        &[
            "systems.colocated.pool.pp: pp 41 is not possible",
            "40 layers",
        ],
    );
    refused(
        "systems.colocated.pool.ep=2",
        &[
            "systems.colocated.pool.ep: ep 2 needs a mixture of experts, and opt-13b has none",
            "allowed: 1",
        ],
    );
}

#[test]
fn stages_of_unequal_layers_are_told() {
    let scratch = Scratch::new();
    let told = |pp: u32| {
        let set = format!("systems.colocated.pool.pp={pp}");
        let ran = scratch.pdsim(&["check", "s.yaml", "--set", &set]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out + &ran.err
    };
    let three = told(3);
    let note = "systems.colocated.pool.pp: 40 layers in 3 stages: 14, 13 and 13; pp of 1, 2, 4, 5, 8, 10, 20, 40 has even ones";
    assert!(three.contains(note), "{three}");
    let twelve = told(12);
    assert!(
        twelve.contains("40 layers in 12 stages: 4 of 4 and 8 of 3;"),
        "{twelve}"
    );
    assert!(!told(4).contains("layers in 4 stages"));
}

#[test]
fn a_prompt_longer_than_the_kv_pool_is_refused_or_announced() {
    let scratch = Scratch::new();
    let all = "workload.lengths={fixed: {input: 200000, output: 3}}";
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", all]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err
            .contains("no request fits: an instance of pool `colocated`"),
        "{}",
        ran.err
    );
    let some = "workload.lengths={input: {uniform: {min: 10, max: 200000}}, output: {fixed: 3}}";
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", some]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.err.contains("of 200 requests will be rejected"),
        "{}",
        ran.err
    );
}

#[test]
fn what_a_policy_needs_and_does_not_have_is_named() {
    refused(
        "systems.split.transfer=null",
        &[
            "systems.split.transfer: the key `transfer` is missing",
            "{link: nvlink}",
        ],
    );
    refused(
        "systems.split.decode=null",
        &["the key `decode` is missing; policy `disaggregated` needs it"],
    );
    refused(
        "systems.colocated.first_token=decode",
        &["first_token: is for disaggregated systems only"],
    );
    refused(
        "systems.colocated.prefill={instances: 1, gpu: h100}",
        &["policy `colocated` has no pool `prefill`"],
    );
    refused("systems={}", &["systems: names no system"]);
    refused("workload=null", &["the key `workload` is missing"]);
    refused(
        "systems.split.latency={polynomial: {set: distserve, prefill_ms: {a: 1, b: 1, c: 0}}}",
        &["needs both `prefill_ms` and `decode_ms`"],
    );
}

#[test]
fn contradictions_are_named() {
    refused(
        "workload.limit=5",
        &["workload.limit: is for recorded traces only"],
    );
    refused(
        "workload.lengths={fixed: {input: 1, output: 1}, max_total: 4}",
        &["fixed: stands alone"],
    );
}

#[test]
fn bad_sweeps_are_refused() {
    refused(
        "sweep.workload.rate=[2 /s, 0 /s]",
        &["workload.rate: is 0", "sweep value `workload.rate: 0 /s`"],
    );
    refused(
        "sweep.workload.rate=3 /s",
        &["sweep.workload.rate: is 3 /s, expected a list"],
    );
    refused(
        "sweep.workload.rte=[3 /s]",
        &["workload.rte: unknown key `rte`"],
    );
    refused("sweep.seeds=[1, 2]", &["sweep.seeds: cannot be swept"]);
    let sweep = format!("{SMALL}sweep:\n  workload.rate: [2 /s, 3]\n");
    Scratch::with("s.yaml", &sweep)
        .pdsim(&["check", "s.yaml"])
        .refused(&["s.yaml:19:3: workload.rate: `3` has no unit"]);
}

#[test]
fn bad_flags_are_refused() {
    refused("workload.rate", &["--set workload.rate: has no `=`"]);
    refused("=3", &["has an empty key"]);
    refused("workload.rate=[", &["is not valid YAML"]);
}

#[test]
fn files_that_are_no_scenario_are_refused() {
    let scratch = Scratch::with("list.yaml", "- 1\n");
    scratch
        .pdsim(&["check", "list.yaml"])
        .refused(&["list.yaml: is not a scenario"]);
    scratch
        .pdsim(&["check", "none.yaml"])
        .refused(&["none.yaml: cannot read the scenario"]);
    scratch.write("broken.yaml", "name: [x\n");
    scratch
        .pdsim(&["check", "broken.yaml"])
        .refused(&["broken.yaml:2:1: is not valid YAML"]);
    scratch.write(
        "twice.yaml",
        &SMALL.replace("  rate: 4 /s\n", "  rate: 4 /s\n  rate: 5 /s\n"),
    );
    scratch
        .pdsim(&["check", "twice.yaml"])
        .refused(&["twice.yaml:", "duplicate entry with key \"rate\""]);
}

#[test]
fn all_problems_are_told_at_once() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--set",
        "engine=vllm",
        "--set",
        "systems.split.decode.gpu=h10",
        "--set",
        "slo.attainment=2",
        "--set",
        "workload.rate=0 /s",
        "--set",
        "systems.colocated.router=best",
    ]);
    assert_eq!(ran.code, 2);
    for piece in [
        "engine: ",
        "decode.gpu: ",
        "slo.attainment: ",
        "workload.rate: ",
        "colocated.router: ",
    ] {
        assert_eq!(
            ran.err.matches(piece).count(),
            1,
            "{piece} once in\n{}",
            ran.err
        );
    }
}

#[test]
fn a_name_that_leads_out_of_the_output_folder_is_refused() {
    for name in [
        "../../up",
        "a/b",
        "''",
        "'  '",
        "..",
        ".hidden",
        "\"a\\nb\"",
        "'a\\b'",
    ] {
        refused(
            &format!("name={name}"),
            &[": name: is ", "expected the name of a folder"],
        );
    }
    let named = Scratch::new().pdsim(&["check", "s.yaml", "--set", "name=Größe 2"]);
    assert_eq!(named.code, 0, "{named:?}");
}

#[test]
fn a_seed_or_a_swept_value_twice_is_refused() {
    refused("seeds=[3, 1, 3]", &["seeds: names the seed 3 twice"]);
    refused(
        "sweep.workload.rate=[2 /s, 3 /s, 2 /s]",
        &["sweep.workload.rate: names 2 /s twice"],
    );
}

#[test]
fn a_sweep_of_billions_of_points_is_refused_at_once() {
    let many: Vec<String> = (1..100).map(|n| n.to_string()).collect();
    let axis = |key: &str| format!("  systems.{key}: [{}]\n", many.join(", "));
    let axes: String = [
        "colocated.max_seqs",
        "split.max_seqs",
        "colocated.block_tokens",
        "split.block_tokens",
        "split.max_step_tokens",
    ]
    .map(axis)
    .concat();
    Scratch::with("s.yaml", &format!("{SMALL}sweep:\n{axes}"))
        .pdsim(&["check", "s.yaml"])
        .refused(&["makes 9509900499 points", "at most 10000"]);
}

#[test]
fn a_sweep_that_is_no_map_is_named_without_a_stray_dot() {
    refused("sweep=5", &[": sweep: is 5, expected a list"]);
}

#[test]
fn a_warmup_that_leaves_nothing_to_measure_is_refused() {
    for warmup in [200, 5000] {
        refused(
            &format!("workload.warmup={warmup}"),
            &["workload.warmup: leaves out", "of 200 requests"],
        );
    }
}

#[test]
fn an_exponent_is_called_by_its_name() {
    refused(
        "workload.rate=1e9 /s",
        &["`1e9 /s` has an exponent; write the digits out"],
    );
}

#[test]
fn a_byte_order_mark_is_no_second_document() {
    let ran = Scratch::with("s.yaml", &format!("\u{feff}{SMALL}")).pdsim(&["check", "s.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = Scratch::with("s.yaml", &SMALL.replace('\n', "\r\n")).pdsim(&["check", "s.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn policies_that_contradict_themselves_are_refused() {
    for (set, pieces) in [
        (
            "systems.split.queue=shortest_promt",
            ["did you mean `shortest_prompt`?", "fcfs"],
        ),
        (
            "systems.split.queue=earliest_deadline",
            ["needs promises", "ttft: [250 ms, 5 s]"],
        ),
        (
            "systems.split.long_prompts={above: 10, most: 0}",
            [
                "split.long_prompts.most: is 0",
                "no long prompt would ever run",
            ],
        ),
        (
            "systems.split.long_prompts={above: 10, interrupts: false}",
            [
                "split.long_prompts.interrupts: is false",
                "only under policy `mixed_pool`",
            ],
        ),
        (
            "systems.split.swap_bandwidth=25 GB/s",
            ["split.swap_bandwidth", "no use without `preemption: swap`"],
        ),
        (
            "systems.colocated.preemption=return_to_prefill",
            ["colocated.preemption", "which is for decode pools"],
        ),
        (
            "systems.split.skip_prefill={}",
            ["split.skip_prefill: says nothing", "below: 256"],
        ),
        (
            "systems.split.transfer.overlap=layerwise",
            [
                "split.transfer.overlap: needs decode blocks",
                "reservation: early",
            ],
        ),
        (
            "systems.split.transfer.in_flight=4",
            ["split.transfer.in_flight", "`contention: fair` only"],
        ),
        (
            "systems.colocated.reservation=early",
            ["colocated.reservation", "disaggregated systems only"],
        ),
    ] {
        refused(set, &pieces);
    }
}

#[test]
fn a_link_or_a_promise_of_the_wrong_shape_shows_the_right_one() {
    let transfer = "systems.split.transfer";
    for (value, pieces) in [
        (
            "={}",
            ["the key `link` is missing", "`transfer: {link: nvlink}`"],
        ),
        (
            "=rdma",
            [
                "is a string \"rdma\", expected a map",
                "`transfer: {link: rdma}`",
            ],
        ),
        (
            "=rdmaa",
            [
                "is a string \"rdmaa\", expected a map",
                "`transfer: {link: nvlink}`",
            ],
        ),
        (
            "=[nvlink]",
            ["is a list, expected a map", "`transfer: {link: nvlink}`"],
        ),
        (
            ".link=null",
            [
                "link: is empty (null), expected a word or a map",
                "`link: nvlink`",
            ],
        ),
        (
            ".link={latency: 10 us}",
            [
                "link: the key `bandwidth` is missing",
                "{bandwidth: 25 GB/s, latency: 10 us}",
            ],
        ),
    ] {
        refused(&format!("{transfer}{value}"), &pieces);
    }
    for (value, pieces) in [
        (
            "{ttft: 250 ms}",
            [
                "ttft: is a string \"250 ms\", expected a list",
                "`[250 ms]`",
            ],
        ),
        (
            "250 ms",
            ["expected a map of keys", "{ttft: [250 ms, 5 s]}"],
        ),
        ("{}", ["the key `ttft` is missing", "{ttft: [250 ms, 5 s]}"]),
    ] {
        let set = format!("systems.split.queue={{earliest_deadline: {value}}}");
        refused(&set, &pieces);
    }
}
