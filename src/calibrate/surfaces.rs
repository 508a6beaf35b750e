//! Achieved rates along one axis, for charts.

use std::collections::BTreeMap;

use super::samples::Sample;
use super::work::{CopyKind, GemmDtype, Work};

/// Curves of one chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// File name without ending.
    pub file: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Axis along, with unit.
    pub x_name: &'static str,
    /// Axis up, with unit.
    pub y_name: &'static str,
    /// Name and ascending points.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Rate of the streaming read in GB/s, where it bounds the curves.
    pub ceiling: Option<f64>,
}

/// Most curves of a chart.
const MOST: usize = 6;

/// The charts that the samples have points for.
#[must_use]
pub fn charts(samples: &[Sample]) -> Vec<Chart> {
    let all = [
        products(samples, GemmDtype::Bf16),
        products(samples, GemmDtype::Fp8),
        kv_read(samples),
        prefill(samples),
    ];
    all.into_iter().filter(|c| !c.curves.is_empty()).collect()
}

fn products(samples: &[Sample], dtype: GemmDtype) -> Chart {
    let (file, title) = if dtype == GemmDtype::Fp8 {
        (
            "gemm_fp8",
            "Matrix products, fp8: achieved rate against rows",
        )
    } else {
        (
            "gemm_bf16",
            "Matrix products, bf16: achieved rate against rows",
        )
    };
    Chart {
        file,
        title,
        x_name: "rows m (tokens)",
        y_name: "achieved TFLOP/s",
        curves: curves(samples, |s| match s.work {
            Work::Gemm(g) if g.dtype == dtype => Some((
                (
                    u64::from(g.n) * u64::from(g.k),
                    format!("{} × {}", g.n, g.k),
                ),
                (f64::from(g.m), s.work.flops() / s.measured.seconds / 1e12),
            )),
            _ => None,
        }),
        ceiling: None,
    }
}

fn kv_read(samples: &[Sample]) -> Chart {
    let ceiling = samples.iter().filter_map(|s| match s.work {
        Work::Copy(c) if c.kind == CopyKind::StreamRead => {
            Some(s.work.bytes() / s.measured.seconds / 1e9)
        }
        _ => None,
    });
    Chart {
        file: "kv_read",
        title: "Decode attention: achieved bandwidth against KV read",
        x_name: "KV cache read by a layer (MB)",
        y_name: "achieved GB/s",
        curves: curves(samples, |s| match s.work {
            Work::Decode(d) => Some((
                (
                    u64::from(d.kv_heads) * u64::from(d.head_dim),
                    format!(
                        "{} {}/{} × {}",
                        d.kv_dtype.name(),
                        d.heads,
                        d.kv_heads,
                        d.head_dim
                    ),
                ),
                (
                    s.work.bytes() / 1e6,
                    s.work.bytes() / s.measured.seconds / 1e9,
                ),
            )),
            _ => None,
        }),
        ceiling: ceiling.max_by(f64::total_cmp),
    }
}

fn prefill(samples: &[Sample]) -> Chart {
    Chart {
        file: "prefill_attention",
        title: "Prefill attention, one whole prompt: achieved rate against its length",
        x_name: "prompt tokens",
        y_name: "achieved TFLOP/s",
        curves: curves(samples, |s| match s.work {
            Work::Prefill(p) if p.batch == 1 && p.past_tokens == 0 => Some((
                (
                    u64::from(p.heads) * u64::from(p.head_dim),
                    format!("{}/{} × {}", p.heads, p.kv_heads, p.head_dim),
                ),
                (
                    f64::from(p.new_tokens),
                    s.work.flops() / s.measured.seconds / 1e12,
                ),
            )),
            _ => None,
        }),
        ceiling: None,
    }
}

/// Gathers points by curve (its size and name); of many curves those with most points, small sizes first. Points of one
/// place on the axis become the best of them.
fn curves(
    samples: &[Sample],
    point: impl Fn(&Sample) -> Option<((u64, String), (f64, f64))>,
) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut by_name: BTreeMap<(u64, String), BTreeMap<u64, f64>> = BTreeMap::new();
    for ((size, name), (x, y)) in samples.iter().filter_map(point) {
        // Positive floats are in the order of their bits.
        let best = by_name
            .entry((size, name))
            .or_default()
            .entry(x.to_bits())
            .or_insert(y);
        *best = best.max(y);
    }
    let mut all: Vec<_> = by_name
        .into_iter()
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let mut lengths: Vec<usize> = all.iter().map(|(_, points)| points.len()).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let least = lengths.get(MOST - 1).copied().unwrap_or(0);
    all.retain(|(_, points)| points.len() >= least);
    // Equally long ones are thinned evenly over the sizes.
    let count = all.len();
    let kept = (0..MOST.min(count)).map(|i| i * count / MOST.min(count));
    kept.map(|i| {
        let ((_, name), points) = &all[i];
        let points = points
            .iter()
            .map(|(x, y)| (f64::from_bits(*x), *y))
            .collect();
        (name.clone(), points)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fake::Fake;
    use crate::calibrate::plan::{Options, plan};
    use crate::calibrate::{Device, Measured};
    use crate::model;

    #[test]
    fn charts_hold_few_ascending_curves_below_the_fake_devices_rates() {
        let fake = Fake::new();
        let models: Vec<_> = model::model_names()
            .map(|n| model::model(n).unwrap())
            .collect();
        let options = Options {
            quick: true,
            dtypes: Vec::new(),
        };
        let samples: Vec<Sample> = plan(fake.facts(), &models, &options)
            .into_iter()
            .map(|work| Sample {
                work,
                kernel: "pdsim".to_owned(),
                measured: Measured {
                    seconds: fake.seconds(&work),
                    spread: 0.0,
                    trials: 5,
                    stable: true,
                },
            })
            .collect();
        let charts = charts(&samples);
        assert_eq!(charts.len(), 4);
        for chart in &charts {
            assert!((1..=MOST).contains(&chart.curves.len()), "{}", chart.file);
            for (name, points) in &chart.curves {
                assert!(
                    points.windows(2).all(|w| w[0].0 < w[1].0),
                    "{} {name}",
                    chart.file
                );
            }
        }
        let top = |file: &str| {
            let chart = charts.iter().find(|c| c.file == file).unwrap();
            chart
                .curves
                .iter()
                .flat_map(|c| &c.1)
                .map(|p| p.1)
                .fold(0.0, f64::max)
        };
        assert!(top("gemm_bf16") > 650.0 && top("gemm_bf16") < 700.0);
        assert!(top("kv_read") > 3700.0 && top("kv_read") < 3900.0);
    }
}
