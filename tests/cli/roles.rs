//! Roles that change, from the command line: what is refused and what is told.

use crate::bad_input::refused;
use crate::support::{SMALL, Scratch};

/// Keys that `dynamic` refuses, and what it says.
const DYNAMIC: [(&str, [&str; 2]); 12] = [
    (
        "roles: {decode_kv: {low: 0.9, high: 0.5}}",
        [
            "split.roles.decode_kv: has low 0.9 and high 0.5",
            "0 < low < high",
        ],
    ),
    (
        "roles: {prefill_queue: {high: 100}}",
        [
            "split.roles.prefill_queue: has low 1024 and high 100",
            "under pressure",
        ],
    ),
    (
        "roles: {decode_kv: {high: 1.5}}",
        [
            "split.roles.decode_kv.high: is 1.5",
            "which no share of KV blocks exceeds",
        ],
    ),
    (
        "roles: {at_least: {prefill: 0}}",
        ["split.roles.at_least.prefill: is 0", "leave the pool empty"],
    ),
    (
        "roles: {at_least: {decode: 3}}",
        [
            "split.roles.at_least.decode: is 3",
            "starts with 2 instances",
        ],
    ),
    (
        "roles: {at_least: {prefill: 2, decode: 2}}",
        [
            "split.roles.at_least: lets no instance ever switch",
            "`policy: disaggregated`",
        ],
    ),
    (
        "roles: {decode_kv: {low: 0.5}, decode_sequences: {low: 3}}",
        [
            "split.roles.decode_sequences: stands beside `decode_kv`",
            "one of them",
        ],
    ),
    (
        "roles: {decode_kv: {low: 0.5}}, kv_blocks: unlimited",
        ["split.roles.decode_kv: watches a share", "decode_sequences"],
    ),
    (
        "roles: {kv_share: 0.5}",
        [
            "split.roles.kv_share: is a key of policy `mixed_pool`",
            "prefill_queue",
        ],
    ),
    (
        "roles: {dwel: 3 s}",
        ["unknown key `dwel`", "did you mean `dwell`?"],
    ),
    ("roles: {dwell: 3}", ["`3` has no unit", "`50 ms`"]),
    (
        "kv_reserve: oracle_at_decode",
        ["split.kv_reserve: is `oracle_at_decode`", "write `oracle`"],
    ),
];

/// The same of `mixed_pool`.
const MIXED_POOL: [(&str, [&str; 2]); 8] = [
    (
        "roles: {kv_share: 1.5}",
        ["split.roles.kv_share: is 1.5", "at most 1"],
    ),
    (
        "roles: {prompt_tokens: 0}",
        ["split.roles.prompt_tokens: is 0", "8192"],
    ),
    (
        "roles: {dwell: 3 s}",
        [
            "split.roles.dwell: is a key of policy `dynamic`",
            "prompt_tokens",
        ],
    ),
    (
        "router: least_kv",
        ["split.router: is of no effect", "by its own rule"],
    ),
    (
        "reservation: early",
        ["split.reservation: is of no effect", "remove it"],
    ),
    (
        "decode_choice: arrival",
        ["split.decode_choice: is of no effect", "remove it"],
    ),
    (
        "skip_prefill: {below: 20}",
        ["split.skip_prefill: is of no effect", "remove it"],
    ),
    (
        "preemption: return_to_prefill",
        [
            "split.preemption: is `return_to_prefill`",
            "`recompute` or `swap`",
        ],
    ),
];

/// A system under `policy` of two prefill and two decode instances, with more keys.
fn moving(policy: &str, keys: &str) -> String {
    format!(
        "systems.split={{policy: {policy}, prefill: {{instances: 2, gpu: h100-sxm}}, decode: {{instances: 2, gpu: h100-sxm}}, \
         transfer: {{link: nvlink}}, {keys}}}"
    )
}

#[test]
fn rules_of_roles_that_cannot_hold_are_refused() {
    for (keys, pieces) in DYNAMIC {
        refused(&moving("dynamic", keys), &pieces);
    }
    for (keys, pieces) in MIXED_POOL {
        refused(&moving("mixed_pool", keys), &pieces);
    }
    let only = "split.roles: is for the policies `mixed_pool` and `dynamic` only";
    refused(&moving("disaggregated", "roles: {dwell: 3 s}"), &[only]);
}

#[test]
fn pools_that_exchange_instances_must_hold_kv_caches_alike() {
    for policy in ["mixed_pool", "dynamic"] {
        let other = |key: &str| {
            let decode = format!("decode: {{instances: 2, {key},");
            moving(policy, "queue: fcfs").replace("decode: {instances: 2,", &decode)
        };
        let tp = "split.decode.tp: is 2, but 1 in pool `prefill`";
        refused(&other("tp: 2"), &[tp, "laid out alike"]);
        let block = "split.decode.block_tokens: is 32, but 16";
        refused(
            &other("block_tokens: 32"),
            &[block, "`block_tokens` for both"],
        );
    }
}

/// The small scenario with its split system under `policy`, two instances on each side, and more keys.
fn small(policy: &str, keys: &str) -> Scratch {
    let text = SMALL.replace(
        "policy: disaggregated",
        &format!("policy: {policy}\n    {keys}"),
    );
    let text = text.replace("prefill: {instances: 1", "prefill: {instances: 2");
    Scratch::with(
        "s.yaml",
        &text.replace("decode: {instances: 1", "decode: {instances: 2"),
    )
}

#[test]
fn switches_and_time_in_each_role_are_told() {
    // A burst of prompts that no two prefill instances can compute at once.
    let keys = "roles: {prefill_queue: {low: 100, high: 600}, decode_sequences: {low: 50, high: 90}, dwell: 0 s}";
    for (policy, keys) in [
        ("dynamic", keys),
        ("mixed_pool", "roles: {prompt_tokens: 600}"),
    ] {
        let scratch = small(policy, keys);
        let ran = scratch.pdsim(&[
            "run",
            "s.yaml",
            "--no-charts",
            "--set",
            "workload.rate=60 /s",
        ]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains("role switches per run"), "{}", ran.out);
        assert!(
            ran.out.contains("time as P, D, mixed, by pool"),
            "{}",
            ran.out
        );
        let pools = std::fs::read_to_string(scratch.path("output/small/pools.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(pools.as_bytes());
        let headers = rows.headers().unwrap().clone();
        let at = headers.iter().position(|h| h == "role_switches").unwrap();
        let mut switches = 0;
        for row in rows.records() {
            let row = row.unwrap();
            let shares = (at + 1..at + 5).map(|i| row[i].parse::<f64>().unwrap());
            assert!((shares.sum::<f64>() - 1.0).abs() < 1e-4, "{row:?}");
            switches += row[at].parse::<u64>().unwrap();
        }
        assert!(switches > 0, "{policy}: {pools}");
    }
}

#[test]
fn a_resolved_scenario_states_every_threshold() {
    let scratch = small("dynamic", "kv_blocks: fit");
    let ran = scratch.pdsim(&["check", "--resolved", "s.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for stated in [
        "prefill_queue:",
        "decode_kv:",
        "at_least:",
        "dwell: 10 s",
        "switch_time: 0 s",
    ] {
        assert!(ran.out.contains(stated), "{stated}: {}", ran.out);
    }
    let scratch = small("mixed_pool", "kv_blocks: fit");
    let ran = scratch.pdsim(&["check", "--resolved", "s.yaml"]);
    for stated in ["prompt_tokens: 8192", "kv_share: 1.0"] {
        assert!(ran.out.contains(stated), "{stated}: {}", ran.out);
    }
    assert!(!ran.out.contains("reservation"), "{}", ran.out);
}

#[test]
fn what_is_wrong_in_a_pool_is_told_there_and_by_the_flag_that_put_it_there() {
    let keys = "kv_blocks: fit";
    for policy in ["mixed_pool", "dynamic"] {
        let scratch = small(policy, keys);
        let check = |flag: &str| scratch.pdsim(&["check", "s.yaml", "--set", flag]);
        check("systems.split.prefill.tp=2").refused(&[
            "--set systems.split.prefill.tp=2: systems.split.prefill.tp: is 2, but 1 in pool `decode`",
        ]);
        check("systems.split.decode.block_tokens=32").refused(&[
            "--set systems.split.decode.block_tokens=32: systems.split.decode.block_tokens: is 32, but 16 in pool `prefill`",
        ]);
        check("systems.split.decode.kv_reserve=oracle_at_decode").refused(&[
            "--set systems.split.decode.kv_reserve=oracle_at_decode: systems.split.decode.kv_reserve: is `oracle_at_decode`",
        ]);
        check("systems.split.kv_reserve=oracle_at_decode")
            .refused(&["systems.split.kv_reserve: is `oracle_at_decode`"]);
    }
    small("mixed_pool", keys)
        .pdsim(&[
            "check",
            "s.yaml",
            "--set",
            "systems.split.decode.preemption=return_to_prefill",
        ])
        .refused(&["systems.split.decode.preemption: is `return_to_prefill`"]);
}

#[test]
fn one_mistake_gets_one_message() {
    // The floors of an empty pool and the time to send chunks early are beside the point.
    let empty = moving("dynamic", "queue: fcfs")
        .replace("prefill: {instances: 2", "prefill: {instances: 0");
    refused(&empty, &["split.prefill.instances: is 0, expected 1 to"]);
    for overlap in ["layerwise", "chunk"] {
        let link = format!("{{link: nvlink, overlap: {overlap}, mode: pull}}");
        let early = moving("mixed_pool", "queue: fcfs").replace("{link: nvlink}", &link);
        refused(
            &early,
            &["split.transfer.overlap: is of no effect: policy `mixed_pool`"],
        );
    }
}
