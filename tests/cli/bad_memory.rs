//! What a person can get wrong about KV memory, routing and bills: one line that names the thing to change.

use crate::support::Scratch;

/// Checks the small scenario with these overrides and expects a refusal with these pieces.
fn refused_with(sets: &[&str], pieces: &[&str]) {
    let mut args = vec!["check", "s.yaml"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    Scratch::new().pdsim(&args).refused(pieces);
}

#[test]
fn keys_of_memory_and_routing_that_contradict_each_other_are_refused() {
    for (set, pieces) in [
        (
            "systems.split.router={prefill: {session_affinty: {}}}",
            ["unknown", "session_affinity"],
        ),
        (
            "systems.split.router={prefill: {session_affinity: {fallback: least_request}}}",
            [
                "session_affinity.fallback: unknown router",
                "did you mean `least_requests`?",
            ],
        ),
        (
            "systems.split.router=session_affinity",
            [
                "split.router",
                "no request of this workload belongs to a session",
            ],
        ),
        (
            "systems.split.router={prefill: {prefix_aware: {prompt_weight: -1}}}",
            ["prefix_aware.prompt_weight: is -1", "from 0 to 1000"],
        ),
        (
            "systems.colocated.decode_choice=arrival",
            ["colocated.decode_choice", "disaggregated systems only"],
        ),
        (
            "systems.colocated.cpu_cache={size: 64 GiB}",
            ["colocated.cpu_cache", "`prefix_cache: true`"],
        ),
        (
            "systems.colocated.pool.price_per_hour_usd=-1",
            ["pool.price_per_hour_usd: is -1", "US dollars per GPU-hour"],
        ),
        (
            "systems.colocated.pool.power_w=0",
            ["pool.power_w: is 0", "watts per GPU"],
        ),
    ] {
        refused_with(&[set], &pieces);
    }
}

#[test]
fn a_cpu_tier_without_bandwidth_size_or_use_is_refused() {
    let cached = "systems.colocated.prefix_cache=true";
    for (tier, pieces) in [
        (
            "{size: 64 GiB, bandwidth: 0 GB/s}",
            ["cpu_cache.bandwidth: is zero", "PCIe"],
        ),
        (
            "{bandwidth: 50 GB/s}",
            ["has neither of `size` and `blocks`", "256 GiB"],
        ),
        (
            "{size: 1 GiB, blocks: 5}",
            ["has both of `size` and `blocks`", "write one"],
        ),
        ("{size: 64}", ["`64` has no unit", "GiB"]),
        ("{size: 1 kB}", ["holds no block", "raise `size`"]),
    ] {
        let tier = format!("systems.colocated.cpu_cache={tier}");
        refused_with(&[cached, &tier], &pieces);
    }
    refused_with(
        &[
            cached,
            "systems.colocated.kv_blocks=unlimited",
            "systems.colocated.cpu_cache={size: 64 GiB}",
        ],
        &["cpu_cache: is of no use with `kv_blocks: unlimited`"],
    );
}

#[test]
fn a_decode_instance_cannot_be_chosen_late_and_reserved_early() {
    refused_with(
        &[
            "systems.split.reservation=early",
            "systems.split.decode_choice=handoff",
        ],
        &["split.decode_choice: is `handoff`", "write `arrival`"],
    );
    refused_with(
        &[
            "systems.split.decode_choice=arrival",
            "systems.split.skip_prefill={uncached_below: 64}",
        ],
        &["uncached_below", "`prefix_cache: true` in `decode`"],
    );
    refused_with(
        &[
            "systems.split.decode.prefix_cache=true",
            "systems.split.skip_prefill={uncached_below: 64}",
        ],
        &["skip_prefill.uncached_below", "`decode_choice: arrival`"],
    );
}

#[test]
fn a_pool_too_small_for_every_request_says_what_would_hold_one() {
    refused_with(
        &["systems.split.decode.kv_blocks=20"],
        &[
            "systems.split: no request fits: an instance of pool `decode` of `split` has 20 KV blocks of 16 tokens",
            "33 blocks per instance would hold any",
        ],
    );
}

/// What is told about the CPU tier of a decode pool, with other keys of that pool and of the system.
fn decode_tier(decode: &str, keys: &str) -> String {
    let split = format!(
        "systems.split={{policy: disaggregated, prefill: {{instances: 1, gpu: a100-80g-sxm}}, \
         decode: {{instances: 1, gpu: a100-80g-sxm, prefix_cache: true, cpu_cache: {{size: 64 GiB}}{decode}}}, \
         transfer: {{link: nvlink}}{keys}}}"
    );
    let trace =
        "{\"timestamp\": 0, \"input_length\": 700, \"output_length\": 9, \"hash_ids\": [1, 2]}\n";
    let scratch = Scratch::new();
    scratch.write("t.jsonl", trace);
    let workload = "workload={trace: t.jsonl, format: mooncake}";
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", workload, "--set", &split]);
    assert_eq!(ran.code, 0, "{ran:?}");
    format!("{}{}", ran.out, ran.err)
}

#[test]
fn what_looks_into_the_cpu_tier_of_a_decode_pool_is_told() {
    let told = decode_tier("", "");
    let only = "split.decode.cpu_cache: KV caches that come from prefill instances do not look into host memory";
    assert!(told.contains(only), "{told}");
    assert!(
        told.contains("only these do: prompts recomputed there after preemption\n"),
        "{told}"
    );
    let told = decode_tier(", preemption: swap", "");
    assert!(
        told.contains("it changes nothing; remove it, or write `skip_prefill`"),
        "{told}"
    );
    let told = decode_tier(", preemption: swap", ", skip_prefill: {below: 64}");
    assert!(
        told.contains("only these do: prompts that skip the prefill pool\n"),
        "{told}"
    );
}
