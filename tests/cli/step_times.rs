//! Which step times a pool gets when the scenario names none, and what is said about them.

use crate::support::Scratch;

/// The resolved small scenario with these flags; it must be a good one.
fn resolved(flags: &[&str]) -> String {
    let scratch = Scratch::new();
    let mut args = vec!["check", "s.yaml", "--resolved"];
    for flag in flags {
        args.extend(["--set", flag]);
    }
    let ran = scratch.pdsim(&args);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

#[test]
fn a_gpu_with_timings_of_its_own_uses_them() {
    let text = resolved(&["systems.colocated.pool.gpu=h100-sxm"]);
    for piece in [
        "# systems.colocated.pool: calibrated step times (published profile of h100-sxm; no published coefficients for this pool)",
        "# systems.colocated.pool: inside measured ranges: ",
        "# systems.split.decode: polynomial step times",
        "calibrated:\n          expert_skew: 0.0\n          step_overhead: 2000 us\n          step_overhead_per_sequence: 0 us",
    ] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    let decode = "# systems.split.decode: inside measured";
    assert!(!text.contains(decode), "{text}");
}

#[test]
fn a_gpu_with_borrowed_timings_says_whose() {
    let text = resolved(&["systems.colocated.pool.gpu=h20"]);
    for piece in [
        "calibrated step times (datasheet profile of h20, kernel timings borrowed from h100-sxm and scaled by the data sheets;",
        "inside measured ranges: 0 % of the time of a prompt of 1024 tokens, 0 % of that of 32 decodes",
    ] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
}

#[test]
fn a_gpu_without_timings_is_left_with_its_data_sheet() {
    let text = resolved(&[
        "systems.colocated.pool.gpu=b60",
        "systems.colocated.pool.tp=2",
    ]);
    let fact = "# systems.colocated.pool: roofline step times (no published coefficients for this pool, no timings in the GPU's profile)";
    assert!(text.contains(fact), "{text}");
    let scratch = Scratch::new();
    let asked = [
        "check",
        "s.yaml",
        "--set",
        "systems.colocated.pool.gpu=b60",
        "--set",
        "systems.colocated.pool.tp=2",
        "--set",
        "systems.colocated.latency=calibrated",
    ];
    scratch.pdsim(&asked).refused(&[
        "systems.colocated.latency",
        "the profile of b60 has no kernel timings",
        "use `roofline`",
    ]);
}

#[test]
fn the_scenarios_word_wins_and_is_told_apart_from_the_default() {
    let text = resolved(&["latency=calibrated"]);
    let fact = "# systems.colocated.pool: calibrated step times (published profile of a100-80g-sxm; as the scenario says; published coefficients exist)";
    assert!(text.contains(fact), "{text}");
    assert!(!text.contains("polynomial step times"), "{text}");
    let text = resolved(&["latency=roofline", "model=llama-2-13b"]);
    let fact = "roofline step times (as the scenario says; the GPU's profile has timings)";
    assert!(text.contains(fact), "{text}");
}

#[test]
fn a_mixture_with_published_coefficients_is_advised_to_calibrate() {
    let scratch = Scratch::new();
    let set = "systems.colocated.pool.gpu=h100-sxm";
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", set]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let warning =
        "systems.colocated.pool has calibrated step times, systems.split.prefill polynomial ones";
    let advice = "add `latency: calibrated` at the top of the scenario";
    assert!(
        ran.err.contains(warning) && ran.err.contains(advice),
        "{}",
        ran.err
    );
    let ran = scratch.pdsim(&[
        "check",
        "s.yaml",
        "--set",
        set,
        "--set",
        "latency=calibrated",
    ]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn an_impossible_skew_is_refused() {
    for skew in ["-0.5", "1.3", ".nan"] {
        let set = format!("latency={{calibrated: {{expert_skew: {skew}}}}}");
        let ran = Scratch::new().pdsim(&["check", "s.yaml", "--set", &set]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(
            ran.err.contains("latency.calibrated.expert_skew"),
            "{}",
            ran.err
        );
        assert!(ran.err.contains("expected 0 (even) to 1.2"), "{}", ran.err);
    }
}

#[test]
fn engine_overhead_is_added_to_every_step() {
    let scratch = Scratch::new();
    let first = |latency: &str| {
        let ran = scratch.pdsim(&["explain", "s.yaml", "--set", latency]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let line = ran
            .out
            .lines()
            .find(|l| l.starts_with("One prefill of"))
            .map(str::to_owned);
        let line = line.expect("a prefill is explained");
        let ms = line
            .split(' ')
            .rev()
            .nth(1)
            .and_then(|ms| ms.parse::<f64>().ok());
        ms.unwrap_or_else(|| panic!("{line}"))
    };
    let plain = first("latency=calibrated");
    let slowed = first("latency={calibrated: {step_overhead: 5 ms}}");
    // DistServe pays 2 ms unless told otherwise.
    assert!((slowed - plain - 3.0).abs() < 0.002, "{plain} {slowed}");
}

/// Column `unmeasured_share` of `summary.csv` in the rows of seed 1, by system.
fn unmeasured(scratch: &Scratch, flags: &[&str]) -> (Vec<String>, String) {
    let mut args = vec!["run", "s.yaml", "--no-charts"];
    args.extend(flags);
    let ran = scratch.pdsim(&args);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = scratch.read("output/small/summary.csv");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let column = |name| header.iter().position(|h| *h == name).expect("a column");
    let (share, seed) = (column("unmeasured_share"), column("seed"));
    let rows = lines.filter(|row| row[seed] == "1");
    (rows.map(|row| row[share].to_owned()).collect(), ran.err)
}

#[test]
fn a_run_says_which_share_of_its_kernel_time_nobody_measured() {
    let scratch = Scratch::new();
    let h100 = [
        "--set",
        "model=llama-3.1-8b",
        "--set",
        "systems.colocated.pool.gpu=h100-sxm",
    ];
    let number = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{text}"));
    let short = [&h100[..], &["--set", "latency=calibrated"]].concat();
    let (shares, told) = unmeasured(&scratch, &short);
    assert!(shares.iter().all(|s| number(s) < 0.1), "{shares:?}");
    assert!(!told.contains("outside measured ranges"), "{told}");

    // Chunks behind tens of thousands of tokens: attention behind past context was not timed.
    let long = [
        "--set",
        "workload.lengths={fixed: {input: 60000, output: 40}}",
        "--set",
        "workload.rate=0.1 /s",
        "--set",
        "systems.colocated={policy: chunked, pool: {instances: 2, gpu: h100-sxm}, chunk_budget: 2048}",
    ];
    let long = [&short[..], &long].concat();
    let (shares, told) = unmeasured(&scratch, &long);
    let share = number(&shares[0]);
    assert!((0.2..0.9).contains(&share), "{shares:?}");
    let line = format!(
        "colocated, seed 1: {:.0} % of the kernel time lies outside measured ranges (estimated from mean steps)",
        100.0 * share
    );
    assert!(told.contains(&line), "{line} is not in {told}");
    assert!(told.contains("use a profile measured on such"), "{told}");
    let stepped = [&long[..], &["--no-fast-forward"]].concat();
    assert_eq!(unmeasured(&scratch, &stepped).0, shares);

    // Coefficients know no kernels; a data sheet measured nothing, which its step times say of themselves.
    assert_eq!(unmeasured(&scratch, &[]).0, ["", ""]);
    let (shares, told) = unmeasured(&scratch, &["--set", "latency=roofline"]);
    assert_eq!(shares, ["1.000000"; 2]);
    assert!(!told.contains("outside measured ranges"), "{told}");
}
