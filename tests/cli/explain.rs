//! `pdsim explain`: operators, the two curves, and what it refuses.

use crate::support::Scratch;

/// Milliseconds by tokens of the curve under a heading.
pub(crate) fn curve(out: &str, heading: &str) -> Vec<(u32, f64)> {
    let lines = out.lines().skip_while(|l| !l.starts_with(heading)).skip(1);
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let tokens = words.next()?.parse().ok()?;
        Some((tokens, words.nth(1)?.parse().ok()?))
    };
    lines.map_while(row).collect()
}

#[test]
fn every_step_is_broken_down_and_adds_up() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&["explain", "s.yaml", "--set", "latency=calibrated"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for piece in [
        "colocated · colocated: 2 × (tp 1 pp 1) a100-80g-sxm",
        "split · prefill: 1 × (tp 1 pp 1) a100-80g-sxm",
        "One prefill of 2048 tokens: ",
        "One decode of 32 sequences with 1024 tokens each: ",
        " of the time lies inside measured ranges.",
    ] {
        assert!(ran.out.contains(piece), "{piece} is not in\n{}", ran.out);
    }
    let first = ran.out.split("of the time lies").next().expect("one part");
    let rows = first
        .lines()
        .filter(|l| l.ends_with("yes ") || l.ends_with("no "));
    let shares: Vec<f64> = rows
        .map(|row| {
            let share = row.split_whitespace().rev().nth(3);
            share
                .and_then(|s| s.parse().ok())
                .unwrap_or_else(|| panic!("{row}"))
        })
        .collect();
    assert!(shares.len() >= 8, "{first}");
    let sum: f64 = shares.iter().sum();
    assert!((sum - 100.0).abs() < 0.6, "shares sum to {sum}: {first}");
}

#[test]
fn ttft_grows_with_the_prompt_and_tpot_hardly_with_the_context() {
    let scratch = Scratch::new();
    let ran = scratch.pdsim(&[
        "explain",
        "s.yaml",
        "--set",
        "latency=calibrated",
        "--set",
        "model=llama-3.1-8b",
    ]);
    let ttft = curve(&ran.out, "Unloaded time to first token");
    let tpot = curve(&ran.out, "Unloaded time per output token");
    assert_eq!((ttft.len(), tpot.len()), (8, 8), "{}", ran.out);
    for curve in [&ttft, &tpot] {
        assert!(
            curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
            "{curve:?}"
        );
    }
    assert!(ttft[4].1 > 10.0 * ttft[0].1, "{ttft:?}");
    assert!(tpot[4].1 < 1.5 * tpot[0].1, "{tpot:?}");
}

#[test]
fn the_split_is_weighed_by_the_work_of_each_phase() {
    let scratch = Scratch::new();
    let explain = |flags: &[&str]| {
        let ran = scratch.pdsim(&[&["explain", "s.yaml"], flags].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let ratio = |out: &str| -> f64 {
        let (_, after) = out.split_once("work_P : work_D = ").expect(out);
        let (number, _) = after.split_once(" : 1.").expect(out);
        number.parse().expect(out)
    };
    let long = [
        "--set",
        "workload.lengths={fixed: {input: 4000, output: 20}}",
    ];
    let short = [
        "--set",
        "workload.lengths={fixed: {input: 200, output: 400}}",
    ];
    let (prompts, replies) = (explain(&long), explain(&short));
    assert!(
        prompts.contains("a request (4000 tokens in, 20 out on average)"),
        "{prompts}"
    );
    assert!(
        ratio(&prompts) > 1.0 && prompts.contains("bound by\nprefill"),
        "{prompts}"
    );
    assert!(ratio(&replies) < 1.0, "{replies}");
    // Nothing to weigh: no decode work.
    let none = explain(&["--set", "workload.lengths={fixed: {input: 200, output: 1}}"]);
    assert!(!none.contains("work_P"), "{none}");
}

#[test]
fn models_without_kernels_say_so() {
    let ran = Scratch::new().pdsim(&["explain", "s.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.out.contains("is not composed of kernels"),
        "{}",
        ran.out
    );
    assert_eq!(curve(&ran.out, "Unloaded time to first token").len(), 8);
}

#[test]
fn impossible_sizes_and_scenarios_are_refused() {
    let scratch = Scratch::new();
    for flag in ["--prompt", "--batch", "--context"] {
        let ran = scratch.pdsim(&["explain", "s.yaml", flag, "0"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(flag), "{}", ran.err);
    }
    scratch.pdsim(&["explain", "no.yaml"]).refused(&["no.yaml"]);
    let unknown = ["explain", "s.yaml", "--set", "model=opt-13"];
    let ran = scratch.pdsim(&unknown);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    assert!(ran.err.contains("did you mean `opt-13b`?"), "{}", ran.err);
}
