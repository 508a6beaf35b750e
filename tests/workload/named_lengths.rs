//! The named length distributions against the traces they model.
//!
//! With `PDSIM_BLESS=1` the fitted files are written anew from the traces instead of being checked.

use std::path::Path;

use pdsim::rng::stream;
use pdsim::workload::lengths::{self, FitShape};
use pdsim::workload::{ReadOptions, read_trace};

const BANDS: usize = 12;

fn pairs(file: &str) -> Option<Vec<(u32, u32)>> {
    let path = super::traces()?.join(file);
    let trace = read_trace(&path, &ReadOptions::default()).unwrap();
    Some(
        trace
            .stream()
            .map(|request| (request.input_tokens, request.output_tokens))
            .collect(),
    )
}

/// The Kolmogorov–Smirnov distance of two samples.
fn ks(mut a: Vec<u32>, mut b: Vec<u32>) -> f64 {
    a.sort_unstable();
    b.sort_unstable();
    let share =
        |sorted: &[u32], x: u32| sorted.partition_point(|y| *y <= x) as f64 / sorted.len() as f64;
    let distance = |x: &u32| (share(&a, *x) - share(&b, *x)).abs();
    a.iter().chain(&b).map(distance).fold(0.0, f64::max)
}

/// Spearman's rank correlation, ties at their mean rank.
fn rank_correlation(pairs: &[(u32, u32)]) -> f64 {
    let ranks = |values: Vec<u32>| -> Vec<f64> {
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let rank = |x: u32| {
            let (low, high) = (
                sorted.partition_point(|y| *y < x),
                sorted.partition_point(|y| *y <= x),
            );
            (low + high) as f64 / 2.0 / sorted.len() as f64 - 0.5
        };
        values.into_iter().map(rank).collect()
    };
    let x = ranks(pairs.iter().map(|pair| pair.0).collect());
    let y = ranks(pairs.iter().map(|pair| pair.1).collect());
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(&x, &y) / (dot(&x, &x) * dot(&y, &y)).sqrt()
}

fn mean(values: impl Iterator<Item = u32> + Clone) -> f64 {
    values.clone().map(f64::from).sum::<f64>() / values.count() as f64
}

fn check(name: &str, file: &str) {
    let Some(recorded) = pairs(file) else { return };
    if std::env::var_os("PDSIM_BLESS").is_some() {
        return bless(name, &recorded);
    }
    let model = lengths::named(name).unwrap().lengths;
    let mut rng = stream(1, "lengths");
    let drawn: Vec<(u32, u32)> = (0..200_000).map(|_| model.draw(&mut rng)).collect();
    for (side, pick) in [
        ("prompt", (|p| p.0) as fn(&(u32, u32)) -> u32),
        ("output", |p| p.1),
    ] {
        let distance = ks(
            recorded.iter().map(pick).collect(),
            drawn.iter().map(pick).collect(),
        );
        let ratio = mean(drawn.iter().map(pick)) / mean(recorded.iter().map(pick));
        eprintln!("{name}: {side} KS {distance:.4}, mean {ratio:.4} of the recorded");
        assert!(distance <= 0.03, "{name}: {side} KS distance {distance}");
        assert!(
            (ratio - 1.0).abs() < 0.02,
            "{name}: {side} mean is {ratio} of the recorded"
        );
    }
    let (seen, wanted) = (rank_correlation(&drawn), rank_correlation(&recorded));
    eprintln!("{name}: rank correlation {seen:.3}, recorded {wanted:.3}");
    assert!(
        (seen - wanted).abs() <= 0.05,
        "{name}: rank correlation {seen} instead of {wanted}"
    );
}

/// Replaces the model in the distribution's file by a new fit.
fn bless(name: &str, recorded: &[(u32, u32)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("traces/lengths/{name}.yaml"));
    let old = std::fs::read_to_string(&path).unwrap();
    let head = old.split("lengths:\n").next().unwrap();
    let fit = lengths::fit(recorded, FitShape { bands: BANDS }).unwrap();
    std::fs::write(&path, format!("{head}{}", fit.yaml)).unwrap();
}

#[test]
fn azure_code_2023_matches_its_trace() {
    check("azure-code-2023", "azure/AzureLLMInferenceTrace_code.csv");
}

#[test]
fn azure_conv_2023_matches_its_trace() {
    check("azure-conv-2023", "azure/AzureLLMInferenceTrace_conv.csv");
}

#[test]
fn mooncake_conversation_matches_its_trace() {
    check("mooncake-conversation", "mooncake/conversation_trace.jsonl");
}

#[test]
fn mooncake_synthetic_matches_its_trace() {
    check("mooncake-synthetic", "mooncake/synthetic_trace.jsonl");
}
