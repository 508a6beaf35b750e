//! `dp` and `ep` of a pool: times, memory, GPUs, transfers, and what is refused.

use pdsim::cluster::SystemSpec;
use pdsim::scenario;

use crate::support::Scratch;

const DEEPSEEK: &str = "\
name: deepseek
model: deepseek-v3
slo: {ttft: 2 s, tpot: 100 ms}
workload:
  lengths: {fixed: {input: 1024, output: 128}}
  rate: 4 /s
  requests: 60
systems:
  tensor:
    policy: chunked
    pool: {instances: 1, gpu: h200-sxm, tp: 8}
  expert:
    policy: chunked
    pool: {instances: 1, gpu: h200-sxm, dp: 8, ep: 8}
";

const SPLIT: &str = "\
name: split
model: deepseek-v3
slo: {ttft: 2 s, tpot: 100 ms}
workload:
  lengths: {fixed: {input: 1024, output: 16}}
  rate: 1 /s
  requests: 20
systems:
  split:
    policy: disaggregated
    prefill: {instances: 1, gpu: h200-sxm, dp: 8, ep: 8}
    decode: {instances: 1, gpu: h200-sxm, dp: 8, ep: 8}
    transfer: {link: rdma}
";

fn systems(text: &str, flags: &[&str]) -> Vec<SystemSpec> {
    let scratch = Scratch::with("s.yaml", text);
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    let mut experiment = scenario::load(&scratch.path("s.yaml"), &flags).expect("a good scenario");
    experiment.points.remove(0).systems
}

#[test]
fn deepseek_on_a_node_loads_explains_its_exchange_and_runs() {
    let scratch = Scratch::with("s.yaml", DEEPSEEK);
    let explained = scratch.pdsim(&["explain", "s.yaml"]);
    assert_eq!(explained.code, 0, "{explained:?}");
    let (tensor, expert) = explained
        .out
        .split_once("expert · ")
        .expect("two systems in order");
    assert!(
        expert.contains("(tp 1 pp 1 dp 8 ep 8) h200-sxm, fp8_block weights"),
        "{expert}"
    );
    assert_eq!(
        expert.matches("expert dispatch and combine").count(),
        2,
        "{expert}"
    );
    assert!(!expert.contains("all-reduce"), "{expert}");
    assert!(
        tensor.contains("all-reduce") && !tensor.contains("dispatch"),
        "{tensor}"
    );

    let ran = scratch.pdsim(&["run", "s.yaml", "--out", "out", "--no-charts"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("1 x h200-sxm tp1 dp8 ep8"), "{}", ran.out);
    let again = scratch.pdsim(&[
        "run",
        "s.yaml",
        "--out",
        "stepped",
        "--no-charts",
        "--no-fast-forward",
    ]);
    assert_eq!(again.code, 0, "{again:?}");
    for file in ["requests.csv", "summary.csv"] {
        let read = |folder: &str| std::fs::read(scratch.path(folder).join(file)).expect("written");
        assert!(read("out") == read("stepped"), "{file} differs");
    }
}

#[test]
fn ranks_have_their_own_weights_tokens_and_share_of_the_memory() {
    let made = systems(DEEPSEEK, &[]);
    let [tensor, expert] = [&made[0].pools[0], &made[1].pools[0]];
    assert_eq!((tensor.gpus(), expert.gpus()), (8, 8));
    let blocks = |pool: &pdsim::cluster::PoolSpec| pool.kv.blocks.expect("limited");
    // Every rank of tp 8 holds every token's latent; each of dp 8 only its own, beside 15 GB more of weights.
    assert!(
        blocks(expert) > 5 * blocks(tensor),
        "{} {}",
        blocks(expert),
        blocks(tensor)
    );
    assert_eq!(expert.blocks_of_a_rank(), Some(blocks(expert) / 8));

    let long = [
        "systems.expert.pool.kv_blocks=800",
        "workload.lengths={fixed: {input: 1700, output: 2}}",
    ];
    let mut args = vec!["check", "s.yaml"];
    for flag in &long {
        args.extend(["--set", flag]);
    }
    let told = [
        "a rank of pool `chunked` of `expert` has 100 KV blocks of 16 tokens",
        "the longest request needs 107",
    ];
    Scratch::with("s.yaml", DEEPSEEK)
        .pdsim(&args)
        .refused(&told);
}

#[test]
fn a_cache_travels_over_the_links_of_one_rank() {
    let rate = |flags: &[&str]| systems(SPLIT, flags)[0].transfer.bytes_per_sec;
    let whole = [
        "systems.split.prefill={instances: 1, gpu: h200-sxm, tp: 8}",
        "systems.split.decode={instances: 1, gpu: h200-sxm, tp: 8}",
    ];
    let ratio = rate(&whole) / rate(&[]);
    assert!((ratio - 8.0).abs() < 1e-9, "{ratio}");
    let fair = systems(SPLIT, &["systems.split.transfer.contention=fair"]);
    let sharing = fair[0].transfer.sharing.as_ref().expect("a network");
    assert_eq!(sharing.in_flight, 8);
    let most = sharing.topology.most_per_transfer;
    // Ports carry what all ranks send, at whichever end.
    let ports = &sharing.topology.ports;
    let own = |port: &f64| (port / most - 8.0).abs() < 1e-9;
    assert!(ports.iter().any(own), "{ports:?} and {most}");
    assert!(
        ports.iter().all(|port| own(port) || port.is_infinite()),
        "{ports:?}"
    );
}

#[test]
fn degrees_that_do_not_go_together_are_refused_with_those_that_do() {
    let refused = |flags: &[&str], pieces: &[&str]| {
        let mut args = vec!["check", "s.yaml"];
        for flag in flags {
            args.extend(["--set", flag]);
        }
        Scratch::with("s.yaml", DEEPSEEK)
            .pdsim(&args)
            .refused(pieces);
    };
    refused(
        &["systems.expert.pool.ep=4"],
        &[
            "systems.expert.pool.ep: ep 4 is not possible: deepseek-v3 has 256 experts",
            "or 8 (whole experts",
        ],
    );
    refused(
        &["systems.expert.pool.dp=0"],
        &["systems.expert.pool.dp", "is 0, expected 1 to 1024"],
    );
    refused(
        &[
            "systems.expert.pool.dp=4000000000",
            "systems.expert.pool.tp=100",
        ],
        &[
            "systems.expert.pool.dp",
            "is 4000000000, expected 1 to 1024",
        ],
    );
    refused(
        &["systems.expert.pool={instances: 1, gpu: h200-sxm, tp: 64, pp: 4, dp: 128}"],
        &["needs 32768 GPUs per instance", "at most 16384"],
    );
    refused(
        &["model=llama-3.1-8b", "systems.expert.pool.ep=1"],
        &[
            "dp 8 needs a mixture of experts, and llama-3.1-8b has none",
            "more instances",
        ],
    );
}
