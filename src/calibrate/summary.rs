//! What a calibration found, in a few lines.

use super::samples::Sample;
use super::work::{CopyKind, GemmDtype, LaunchKind, Work};

/// One line of the closing table.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What was reached.
    pub what: String,
    /// How much, with its unit.
    pub reached: String,
    /// At which shape.
    pub at: String,
    /// Held against what, where there is a measured ceiling.
    pub share: Option<String>,
}

/// The best of the samples that `rate` gives a rate for.
fn best(samples: &[Sample], rate: impl Fn(&Sample) -> Option<f64>) -> Option<(f64, &Sample)> {
    samples
        .iter()
        .filter_map(|s| rate(s).map(|r| (r, s)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

fn bytes_per_second(s: &Sample) -> f64 {
    s.work.bytes() / s.measured.seconds
}

fn flops_per_second(s: &Sample) -> f64 {
    s.work.flops() / s.measured.seconds
}

fn line(what: &str, best: Option<(f64, &Sample)>, unit: (f64, &str)) -> Option<Line> {
    let (rate, sample) = best?;
    Some(Line {
        what: what.to_owned(),
        reached: format!("{:.1} {}", rate / unit.0, unit.1),
        at: shape(&sample.work),
        share: None,
    })
}

fn shape(work: &Work) -> String {
    match *work {
        Work::Gemm(g) => format!("{} × {} × {}", g.m, g.n, g.k),
        Work::Prefill(p) => format!(
            "{} × ({} new + {} past), {}/{} heads of {}",
            p.batch, p.new_tokens, p.past_tokens, p.heads, p.kv_heads, p.head_dim
        ),
        Work::Decode(d) => format!(
            "{} × {} tokens, {}/{} heads of {}",
            d.batch, d.context_tokens, d.heads, d.kv_heads, d.head_dim
        ),
        Work::Elementwise(e) => format!("{}, {} × {}", e.op.name(), e.rows, e.columns),
        Work::Launch(kind) => kind.name().to_owned(),
        Work::Copy(c) => format!("{} MiB", c.bytes >> 20),
        Work::Collective(c) => format!("{} GPUs, {} KiB", c.ranks, c.bytes >> 10),
    }
}

const TERA: (f64, &str) = (1e12, "TFLOP/s");
const GIGA: (f64, &str) = (1e9, "GB/s");

/// The best rates of a GPU, from samples alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peaks {
    /// Matrix products at 16 bits (or whatever does products best), in FLOP/s.
    pub bf16: f64,
    /// Matrix products at 8 bits, in FLOP/s.
    pub fp8: Option<f64>,
    /// Memory, in bytes per second.
    pub memory: f64,
    /// To and from the host, in bytes per second.
    pub host: Option<f64>,
    /// To another GPU, in bytes per second.
    pub peer: Option<f64>,
}

/// The best rate of each kind, for GPUs without a data sheet. No sample beats these, since every one is asked.
#[must_use]
pub fn peaks(samples: &[Sample]) -> Peaks {
    let most = |rate: &dyn Fn(&Sample) -> Option<f64>| best(samples, rate).map(|(r, _)| r);
    let fp8 = most(&|s| match s.work {
        Work::Gemm(g) if g.dtype == GemmDtype::Fp8 => Some(flops_per_second(s)),
        _ => None,
    });
    let wide = most(&|s| match s.work {
        Work::Gemm(g) if g.dtype == GemmDtype::Fp8 => None,
        Work::Gemm(_) | Work::Prefill(_) | Work::Decode(_) => Some(flops_per_second(s)),
        _ => None,
    });
    let memory = most(&|s| match s.work {
        Work::Copy(c) if !matches!(c.kind, CopyKind::Device | CopyKind::StreamRead) => None,
        Work::Collective(_) => None,
        _ => Some(bytes_per_second(s)),
    });
    let copy = |kinds: &[CopyKind]| {
        most(&|s| match s.work {
            Work::Copy(c) if kinds.contains(&c.kind) => Some(bytes_per_second(s)),
            _ => None,
        })
    };
    Peaks {
        bf16: wide.or(fp8).unwrap_or(1e12),
        fp8,
        memory: memory.unwrap_or(1e11),
        host: copy(&[CopyKind::HostToDevice, CopyKind::DeviceToHost]),
        peer: copy(&[CopyKind::Peer]),
    }
}

/// The closing table: peaks and bandwidths reached, launch costs.
#[must_use]
pub fn summary(samples: &[Sample]) -> Vec<Line> {
    let mut lines = Vec::new();
    for dtype in ["bf16", "fp16", "fp8"] {
        let of = |s: &Sample| match s.work {
            Work::Gemm(g) if g.dtype.name() == dtype => Some(flops_per_second(s)),
            _ => None,
        };
        let found = best(samples, of);
        let by = found.map_or("", |(_, s)| s.kernel.as_str());
        lines.extend(line(&format!("matrix product {dtype} ({by})"), found, TERA));
    }
    let copy = |kind| {
        best(samples, move |s| match s.work {
            Work::Copy(c) if c.kind == kind => Some(bytes_per_second(s)),
            _ => None,
        })
    };
    let ceiling = copy(CopyKind::StreamRead);
    lines.extend(line("streaming read", ceiling, GIGA));
    for dtype in ["bf16", "fp8"] {
        let of = |s: &Sample| match s.work {
            Work::Decode(d) if d.kv_dtype.name() == dtype => Some(bytes_per_second(s)),
            _ => None,
        };
        let found = best(samples, of);
        let mut row = line(&format!("KV read {dtype}"), found, GIGA);
        if let (Some(row), Some((rate, _)), Some((top, _))) = (&mut row, found, ceiling) {
            row.share = Some(format!("{:.0} % of the streaming read", 100.0 * rate / top));
        }
        lines.extend(row);
    }
    let prefill = best(samples, |s| {
        matches!(s.work, Work::Prefill(_)).then(|| flops_per_second(s))
    });
    lines.extend(line("prefill attention", prefill, TERA));
    lines.extend(line(
        "device copy (read + write)",
        copy(CopyKind::Device),
        GIGA,
    ));
    lines.extend(line("host to device", copy(CopyKind::HostToDevice), GIGA));
    lines.extend(line("device to host", copy(CopyKind::DeviceToHost), GIGA));
    lines.extend(line("GPU to GPU", copy(CopyKind::Peer), GIGA));
    let reduce = best(samples, |s| {
        matches!(s.work, Work::Collective(_)).then(|| bytes_per_second(s))
    });
    lines.extend(line("all-reduce (message per time)", reduce, GIGA));
    lines.extend(launches(samples));
    lines
}

fn launches(samples: &[Sample]) -> impl Iterator<Item = Line> + '_ {
    samples.iter().filter_map(|s| {
        let Work::Launch(kind) = s.work else {
            return None;
        };
        let what = match kind {
            LaunchKind::Kernel => "kernel launch",
            LaunchKind::Graph => "graph launch",
            LaunchKind::GraphNode => "kernel inside a graph",
        };
        Some(Line {
            what: what.to_owned(),
            reached: format!("{:.2} µs", s.measured.seconds * 1e6),
            at: String::new(),
            share: None,
        })
    })
}
