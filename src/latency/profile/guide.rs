//! What a surface with few samples is expected to look like.
//!
//! Where samples are sparse, smoothness decides. With a guide it is the ratio to the guide that is smooth, not the time
//! itself, so that the switches of kernels and the growth of work are where a better known surface has them, and samples
//! only say how far off they are.

use super::check::predict;
use super::samples::Sample;
use super::section::Surface;
use super::shapes::SurfaceKind;
use super::solver::AxisRule;
use crate::hardware::GpuSpec;

/// Elements of a head that most kernels were timed with.
const USUAL_HEAD: u32 = 128;

/// The kind that guides another: decode attention over the usual heads, that over others.
pub(super) fn guiding(kind: SurfaceKind) -> Option<SurfaceKind> {
    match kind {
        SurfaceKind::DecodeAttention(kv, head) if head != USUAL_HEAD => {
            Some(SurfaceKind::DecodeAttention(kv, USUAL_HEAD))
        }
        _ => None,
    }
}

/// Whether surfaces of a kind are tried with a guide, without, or both.
///
/// A line helps where few samples span a switch of algorithms and misleads where the time bends off it, so collectives
/// are tried both ways. Other kinds have one way each.
pub(super) fn tried(kind: SurfaceKind) -> &'static [bool] {
    match kind {
        SurfaceKind::Collective(_) => &[true, false],
        _ => &[true],
    }
}

/// A guide.
#[derive(Debug)]
pub(super) enum Guide<'a> {
    /// Another surface, where as many bytes are read.
    Surface(&'a Surface),
    /// A line.
    Line(Line),
}

impl<'a> Guide<'a> {
    /// The guide of a surface of a kind that is fitted to `used`; `other` is the surface of the kind that guides it.
    pub(super) fn of(
        kind: SurfaceKind,
        used: &[&Sample],
        other: Option<&'a Surface>,
        gpu: &GpuSpec,
    ) -> Option<Self> {
        match kind {
            SurfaceKind::Collective(_) => Line::through(used, gpu).map(Self::Line),
            _ => other.map(Self::Surface),
        }
    }

    /// ln(seconds) it expects at a point of a surface of `kind`.
    pub(super) fn ln_seconds(&self, kind: SurfaceKind, point: &[f64], gpu: &GpuSpec) -> f64 {
        match self {
            Self::Surface(surface) => {
                let mut point = point.to_vec();
                if let (
                    SurfaceKind::DecodeAttention(_, from),
                    SurfaceKind::DecodeAttention(_, to),
                ) = (kind, surface.kind)
                {
                    point[1] *= f64::from(from) / f64::from(to);
                }
                predict(surface, &point, gpu).seconds.ln()
            }
            Self::Line(line) => line.seconds(point[0]).ln(),
        }
    }
}

/// The ratio of two surfaces bends less than either.
const RATIO_SMOOTH: f64 = 1e-2;

/// That of a surface to a line less than the surface, along the line.
const LINE_SMOOTH: f64 = 5e-3;

impl Guide<'_> {
    /// The rules for a surface that follows this guide.
    pub(super) fn smoothed(&self, mut rules: Vec<AxisRule>) -> Vec<AxisRule> {
        let (axes, smooth) = match self {
            Self::Surface(_) => (rules.len(), RATIO_SMOOTH),
            Self::Line(_) => (1, LINE_SMOOTH),
        };
        for rule in rules.iter_mut().take(axes) {
            rule.smooth = rule.smooth.max(smooth);
        }
        rules
    }
}

/// A fixed time and a time per byte.
#[derive(Debug)]
pub(super) struct Line {
    fixed: f64,
    per_byte: f64,
}

/// Shares of the samples that may be as fast as the fixed time.
const FASTEST: [f64; 6] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.3];

/// Candidates for the time per byte.
const RATES: u32 = 40;

impl Line {
    /// The line with the smallest sum of |ln(line / sample)|, of candidates: a fixed time that is one of the shortest, and
    /// bytes at 1/40 to twice the bandwidth of the links.
    fn through(samples: &[&Sample], gpu: &GpuSpec) -> Option<Self> {
        let mut times: Vec<f64> = samples.iter().map(|s| s.seconds).collect();
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let miss = |line: &Self| -> f64 {
            let ratio = |s: &&Sample| (line.seconds(s.point[0]) / s.seconds).ln().abs();
            samples.iter().map(ratio).sum()
        };
        let mut best: Option<(f64, Self)> = None;
        for share in FASTEST {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of an index is an index"
            )]
            let fixed = times[(share * last as f64) as usize];
            for rate in 0..=RATES {
                let slowness = 0.5 * 80f64.powf(f64::from(rate) / f64::from(RATES));
                let line = Self {
                    fixed,
                    per_byte: slowness / gpu.intra_node_bandwidth(),
                };
                let miss = miss(&line);
                if best.as_ref().is_none_or(|(least, _)| miss < *least) {
                    best = Some((miss, line));
                }
            }
        }
        best.map(|(_, line)| line)
    }

    fn seconds(&self, bytes: f64) -> f64 {
        self.fixed + self.per_byte * bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::gpu;
    use crate::latency::kernels::CollectiveKind;

    #[test]
    fn a_line_finds_the_fixed_time_and_the_rate() {
        let gpu = gpu("h100-sxm").unwrap();
        let rate = gpu.intra_node_bandwidth() / 2.0;
        let samples: Vec<Sample> = (8..30)
            .map(|i| {
                let bytes = 2f64.powi(i);
                Sample {
                    kind: SurfaceKind::Collective(CollectiveKind::AllReduce),
                    point: vec![bytes, 2.0],
                    site: String::new(),
                    seconds: 1e-5 + bytes / rate,
                }
            })
            .collect();
        let line = Line::through(&samples.iter().collect::<Vec<_>>(), &gpu).unwrap();
        for s in &samples {
            let ratio = line.seconds(s.point[0]) / s.seconds;
            assert!((0.93..1.07).contains(&ratio), "{ratio}");
        }
    }
}
