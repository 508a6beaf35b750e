//! Fits a workload to a trace: a process for its arrivals, a model for its lengths.
//!
//! The choice of process follows the index of dispersion over time: what a renewal process of the observed variation would
//! show in a minute against what the trace shows. Where the trace is far more uneven, its rate changes over time, and a
//! schedule of rates with Poisson arrivals inside is fitted instead.

use std::fmt;
use std::path::Path;

use crate::units::{PS_PER_S, SimDuration};
use crate::workload::arrivals::{ArrivalProcess, Gaps, Intensity, Segment};
use crate::workload::error::WorkloadError;
use crate::workload::lengths::{self, Fit, FitShape, LengthModel};
use crate::workload::stats::{TraceStats, trace_stats};
use crate::workload::trace::{ReadOptions, TraceError, read_trace};

/// Segments of a fitted schedule, at most.
const SEGMENTS: usize = 48;

/// Pairs of lengths used for a fit, at most; more add nothing to percentiles.
const PAIRS: usize = 500_000;

/// How near a Kolmogorov–Smirnov distance must be for a named distribution to be suggested in place of a fit.
const NAMED_WITHIN: f64 = 0.03;

/// What was fitted, and how well.
#[derive(Debug, Clone)]
pub struct FittedWorkload {
    /// Statistics of the trace.
    pub stats: TraceStats,
    /// The process of its arrivals.
    pub arrivals: ArrivalProcess,
    /// Why that process, in a sentence.
    pub why: String,
    /// The model of its lengths, with its written form.
    pub lengths: Fit,
    /// The nearest named distribution, with its larger distance of the two margins.
    pub nearest: (&'static str, f64),
}

/// Why no workload could be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The trace could not be read.
    #[error(transparent)]
    Read(#[from] TraceError),
    /// The trace is too short, or has no rate.
    #[error("{0}")]
    Value(#[from] WorkloadError),
}

/// Fits a workload to the trace at `path`.
///
/// # Errors
/// When the trace cannot be read, has fewer than 20 requests, or all of them arrive at once.
pub fn fit_trace(path: &Path, options: &ReadOptions) -> Result<FittedWorkload, FitError> {
    let stats = trace_stats(path, options)?;
    let n = stats.report.kept;
    let rate = stats.rate.filter(|_| n >= 20).ok_or_else(|| {
        let allowed = "at least 20 requests that do not all arrive at once";
        WorkloadError::new("trace", format!("{n} requests"), allowed)
    })?;
    let (arrivals, why) = process(&stats, rate);
    let pairs: Vec<(u32, u32)> = every(n, read_trace(path, options)?.stream())
        .map(|request| (request.input_tokens, request.output_tokens))
        .collect();
    // Bands of at least 50 requests, so that their percentiles mean something.
    let bands = FitShape::default().bands.min(pairs.len() / 50).max(1);
    let lengths = lengths::fit(&pairs, FitShape { bands })?;
    Ok(FittedWorkload {
        nearest: nearest(&pairs),
        stats,
        arrivals,
        why,
        lengths,
    })
}

/// Every k-th item, so that at most [`PAIRS`] of `n` are left.
fn every<T>(n: u64, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let step = usize::try_from(n)
        .unwrap_or(usize::MAX)
        .div_ceil(PAIRS)
        .max(1);
    items.step_by(step)
}

/// Chooses the process.
fn process(stats: &TraceStats, rate: f64) -> (ArrivalProcess, String) {
    let cv = stats.gap_cv.unwrap_or(1.0);
    let uneven = stats
        .dispersion
        .iter()
        .rev()
        .find_map(|(window, index)| index.map(|index| (*window, index)));
    if let Some((window, index)) = uneven
        && index > 3.0 * cv.max(1.0).powi(2)
    {
        let why = format!(
            "arrivals in {window} s are {index:.1} times as uneven as a Poisson process (gaps of variation {cv:.2} explain {:.1}): the rate changes over time",
            cv.max(1.0).powi(2)
        );
        return (schedule(stats, rate), why);
    }
    if (cv - 1.0).abs() <= 0.1 {
        let why = format!("gaps of variation {cv:.2}, near the 1 of a Poisson process");
        return (ArrivalProcess::Poisson { rate }, why);
    }
    if cv < 0.02 {
        return (
            ArrivalProcess::Constant { rate },
            "all gaps are about equal".to_owned(),
        );
    }
    let why = format!("gaps of variation {cv:.2}");
    (ArrivalProcess::Gamma { rate, cv }, why)
}

/// The trace's own rates in equal segments, Poisson inside.
fn schedule(stats: &TraceStats, rate: f64) -> ArrivalProcess {
    let coarse = stats.timeline.at_most(SEGMENTS);
    let span_ps = stats.report.span.as_ps();
    let width_ps = coarse.width().as_ps();
    let segments = (0_u64..)
        .zip(coarse.bins())
        .filter_map(|(i, (arrivals, _, _))| {
            let span_ps = width_ps.min(span_ps.saturating_sub(i * width_ps));
            let span = SimDuration::from_ps(span_ps);
            // A last sliver of a bin has too few arrivals for a rate.
            (span_ps > PS_PER_S).then(|| Segment {
                span,
                rate: (*arrivals as f64 / span.as_secs_f64() * 1e4).round() / 1e4,
            })
        });
    ArrivalProcess::Modulated {
        rate,
        gaps: Gaps::Exponential,
        intensity: Intensity::Schedule {
            segments: segments.collect(),
            repeat: true,
        },
    }
}

/// The named distribution whose margins are nearest to those of `pairs`.
fn nearest(pairs: &[(u32, u32)]) -> (&'static str, f64) {
    let mut inputs: Vec<u32> = pairs.iter().map(|pair| pair.0).collect();
    let mut outputs: Vec<u32> = pairs.iter().map(|pair| pair.1).collect();
    inputs.sort_unstable();
    outputs.sort_unstable();
    let distance = |model: &LengthModel| {
        let mut rng = crate::rng::stream(1, "nearest lengths");
        let drawn: Vec<(u32, u32)> = (0..20_000).map(|_| model.draw(&mut rng)).collect();
        let margin = |pick: fn(&(u32, u32)) -> u32, sorted: &[u32]| {
            let mut drawn: Vec<u32> = drawn.iter().map(pick).collect();
            drawn.sort_unstable();
            distance(&drawn, sorted)
        };
        margin(|pair| pair.0, &inputs).max(margin(|pair| pair.1, &outputs))
    };
    lengths::names()
        .filter_map(|name| Some((name, distance(&lengths::named(name).ok()?.lengths))))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or(("none", 1.0))
}

/// The Kolmogorov–Smirnov distance of two sorted samples.
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let share =
        |sorted: &[u32], x: u32| sorted.partition_point(|y| *y <= x) as f64 / sorted.len() as f64;
    let gap = |x: &u32| (share(a, *x) - share(b, *x)).abs();
    a.iter().chain(b).map(gap).fold(0.0, f64::max)
}

impl fmt::Display for FittedWorkload {
    /// Writes a `workload:` section to paste into a scenario.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.stats.report;
        writeln!(
            f,
            "# fitted to {}: {} requests over {:.0} s",
            report.path.display(),
            report.kept,
            report.span.as_secs_f64()
        )?;
        writeln!(f, "workload:")?;
        writeln!(f, "  # {}", self.why)?;
        match &self.arrivals {
            ArrivalProcess::Constant { .. } => writeln!(f, "  arrivals: constant")?,
            ArrivalProcess::Gamma { cv, .. } => {
                writeln!(f, "  arrivals: {{gamma: {{cv: {cv:.3}}}}}")?;
            }
            ArrivalProcess::Modulated {
                intensity: Intensity::Schedule { segments, .. },
                ..
            } => {
                writeln!(f, "  arrivals:\n    schedule:")?;
                for segment in segments.iter() {
                    writeln!(
                        f,
                        "      - {{for: {} s, rate: {} /s}}",
                        segment.span.as_secs_f64(),
                        segment.rate
                    )?;
                }
            }
            _ => writeln!(f, "  arrivals: poisson")?,
        }
        writeln!(f, "  rate: {:.4} /s", self.arrivals.rate())?;
        writeln!(f, "  requests: {}", report.kept)?;
        let (name, distance) = self.nearest;
        if distance <= NAMED_WITHIN {
            writeln!(
                f,
                "  # both margins within a Kolmogorov-Smirnov distance of {distance:.3}"
            )?;
            return writeln!(f, "  lengths: {name}");
        }
        writeln!(
            f,
            "  # the nearest named distribution, {name}, is {distance:.2} away"
        )?;
        for line in self.lengths.yaml.lines() {
            writeln!(f, "  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;
    use crate::workload::trace::{Format, write_workload};
    use crate::workload::{Generated, lengths::named};

    fn fitted(arrivals: ArrivalProcess, lengths: &str, requests: u64) -> FittedWorkload {
        let workload = Workload::generated(Generated {
            arrivals,
            lengths: named(lengths).unwrap().lengths,
            requests: Some(requests),
            duration: None,
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        let mut file = std::fs::File::create(&path).unwrap();
        write_workload(&workload.unwrap(), 3, Format::PdsimCsv, &mut file).unwrap();
        fit_trace(&path, &ReadOptions::default()).unwrap()
    }

    #[test]
    fn a_process_is_found_again() {
        let poisson = fitted(
            ArrivalProcess::Poisson { rate: 5.0 },
            "azure-conv-2023",
            20_000,
        );
        assert!(
            matches!(poisson.arrivals, ArrivalProcess::Poisson { rate } if (rate - 5.0).abs() < 0.2)
        );
        let bursty = fitted(
            ArrivalProcess::Gamma { rate: 5.0, cv: 2.5 },
            "azure-conv-2023",
            20_000,
        );
        assert!(
            matches!(bursty.arrivals, ArrivalProcess::Gamma { cv, .. } if (cv - 2.5).abs() < 0.3)
        );
        let even = fitted(
            ArrivalProcess::Constant { rate: 5.0 },
            "azure-conv-2023",
            20_000,
        );
        assert!(matches!(even.arrivals, ArrivalProcess::Constant { .. }));
        let (on, off) = (SimDuration::from_ms(120_000), SimDuration::from_ms(300_000));
        let uneven = ArrivalProcess::Modulated {
            rate: 5.0,
            gaps: Gaps::Exponential,
            intensity: Intensity::on_off(on, off, 0.2),
        };
        let changing = fitted(uneven, "azure-conv-2023", 20_000);
        assert!(
            matches!(changing.arrivals, ArrivalProcess::Modulated { .. }),
            "{}",
            changing.why
        );
    }

    #[test]
    fn a_named_distribution_is_recognised_and_written_by_name() {
        let fitted = fitted(
            ArrivalProcess::Poisson { rate: 5.0 },
            "mooncake-synthetic",
            20_000,
        );
        assert_eq!(fitted.nearest.0, "mooncake-synthetic");
        let text = fitted.to_string();
        assert!(
            text.contains("\n  lengths: mooncake-synthetic\n")
                && text.contains("\n  arrivals: poisson\n"),
            "{text}"
        );
    }
}
