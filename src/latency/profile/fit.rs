//! Fits surfaces to samples and cross-validates them.

use rand::seq::SliceRandom;
use rayon::prelude::*;

use super::check::{errors, figures, predict};
use super::coverage::Coverage;
use super::grid::{Axis, Grid};
use super::samples::Sample;
use super::section::{Surface, SurfaceError, Surfaces};
use super::shapes::{SurfaceKind, roofline_seconds, routing_seconds};
use super::solver;
use crate::hardware::GpuSpec;
use crate::rng::stream;

/// Parts of a cross-validation.
const FOLDS: usize = 5;

/// What a fit did.
#[derive(Debug, Clone)]
pub struct FitReport {
    /// The surfaces.
    pub surfaces: Surfaces,
    /// Kinds with too few samples, and how many they had.
    pub too_few: Vec<(SurfaceKind, usize)>,
}

/// Fits every kind of surface the samples cover on `gpu`; with `validate`, also fits ten times more to find the errors
/// on rows and on sites left out.
#[must_use]
pub fn fit(samples: &[Sample], gpu: &GpuSpec, validate: bool) -> FitReport {
    let mut kinds: Vec<SurfaceKind> = samples.iter().map(|s| s.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut too_few = Vec::new();
    let mut jobs = Vec::new();
    for kind in kinds {
        let of_kind: Vec<&Sample> = samples.iter().filter(|s| s.kind == kind).collect();
        if of_kind.len() < kind.fewest_samples() {
            too_few.push((kind, of_kind.len()));
        } else {
            jobs.push((kind, of_kind));
        }
    }
    let surfaces = jobs
        .into_par_iter()
        .map(|(kind, of_kind)| {
            let mut surface = fit_surface(kind, &of_kind, &of_kind, gpu);
            // All samples, whatever part of them a fold left out.
            surface.coverage = Some(Coverage::of(&surface.grid, &of_kind)).filter(|c| !c.is_full());
            surface.error = validate.then(|| cross_validate(kind, &of_kind, gpu));
            (kind, surface)
        })
        .collect();
    FitReport { surfaces, too_few }
}

/// How often inputs may be moved for routing.
const PASSES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0];

/// Fits a surface that spans `all` to `used`; for experts, with the number of routing passes that leaves the smallest
/// residuals.
fn fit_surface(kind: SurfaceKind, all: &[&Sample], used: &[&Sample], gpu: &GpuSpec) -> Surface {
    let candidates = match kind {
        SurfaceKind::Experts(_) => PASSES,
        _ => &PASSES[..1],
    };
    let fits = candidates.iter().map(|&routing_passes| {
        let surface = Surface {
            kind,
            grid: fit_grid(kind, all, used, routing_passes, gpu),
            routing_passes,
            samples: used.len(),
            coverage: None,
            error: None,
        };
        let residual: f64 = used
            .iter()
            .map(|s| {
                (predict(&surface, &s.point, gpu).seconds / s.seconds)
                    .ln()
                    .abs()
            })
            .sum();
        (residual, surface)
    });
    fits.min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there is at least one candidate")
        .1
}

/// Fits a grid that spans `all` to `used`.
fn fit_grid(
    kind: SurfaceKind,
    all: &[&Sample],
    used: &[&Sample],
    routing_passes: f64,
    gpu: &GpuSpec,
) -> Grid {
    let axes: Vec<Axis> = kind
        .axis_names()
        .enumerate()
        .map(|(d, name)| {
            let low = all.iter().map(|s| s.point[d]).fold(f64::INFINITY, f64::min);
            let high = all.iter().map(|s| s.point[d]).fold(0.0, f64::max);
            Axis {
                name: name.to_owned(),
                knots: kind.knots(d, low, high),
            }
        })
        .collect();
    let nodes = axes.iter().map(|a| a.knots.len()).product();
    let mut grid = Grid::new(axes, vec![0.0; nodes])
        .expect("samples have positive coordinates and knots ascend");
    let points: Vec<Vec<f64>> = used.iter().map(|s| s.point.clone()).collect();
    let targets: Vec<f64> = used
        .iter()
        .map(|s| {
            let routing = routing_passes * routing_seconds(kind, &s.point, gpu);
            // Some time must be left for the experts themselves.
            (s.seconds - routing).max(0.1 * s.seconds).ln()
        })
        .collect();
    solver::fit(&mut grid, &points, &targets, &kind.rules());
    raise_to_roofline(&mut grid, kind, gpu);
    grid
}

/// Lifts knots below the data sheet's roofline onto it and rounds to what a profile stores.
fn raise_to_roofline(grid: &mut Grid, kind: SurfaceKind, gpu: &GpuSpec) {
    let axes = grid.axes().to_vec();
    let values = grid.values().to_vec();
    let mut lifted = Vec::with_capacity(values.len());
    for (i, value) in values.into_iter().enumerate() {
        let mut rest = i;
        let mut point = vec![0.0; axes.len()];
        for (d, axis) in axes.iter().enumerate().rev() {
            point[d] = axis.knots[rest % axis.knots.len()];
            rest /= axis.knots.len();
        }
        let seconds = value.exp().max(roofline_seconds(kind, &point, gpu));
        lifted.push((stored_us(seconds) * 1e-6).ln());
    }
    grid.set_values(lifted);
}

/// Microseconds with three significant digits, four where the first is 1 or 2; rounded up so that the roofline holds.
#[must_use]
pub(super) fn stored_us(seconds: f64) -> f64 {
    let us = seconds * 1e6;
    let first = decimal_exponent(us);
    let digits = if us < 3.0 * 10f64.powi(first) { 3 } else { 2 };
    let scale = 10f64.powi(digits - first);
    (us * scale * (1.0 - 1e-9)).ceil() / scale
}

/// The power of ten of the first digit.
fn decimal_exponent(x: f64) -> i32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the decimal exponent of a finite f64 is within ±308"
    )]
    let exponent = x.log10().floor() as i32;
    exponent
}

/// Errors on rows left out at random and on whole sites left out.
fn cross_validate(kind: SurfaceKind, samples: &[&Sample], gpu: &GpuSpec) -> SurfaceError {
    let mut sites: Vec<&str> = samples.iter().map(|s| s.site.as_str()).collect();
    sites.sort_unstable();
    sites.dedup();
    let mut rng = stream(0, "cross-validation");
    let mut row_order: Vec<usize> = (0..samples.len()).collect();
    row_order.shuffle(&mut rng);
    let mut row_fold = vec![0; samples.len()];
    for (place, &row) in row_order.iter().enumerate() {
        row_fold[row] = place % FOLDS;
    }
    sites.shuffle(&mut rng);
    let site_fold: Vec<usize> = samples
        .iter()
        .map(|s| sites.iter().position(|&x| x == s.site).unwrap_or(0) % FOLDS)
        .collect();
    let held_out = |fold_of: &[usize]| {
        let all: Vec<f64> = (0..FOLDS)
            .into_par_iter()
            .flat_map_iter(|fold| {
                let part = |out: bool| -> Vec<&Sample> {
                    samples
                        .iter()
                        .zip(fold_of)
                        .filter(|(_, f)| (**f == fold) == out)
                        .map(|(s, _)| *s)
                        .collect()
                };
                let surface = fit_surface(kind, samples, &part(false), gpu);
                errors(&part(true), |s| predict(&surface, &s.point, gpu).seconds)
            })
            .collect();
        figures(all)
    };
    SurfaceError {
        rows: held_out(&row_fold),
        sites: (sites.len() >= FOLDS).then(|| held_out(&site_fold)),
    }
}
