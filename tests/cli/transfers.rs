//! Transfers: what a scenario may not say, and where a run tells of its links.

use crate::support::{Ran, SMALL, Scratch};

fn run(command: &str, sets: &[&str]) -> (Scratch, Ran) {
    let scratch = Scratch::new();
    let mut args = vec![command, "s.yaml"];
    for set in sets {
        args.extend(["--set", set]);
    }
    let ran = scratch.pdsim(&args);
    (scratch, ran)
}

const FAIR: &str = "systems.split.transfer.contention=fair";
const NODE: &str = "systems.split.transfer.node={gpus: 8}";

const EARLY: &str = "systems.split.reservation=early";
const LAYERWISE: &str = "systems.split.transfer.overlap=layerwise";

/// Settings, and what the refusal says.
const REFUSED: [(&[&str], &[&str]); 14] = [
    (
        &[FAIR, "systems.split.transfer.in_flight=0"],
        &["transfer.in_flight: is 0", "at least 1"],
    ),
    (
        &["systems.split.transfer.mode=pul"],
        &["transfer.mode", "`pul`", "pull"],
    ),
    (
        &["systems.split.transfer.overlap=true"],
        &["transfer.overlap: unknown word `true` (allowed: none, chunk, layerwise)"],
    ),
    (
        &["systems.split.transfer.mode=pull", EARLY, LAYERWISE],
        &["transfer.overlap: has nothing to send early with `mode: pull`"],
    ),
    (
        &["systems.split.transfer.staging={}"],
        &[
            "transfer.staging: the key `bandwidth` is missing",
            "bandwidth: 25 GB/s",
            "pcie",
        ],
    ),
    (
        &["systems.split.transfer.staging={bandwidth: 0 GB/s}"],
        &["transfer.staging.bandwidth: is zero"],
    ),
    (
        &["systems.split.transfer.staging={bandwidth: 25}"],
        &["transfer.staging.bandwidth", "`25`", "25 GB/s"],
    ),
    (
        &["systems.split.transfer.staging={bandwith: 25 GB/s}"],
        &["did you mean `bandwidth`?"],
    ),
    (
        &["systems.split.transfer.staging=host"],
        &["transfer.staging: is `host`, expected `none`, `pcie`"],
    ),
    (
        &[
            "systems.split.transfer.staging={bandwidth: pcie, copy: whole}",
            EARLY,
            LAYERWISE,
        ],
        &["transfer.overlap: has nothing to send early with `staging: {copy: whole}`"],
    ),
    (
        &["systems.split.prefill.group=a"],
        &["prefill.group: says on which nodes", "contention: fair"],
    ),
    (
        &["systems.colocated.pool.group=a"],
        &["colocated.pool.group: is for disaggregated systems only"],
    ),
    (
        &[FAIR, NODE, "systems.split.decode.group=b"],
        &[
            "transfer.link: is `nvlink`",
            "different groups of nodes (none and b)",
            "rdma",
        ],
    ),
    (
        &[
            FAIR,
            NODE,
            "systems.split.transfer.link=rdma",
            "systems.split.decode.group=''",
        ],
        &["decode.group: is empty"],
    ),
];

#[test]
fn transfers_that_cannot_be_are_refused() {
    for (sets, pieces) in REFUSED {
        let (_, ran) = run("check", sets);
        ran.refused(pieces);
    }
}

#[test]
fn a_gpu_without_nvlink_has_no_link_to_the_other_pool() {
    let text = SMALL.replace(
        "decode: {instances: 1, gpu: a100-80g-sxm}",
        "decode: {instances: 1, gpu: l40s}",
    );
    let ran = Scratch::with("s.yaml", &text).pdsim(&["check", "s.yaml"]);
    ran.refused(&["split.transfer.link", "l40s has no NVLink", "rdma"]);
}

#[test]
fn links_are_told_in_a_file_in_json_and_on_the_screen() {
    let (scratch, ran) = run("run", &["systems.split.transfer.link={bandwidth: 4 GB/s}"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let row = ran.out.lines().find(|line| line.contains("busiest link"));
    let row = row.expect("the screen names the busiest link");
    assert!(row.contains("prefill\u{a0}0\u{a0}out"), "{row}");
    let links = scratch.read("output/small/links.csv");
    let lines: Vec<&str> = links.lines().collect();
    assert_eq!(lines.len(), 2, "{links}");
    assert!(lines[0].starts_with("system,axis,axis_value,rate,seed,link,kind,transfers,bytes,"));
    // 512 tokens of OPT-13B are 512 × 40 layers × 2 × 5120 × 2 bytes; 200 prompts.
    let bytes = 200_u64 * 512 * 40 * 2 * 5120 * 2;
    let expected = format!("split,,,4,1,prefill 0 out,link,200,{bytes},0,");
    assert!(lines[1].starts_with(&expected), "{links}");
    let json = scratch.pdsim(&["run", "s.yaml", "--json", "--no-charts"]);
    let summary: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    let split = &summary["points"][1];
    assert_eq!(split["links"][0]["link"], "prefill 0 out");
    assert!(split["figures"]["transfer_exposed_mean_ms"]["mean"].is_number());
}

#[test]
fn a_saturated_link_is_warned_of() {
    // 419 MB a prompt, four a second: 1.7 GB/s.
    let (_, ran) = run(
        "run",
        &["systems.split.transfer.link={bandwidth: 1500 MB/s}"],
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    let warning = ran.err.lines().find(|line| line.contains("link saturated"));
    let warning = warning.unwrap_or_else(|| panic!("{}", ran.err));
    assert!(
        warning.contains("split") && warning.contains("prefill 0 out is taken"),
        "{warning}"
    );
}

#[test]
fn pools_on_other_node_groups_cross_the_network() {
    let transfer =
        "systems.split.transfer={link: {bandwidth: 1 GB/s}, contention: fair, node: {gpus: 8}}";
    let link = |sets: &[&str]| {
        let (scratch, ran) = run("run", sets);
        assert_eq!(ran.code, 0, "{ran:?}");
        scratch.read("output/small/links.csv")
    };
    let near = link(&[transfer]);
    assert!(near.contains("prefill 0 inside out,port"), "{near}");
    let far = link(&[transfer, "systems.split.decode.group=b"]);
    assert!(far.contains("prefill 0 card out,port"), "{far}");
    let same = link(&[
        transfer,
        "systems.split.prefill.group=b",
        "systems.split.decode.group=b",
    ]);
    assert_eq!(same, near);
}

/// Mean exposed milliseconds of the first link.
fn exposed_ms(sets: &[&str]) -> f64 {
    let (scratch, ran) = run("run", sets);
    assert_eq!(ran.code, 0, "{ran:?}");
    let links = scratch.read("output/small/links.csv");
    let mut lines = links.lines();
    let header = lines.next().expect("a header");
    let row = lines.next().expect("a link");
    let mut columns = header.split(',').zip(row.split(','));
    let mean = columns.find(|(name, _)| *name == "exposed_mean_ms");
    mean.expect("a column").1.parse().expect("a number")
}

#[test]
fn staging_is_as_slow_as_its_slowest_part_or_as_all_of_them() {
    let wire = 512.0 * 40.0 * 2.0 * 5120.0 * 2.0 / 4e9 * 1e3;
    let slow = "workload.rate=0.2 /s";
    let own = "systems.split.transfer={link: {bandwidth: 4 GB/s, latency: 0 us}, staging: ";
    let shared = "systems.split.transfer={link: {bandwidth: 4 GB/s, latency: 0 us}, contention: fair, staging: ";
    for way in [own, shared] {
        for (staging, factor) in [
            ("none", 1.0),
            ("pcie", 1.0),
            ("{bandwidth: 2 GB/s}", 2.0),
            ("{bandwidth: 8 GB/s}", 1.0),
            ("{bandwidth: 8 GB/s, copy: whole}", 2.0),
            ("{bandwidth: 2 GB/s, copy: whole}", 5.0),
        ] {
            let transfer = format!("{way}{staging}}}");
            let seen = exposed_ms(&[slow, &transfer]);
            assert!((seen / wire - factor).abs() < 1e-3, "{transfer}: {seen}");
        }
    }
}

#[test]
fn shards_of_unequal_size_cost_more_than_equal_ones() {
    // 32 blocks of 16 tokens, 40 layers, keys and values: 2560 descriptors a rank, and twice that between TP 1 and TP 2.
    let exposed = |sets: &[&str]| {
        let mut all = vec![
            "latency={fixed: {prefill_per_token: 10 us, decode: 10 ms}}",
            "systems.split.transfer={link: {bandwidth: 10 GB/s, latency: 0 us}, descriptor_time: 3 us}",
        ];
        all.extend(sets);
        exposed_ms(&all)
    };
    let wire = 512.0 * 40.0 * 2.0 * 5120.0 * 2.0 / 10e9 * 1e3;
    let equal = exposed(&[]);
    assert!((equal - 2560.0 * 3e-3 - wire).abs() < 0.01, "{equal}");
    for tp in ["systems.split.prefill.tp=2", "systems.split.decode.tp=2"] {
        let unequal = exposed(&[tp]);
        assert!(
            (unequal - equal - 2560.0 * 3e-3).abs() < 0.01,
            "{tp}: {unequal}"
        );
    }
    let both = exposed(&["systems.split.prefill.tp=2", "systems.split.decode.tp=2"]);
    assert!((both - equal).abs() < 1e-6, "{both}");
}
