//! Number formats and what engines choose by the GPU: times, memory, transfers, and what is refused.

use pdsim::cluster::SystemSpec;
use pdsim::scenario;

use crate::support::Scratch;

const H100: &str = "systems.colocated.pool.gpu=h100-sxm";

/// The first point's systems of the small scenario with these flags.
fn systems(flags: &[&str]) -> Vec<SystemSpec> {
    let scratch = Scratch::new();
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    let mut experiment = scenario::load(&scratch.path("s.yaml"), &flags).expect("a good scenario");
    experiment.points.remove(0).systems
}

fn refused(flags: &[&str], pieces: &[&str]) {
    let mut args = vec!["check", "s.yaml"];
    for flag in flags {
        args.extend(["--set", flag]);
    }
    Scratch::new().pdsim(&args).refused(pieces);
}

/// Milliseconds of the explained decode step, and the whole output.
fn decode(flags: &[&str]) -> (f64, String) {
    let mut args = vec!["explain", "s.yaml", "--batch", "4", "--context", "4000"];
    for flag in flags {
        args.extend(["--set", flag]);
    }
    let ran = Scratch::new().pdsim(&args);
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = ran.out.lines().find(|l| l.starts_with("One decode of"));
    let ms = line.and_then(|l| l.split(' ').rev().nth(1)?.parse().ok());
    (ms.unwrap_or_else(|| panic!("{}", ran.out)), ran.out)
}

#[test]
fn weights_of_eight_bits_take_less_time_and_leave_more_memory() {
    let base = ["latency=calibrated", "model=llama-3.1-8b", H100];
    let fp8 = [&base[..], &["systems.colocated.weight_dtype=fp8"]].concat();
    let ((before, wide), (after, narrow)) = (decode(&base), decode(&fp8));
    assert!(wide.contains("h100-sxm, bf16 weights, bf16 KV"), "{wide}");
    assert!(
        narrow.contains("h100-sxm, fp8 weights, bf16 KV"),
        "{narrow}"
    );
    // 7 GB less at 3.35 TB/s are 2.1 ms; products at 8 bits quantise their inputs first.
    let saved = before - after;
    assert!((1.4..2.1).contains(&saved), "{before} ms to {after} ms");
    let blocks = |flags: &[&str]| systems(flags)[0].pools[0].kv.blocks.expect("limited");
    let more = blocks(&fp8) - blocks(&base);
    // 6.98 of the 8.03 billion parameters are in linear layers; a block of 16 tokens has 2 MiB.
    let expected = 6.98e9 / f64::from(2 << 20);
    assert!((more as f64 / expected - 1.0).abs() < 0.01, "{more} blocks");
}

#[test]
fn a_cache_of_eight_bits_reads_holds_and_sends_half() {
    let base = ["latency=calibrated", "model=llama-3.1-8b"];
    let fp8 = [&base[..], &["kv_dtype=fp8"]].concat();
    let (wide, narrow) = (systems(&base), systems(&fp8));
    for (a, b) in wide.iter().zip(&narrow) {
        for (a, b) in a.pools.iter().zip(&b.pools) {
            assert_eq!(a.kv.bytes_per_token, 2 * b.kv.bytes_per_token);
            let blocks = |kv: &pdsim::cluster::KvSpec| kv.blocks.expect("limited");
            assert!(blocks(&b.kv).abs_diff(2 * blocks(&a.kv)) <= 1);
        }
    }
    // Four sequences of 4,000 tokens have 2.1 GB on an A100 that reads 2 TB in a second, whose profile timed no such cache.
    let (before, after) = (decode(&base).0, decode(&fp8).0);
    assert!(
        (0.3..1.2).contains(&(before - after)),
        "{before} ms to {after} ms"
    );
    let (before, after) = (
        decode(&[&base[..], &[H100]].concat()).0,
        decode(&[&fp8[..], &[H100]].concat()).0,
    );
    assert!(after < before, "{before} ms to {after} ms");
}

#[test]
fn defaults_are_what_the_model_is_published_in() {
    let scratch = Scratch::new();
    let set = ["model=gpt-oss-20b", H100];
    let ran = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--resolved",
        "--set",
        set[0],
        "--set",
        set[1],
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("weight_dtype: mxfp4"), "{}", ran.out);
    assert!(ran.out.contains("kv_dtype: bf16"), "{}", ran.out);
    refused(
        &["systems.colocated.model=deepseek-v3"],
        &[
            "a100-80g-sxm has no fp8 peak, which fp8_block weights need; allowed: bf16, int8, int4, mxfp4",
            "deepseek-v3 is published in fp8_block",
        ],
    );
}

#[test]
fn formats_that_cannot_be_are_refused() {
    refused(
        &["systems.colocated.pool.weight_dtype=fp8"],
        &[
            "systems.colocated.pool.weight_dtype: a100-80g-sxm has no fp8 peak",
            "allowed: bf16, int8, int4, mxfp4",
        ],
    );
    refused(
        &["systems.colocated.weight_dtype=nvfp4", H100],
        &["h100-sxm has no fp4 peak, which nvfp4 weights need"],
    );
    refused(
        &["weight_dtype=mxfp4"],
        &["weight_dtype", "covers experts alone, and opt-13b has none"],
    );
    refused(
        &["weight_dtype=bf61"],
        &[
            "weight_dtype: `bf61` is not a format of weights, did you mean `bf16`?",
            "nvfp4",
        ],
    );
    refused(
        &["kv_dtype=nvfp4"],
        &[
            "kv_dtype: `nvfp4` is not a format of the KV cache",
            "(allowed: bf16, fp8, int8)",
        ],
    );
    refused(
        &["systems.split.decode.kv_dtype=fp8"],
        &[
            "systems.split.decode.kv_dtype: makes the prefill pool keep bf16 and the decode pool fp8",
            "write one `kv_dtype` for the system",
        ],
    );
    refused(
        &["latency=polynomial", "weight_dtype=int8"],
        &["latency: has published coefficients of 16-bit weights and KV only, not of int8 weights"],
    );
}

#[test]
fn other_formats_are_not_timed_by_published_coefficients() {
    let ran = Scratch::new().pdsim(&[
        "check",
        "s.yaml",
        "--resolved",
        "--set",
        "weight_dtype=int8",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let fact = "systems.colocated.pool: calibrated step times";
    assert!(ran.out.contains(fact), "{}", ran.out);
    assert!(!ran.out.contains("polynomial"), "{}", ran.out);
}

#[test]
fn vllm_takes_larger_steps_on_large_gpus_that_are_no_a100() {
    let text = |flags: &[&str]| {
        let mut args = vec!["check", "s.yaml", "--resolved", "--set", "engine=vllm-v1"];
        for flag in flags {
            args.extend(["--set", flag]);
        }
        let ran = Scratch::new().pdsim(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let chunked = "systems.colocated.policy=chunked";
    let limits = |gpu: &str| {
        let gpu = format!("systems.colocated.pool.gpu={gpu}");
        let flags = ["engine=vllm-v1", chunked, "model=llama-3.1-8b", &gpu];
        let limits = systems(&flags)[0].pools[0].limits;
        (limits.max_step_tokens, limits.max_seqs)
    };
    assert_eq!(limits("h100-sxm"), (8192, 1024));
    assert_eq!(limits("mi300x"), (8192, 1024));
    assert_eq!(limits("a100-80g-sxm"), (2048, 256));
    assert_eq!(limits("l40s"), (2048, 256));
    let mixed = text(&["systems.split.decode.gpu=h100-sxm", "latency=calibrated"]);
    let split = mixed.split("split:").last().expect("one part");
    assert!(
        split.contains("max_seqs: 1024") && split.contains("max_seqs: 256"),
        "{mixed}"
    );
    // A budget for decodes is not one for prompts: the prefill pool goes on computing them whole.
    let flags = ["engine=vllm-v1", "systems.split.decode.batch=decode_first"];
    let pools = &systems(&flags)[1].pools;
    assert_ne!(pools[0].batch, pools[1].batch);
}

#[test]
fn engines_pay_their_time_per_step_unless_coefficients_hold_it() {
    let (_, out) = decode(&["engine=vllm-v1", "latency=roofline"]);
    let row = |out: &str| {
        let row = out.lines().rfind(|l| l.contains("engine overhead"));
        row.map(|l| l.split_whitespace().nth(4).unwrap_or_default().to_owned())
    };
    assert_eq!(row(&out).as_deref(), Some("0.650"), "{out}");
    let per = ["engine=vllm-v0", "latency=roofline"];
    let (_, out) = decode(&per);
    assert_eq!(
        row(&out).as_deref(),
        Some("0.978"),
        "810 us and four times 42: {out}"
    );
    let own = "latency={roofline: {step_overhead: 0 us, step_overhead_per_sequence: 0 us}}";
    let (_, out) = decode(&["engine=vllm-v0", own]);
    assert_eq!(row(&out), None, "{out}");
    let ran = Scratch::new().pdsim(&["check", "s.yaml", "--resolved", "--set", "engine=vllm-v0"]);
    assert!(!ran.out.contains("engine time"), "{}", ran.out);
}

#[test]
fn a_sweep_of_formats_that_changes_the_kind_of_step_times_is_warned_of() {
    let ran = |flags: &[&str]| {
        let mut args = vec!["run", "s.yaml", "--no-charts"];
        for flag in flags {
            args.extend(["--set", flag]);
        }
        let ran = Scratch::new().pdsim(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    // Published coefficients are of 16-bit formats only.
    for key in ["kv_dtype", "systems.split.weight_dtype"] {
        let sweep = format!("sweep.{key}=[bf16, int8]");
        let out = ran(&[&sweep]);
        let said = format!("has polynomial step times at {key} = bf16, calibrated ones at int8");
        assert!(out.contains(&said), "{out}");
        assert!(
            out.contains("add `latency: calibrated` at the top of the scenario"),
            "{out}"
        );
        let out = ran(&[&sweep, "latency=calibrated"]);
        assert!(!out.contains("step times at"), "{out}");
    }
    // Who sweeps the kind itself means to.
    let out = ran(&["sweep.latency=[polynomial, calibrated]"]);
    assert!(!out.contains("step times at"), "{out}");
}
