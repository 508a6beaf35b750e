//! Tests of the statistics.

use std::fmt::Write as _;

use super::*;
use crate::units::SimTime;
use crate::workload::{ArrivalProcess, Generated, Workload, lengths};

fn stats(text: &str) -> TraceStats {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    trace_stats(&path, &ReadOptions::default()).unwrap()
}

fn generated(arrivals: ArrivalProcess, n: u64) -> TraceStats {
    let workload = Workload::generated(Generated {
        arrivals,
        lengths: lengths::named("azure-conv-2023").unwrap().lengths,
        requests: Some(n),
        duration: None,
    });
    let mut text = "arrival_s,input_tokens,output_tokens\n".to_owned();
    for r in workload.unwrap().stream(5) {
        let at = (r.arrival - SimTime::ZERO).as_secs_f64();
        writeln!(text, "{at:.9},{},{}", r.input_tokens, r.output_tokens).unwrap();
    }
    stats(&text)
}

#[test]
fn lengths_have_exact_percentiles() {
    let rows: String = (1..=101)
        .map(|i| format!("{i},{i},{}\n", 300_000 + i))
        .collect();
    let stats = stats(&format!("arrival_s,input_tokens,output_tokens\n{rows}"));
    assert_eq!(
        (stats.input.min, stats.input.max, stats.input.n),
        (1, 101, 101)
    );
    assert!((stats.input.mean - 51.0).abs() < 1e-12);
    assert_eq!(
        stats.input.percentiles.map(|(_, v)| v.to_string()),
        ["11", "26", "51", "76", "91", "96", "100"]
    );
    // Lengths beyond the dense counter are exact too.
    assert_eq!((stats.output.min, stats.output.max), (300_001, 300_101));
    assert_eq!(stats.output.percentiles[2].1.to_string(), "300051");
}

#[test]
fn percentiles_interpolate() {
    let stats = stats("arrival_s,input_tokens,output_tokens\n0,10,1\n1,20,1\n");
    assert_eq!(stats.input.percentiles[2].1.to_string(), "15");
    assert_eq!(stats.input.percentiles[0].1.to_string(), "11");
}

#[test]
fn a_poisson_trace_has_variation_and_dispersion_of_one() {
    let stats = generated(ArrivalProcess::Poisson { rate: 20.0 }, 40_000);
    assert!((stats.rate.unwrap() - 20.0).abs() < 0.5, "{:?}", stats.rate);
    assert!(
        (stats.gap_cv.unwrap() - 1.0).abs() < 0.03,
        "{:?}",
        stats.gap_cv
    );
    for (window, index) in stats.dispersion {
        // 2000 s: five standard errors of a variance over that many windows.
        let bound = 5.0 * (2.0 * window / 2000.0_f64).sqrt();
        assert!(
            (index.unwrap() - 1.0).abs() < bound,
            "{window} s: {index:?}"
        );
    }
    let median = stats.gaps.quantile(0.5).unwrap();
    assert!(
        (median * 20.0 / std::f64::consts::LN_2 - 1.0).abs() < 0.05,
        "{median}"
    );
    assert_eq!(stats.pairs.len(), PAIRS);
}

#[test]
fn a_bursty_trace_has_its_variation() {
    let stats = generated(
        ArrivalProcess::Gamma {
            rate: 20.0,
            cv: 3.0,
        },
        40_000,
    );
    assert!(
        (stats.gap_cv.unwrap() - 3.0).abs() < 0.25,
        "{:?}",
        stats.gap_cv
    );
    // A renewal process of variation c has an index of dispersion of c² in long windows.
    let (_, index) = stats.dispersion[2];
    assert!((4.0..18.0).contains(&index.unwrap()), "{index:?}");
}

#[test]
fn a_timeline_keeps_every_arrival_as_it_widens() {
    let rows: String = (0..30_000).map(|i| format!("{},2,3\n", i * 7)).collect();
    let stats = stats(&format!("arrival_s,input_tokens,output_tokens\n{rows}"));
    let sum = stats
        .timeline
        .bins()
        .iter()
        .fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    assert_eq!(sum, (30_000, 60_000, 90_000));
    assert!(stats.timeline.bins().len() <= 4096);
    let coarse = stats.timeline.at_most(100);
    assert!(coarse.bins().len() <= 100);
    let (requests, input, output) = stats.timeline.peak_minute();
    assert!(
        (requests * 7.0 - 1.0).abs() < 0.2
            && (input / requests - 2.0).abs() < 0.1
            && output > input
    );
}

#[test]
fn the_sharing_bound_counts_leading_runs_and_leaves_a_token() {
    let mut cache = sharing::Cache::default();
    cache.add(1024, &[1, 2], 512);
    // A known block behind an unknown one does not count.
    cache.add(1024, &[9, 2], 512);
    // The whole prompt is known: one token is left to compute.
    cache.add(1024, &[1, 2], 512);
    let sharing = cache.finish().unwrap();
    assert!((sharing.tokens - 1023.0 / 3072.0).abs() < 1e-12);
    assert!((sharing.requests - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!((sharing.blocks, sharing.stopped), (3, false));
}
