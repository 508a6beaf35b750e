//! Keys that would change nothing are refused, with why and what to do.

use crate::bad_input::refused;
use crate::support::Scratch;

/// The split system of the small scenario with other pools and keys.
fn split(prefill: &str, decode: &str, keys: &str) -> String {
    format!(
        "systems.split={{policy: disaggregated, prefill: {{instances: 1, gpu: a100-80g-sxm{prefill}}}, \
         decode: {{instances: 1, gpu: a100-80g-sxm{decode}}}, {keys}}}"
    )
}

const NVLINK: &str = "transfer: {link: nvlink}";

fn accepted(set: &str) {
    let ran = Scratch::new().pdsim(&["check", "s.yaml", "--set", set]);
    assert_eq!(ran.code, 0, "{set}: {ran:?}");
}

#[test]
fn chunks_where_prompts_are_whole_are_refused() {
    let overlap = "reservation: early, transfer: {link: nvlink, overlap: chunk}";
    refused(
        &split("", "", overlap),
        &[
            "split.transfer.overlap: is `chunk`, but the prefill pool computes prompts whole",
            "`chunk_budget`",
        ],
    );
    accepted(&split(", chunk_budget: 256", "", overlap));
    accepted(&split(", batch: decode_first", "", overlap));
    refused(
        &split("", ", chunk_budget: 256", NVLINK),
        &[
            "split.decode.chunk_budget: is of no effect",
            "`batch: decode_first`",
        ],
    );
    accepted(&split(
        "",
        ", chunk_budget: 256, batch: decode_first",
        NVLINK,
    ));
    refused(
        "systems.colocated.chunk_budget=512",
        &[
            "colocated.chunk_budget: is of no effect",
            "`policy: chunked`",
        ],
    );
    refused(
        "systems.chunked={policy: chunked, pool: {instances: 1, gpu: a100-80g-sxm}, max_step_tokens: 512}",
        &[
            "systems.chunked.max_step_tokens: is of no effect: every pool",
            "within `chunk_budget`",
        ],
    );
    accepted("systems.colocated.max_step_tokens=4096");
    refused(
        &split(", chunk_budget: 256, max_step_tokens: 512", "", NVLINK),
        &[
            "split.prefill.max_step_tokens: is of no effect",
            "`chunk_budget`",
        ],
    );
}

#[test]
fn what_tunes_decoding_is_refused_where_nothing_decodes() {
    for key in [
        "preemption: swap",
        "kv_reserve: max_output",
        "max_decode_context: 4096",
    ] {
        let name = key.split(':').next().unwrap();
        refused(
            &split(&format!(", {key}"), "", NVLINK),
            &[
                &format!(
                    "split.prefill.{name}: is of no effect: nothing decodes on prefill instances"
                ),
                &format!("write `{name}` for `decode`"),
            ],
        );
        accepted(&split("", &format!(", {key}"), NVLINK));
    }
}

#[test]
fn rules_that_let_none_or_all_skip_are_refused() {
    for (key, why) in [
        ("below", "none would skip"),
        ("at_queue", "nothing would use the prefill pool"),
    ] {
        let keys = format!("skip_prefill: {{{key}: 0}}, {NVLINK}");
        refused(
            &split("", "", &keys),
            &[&format!("split.skip_prefill.{key}: is 0"), why],
        );
    }
}

#[test]
fn links_inside_a_node_between_groups_of_nodes_are_refused() {
    let transfer = "transfer: {link: rdma, contention: fair, node: {gpus: 8, inside: nvlink}}";
    refused(
        &split(", group: a", ", group: b", transfer),
        &["split.transfer.node.inside: is of no effect", "one `group`"],
    );
    accepted(&split(", group: a", ", group: a", transfer));
    for empty in ["''", "' '"] {
        refused(
            &split(
                &format!(", group: {empty}"),
                ", group: b",
                transfer.replace(", inside: nvlink", "").as_str(),
            ),
            &["split.prefill.group: is empty, expected the name of a group"],
        );
    }
}

#[test]
fn links_that_do_not_leave_a_node_are_refused_where_transfers_do() {
    let on = |gpus, link| {
        format!("transfer: {{link: {link}, contention: fair, node: {{gpus: {gpus}}}}}")
    };
    for link in ["nvlink", "pcie"] {
        accepted(&split("", "", &on(2, link)));
        refused(
            &split("", "", &on(1, link)),
            &[
                &format!("split.transfer.link: is `{link}`, which does not leave a node"),
                "on 2 nodes of 1 GPUs, with no link between them; write `rdma`",
                &format!("inside: {link}"),
            ],
        );
    }
    accepted(&split("", "", &on(1, "rdma")));
}

#[test]
fn counts_say_what_is_truly_allowed_and_closed_loops_how_they_are_written() {
    refused(
        "workload.concurrency=-1",
        &["workload.concurrency: is the integer `-1`, expected a whole number of at least 1"],
    );
    refused(
        "systems.split.prefill.instances=-1",
        &["prefill.instances: is the integer `-1`, expected a whole number of at least 1"],
    );
    refused(
        "workload.arrivals={closed: {}}",
        &[
            "workload.arrivals",
            "write `arrivals: closed` and beside it `concurrency: 32`",
        ],
    );
    refused(
        "workload={lengths: sharegpt, rate: 4 /s}",
        &["workload.requests: is missing, expected `requests`, `duration` or both"],
    );
}

#[test]
fn a_key_that_another_point_of_the_sweep_needs_is_noted_instead() {
    let scratch = Scratch::new();
    let swept = |axis: &str, sets: &[&str]| {
        let axis = format!("sweep={{{axis}}}");
        let mut args = vec!["check", "s.yaml", "--set", &axis];
        for set in sets {
            args.extend(["--set", set]);
        }
        scratch.pdsim(&args)
    };
    let policies = "systems.colocated.policy: [colocated, chunked]";
    let ran = swept(policies, &["systems.colocated.chunk_budget=512"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let note = "at sweep value `systems.colocated.policy: colocated`, systems.colocated.chunk_budget is of no effect";
    assert!(format!("{}{}", ran.out, ran.err).contains(note), "{ran:?}");
    let preemptions = "systems.colocated.preemption: [recompute, swap]";
    let ran = swept(preemptions, &["systems.colocated.swap_bandwidth=25 GB/s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // Nothing beside it is swept: the key itself is the mistake.
    let budgets = swept("systems.colocated.chunk_budget: [256, 512]", &[]);
    assert_eq!(budgets.code, 2, "{budgets:?}");
    assert!(budgets.err.contains("is of no effect"), "{}", budgets.err);
}
