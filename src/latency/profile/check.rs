//! Reads surfaces at a point and holds them against samples.

use super::coverage::Coverage;
use super::samples::Sample;
use super::section::{ErrorFigures, Surface, Surfaces};
use super::shapes::{SurfaceKind, roofline_seconds, routing_seconds};
use crate::hardware::GpuSpec;
use crate::latency::kernels::Timed;

/// The time a surface gives at a point: interpolated on the grid; beyond it the nearest point's, scaled by the growth
/// of the work; never below the roofline.
#[must_use]
pub fn predict(surface: &Surface, point: &[f64], gpu: &GpuSpec) -> Timed {
    let at = surface.layout.coordinates(point);
    let (clamped, inside) = surface.grid.clamp(&at);
    let on_grid = &clamped[..surface.grid.axes().len()];
    let (corners, used) = surface.grid.corners(on_grid);
    let seconds = surface.grid.between(&corners, used);
    let covered = |c: &Coverage| c.covers(&corners, used);
    let roofline = roofline_seconds(surface.kind, point, gpu);
    let routing = surface.routing_passes * routing_seconds(surface.kind, point, gpu);
    // Beyond the grid every coordinate scales the time as it could at most scale the roofline, so times stay above it
    // and never decrease. Below the grid the nearest point holds: less work is not measured to be faster.
    let growth: f64 = on_grid
        .iter()
        .zip(at)
        .enumerate()
        .map(|(axis, (edge, x))| (x / edge).max(1.0).powi(surface.layout.growth(axis)))
        .product();
    Timed {
        seconds: (seconds * growth).max(roofline) + routing,
        measured: inside && surface.coverage.as_ref().is_none_or(covered),
    }
}

/// The time a benchmark like that of the samples would report: [`predict`], and what its host added.
#[must_use]
pub fn as_timed(surface: &Surface, point: &[f64], gpu: &GpuSpec) -> f64 {
    let seconds = predict(surface, point, gpu).seconds;
    surface
        .unaligned
        .map_or(seconds, |u| u.as_timed(point[0], seconds))
}

/// Relative errors, as shares, of predictions against samples.
pub(super) fn errors(samples: &[&Sample], seconds: impl Fn(&Sample) -> f64) -> Vec<f64> {
    samples
        .iter()
        .map(|s| (seconds(s) / s.seconds - 1.0).abs())
        .collect()
}

/// Median, p90 (linear interpolation) and maximum of errors, in percent.
///
/// Returns zeros for no errors at all.
#[must_use]
pub(super) fn figures(mut errors: Vec<f64>) -> ErrorFigures {
    errors.sort_by(f64::total_cmp);
    let at = |q: f64| {
        let Some(last) = errors.len().checked_sub(1) else {
            return 0.0;
        };
        let place = q * last as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of an index is an index"
        )]
        let low = place.floor() as usize;
        let high = (low + 1).min(last);
        let share = place - low as f64;
        // Percent with two decimals is what a profile states.
        let exact = errors[low] * (1.0 - share) + errors[high] * share;
        (exact * 1e4).round() / 100.0
    };
    ErrorFigures {
        median: at(0.5),
        p90: at(0.9),
        max: at(1.0),
    }
}

/// How a profile does on the samples of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The kind.
    pub kind: SurfaceKind,
    /// Samples compared.
    pub samples: usize,
    /// Samples where the surface rests on none of its own, compared as well.
    pub outside: usize,
    /// Errors.
    pub error: ErrorFigures,
    /// Median of prediction / sample − 1 in percent: which way it errs.
    pub bias: f64,
}

/// Holds surfaces against samples; kinds without a surface come back in the second list with their number of samples.
#[must_use]
pub fn check(
    surfaces: &Surfaces,
    samples: &[Sample],
    gpu: &GpuSpec,
) -> (Vec<Checked>, Vec<(SurfaceKind, usize)>) {
    let mut kinds: Vec<SurfaceKind> = samples.iter().map(|s| s.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let (mut checked, mut missing) = (Vec::new(), Vec::new());
    for kind in kinds {
        let of_kind: Vec<&Sample> = samples.iter().filter(|s| s.kind == kind).collect();
        let Some(surface) = surfaces.get(&kind) else {
            missing.push((kind, of_kind.len()));
            continue;
        };
        let mut signed: Vec<f64> = of_kind
            .iter()
            .map(|s| as_timed(surface, &s.point, gpu) / s.seconds - 1.0)
            .collect();
        let outside = of_kind
            .iter()
            .filter(|s| !predict(surface, &s.point, gpu).measured)
            .count();
        let error = figures(signed.iter().map(|e| e.abs()).collect());
        signed.sort_by(f64::total_cmp);
        checked.push(Checked {
            kind,
            samples: of_kind.len(),
            outside,
            error,
            bias: signed[signed.len() / 2] * 100.0,
        });
    }
    (checked, missing)
}
