//! Fits surfaces to samples and cross-validates them.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rayon::prelude::*;

use super::check::{as_timed, errors, figures, predict};
use super::coverage::Coverage;
use super::grid::{Axis, Grid};
use super::guide::{self, Guide};
use super::layout::{Coordinates, Layout};
use super::samples::Sample;
use super::section::{Surface, SurfaceError, Surfaces};
use super::shapes::{SurfaceKind, roofline_seconds, routing_seconds};
use super::solver;
use super::unaligned::Unaligned;
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
            let other = guiding_surface(kind, samples, gpu);
            let plan = choose(kind, &of_kind, other.as_ref(), gpu);
            let mut surface = plan.fit(&of_kind, &of_kind, gpu);
            // All samples, whatever part of them a fold left out.
            surface.coverage = Some(Coverage::of(surface.layout, &surface.grid, &of_kind))
                .filter(|c| !c.is_full());
            surface.error = validate.then(|| cross_validate(&plan, &of_kind, gpu));
            (kind, surface)
        })
        .collect();
    FitReport { surfaces, too_few }
}

/// The surface of the kind that guides `kind`, fitted to all its samples, if there are enough.
fn guiding_surface(kind: SurfaceKind, samples: &[Sample], gpu: &GpuSpec) -> Option<Surface> {
    let other = guide::guiding(kind)?;
    let of_other: Vec<&Sample> = samples.iter().filter(|s| s.kind == other).collect();
    (of_other.len() >= other.fewest_samples())
        .then(|| choose(other, &of_other, None, gpu).fit(&of_other, &of_other, gpu))
}

/// How often inputs may be moved for routing.
const PASSES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0];

/// How a surface of a kind is fitted.
#[derive(Debug, Clone, Copy)]
struct Plan<'a> {
    kind: SurfaceKind,
    /// The surface that guides this one.
    other: Option<&'a Surface>,
    /// Whether there is a guide, where there can be one.
    guided: bool,
    layout: &'static Layout,
    routing_passes: f64,
    /// Whether unaligned rows are timed by their host instead of the surface.
    unaligned: bool,
}

/// The plan with the smallest residuals on a random fifth of the samples that it is not fitted to: axes, routing passes, host
/// and guide. The same for all parts of a cross-validation.
fn choose<'a>(
    kind: SurfaceKind,
    samples: &[&Sample],
    other: Option<&'a Surface>,
    gpu: &GpuSpec,
) -> Plan<'a> {
    let passes = match kind {
        SurfaceKind::Experts(_) => PASSES,
        _ => &PASSES[..1],
    };
    let aligned = samples.iter().filter(|s| Unaligned::aligned(s)).count();
    // Both sorts must be there to tell one from the other.
    let sorts = kind.fewest_samples()..samples.len() - kind.fewest_samples().min(samples.len());
    let hosts: &[bool] = match kind {
        SurfaceKind::Gemm(_) if sorts.contains(&aligned) => &[false, true],
        _ => &[false],
    };
    let mut plans = Vec::new();
    for layout in kind.layouts() {
        for &routing_passes in passes {
            for &unaligned in hosts {
                plans.extend(guide::tried(kind).iter().map(|&guided| Plan {
                    kind,
                    other,
                    guided,
                    layout,
                    routing_passes,
                    unaligned,
                }));
            }
        }
    }
    if plans.len() == 1 {
        return plans[0];
    }
    let fold = row_folds(samples.len());
    let (used, left_out) = split(samples, &fold, 0);
    let residuals = |plan: &Plan<'_>| -> f64 {
        let surface = plan.fit(samples, &used, gpu);
        left_out
            .iter()
            .map(|s| (as_timed(&surface, &s.point, gpu) / s.seconds).ln().abs())
            .sum()
    };
    let tried: Vec<(f64, Plan<'_>)> = plans
        .into_par_iter()
        .map(|plan| (residuals(&plan), plan))
        .collect();
    let best = tried.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.expect("every kind has a layout").1
}

impl Plan<'_> {
    /// Fits a surface that spans `all` to `used`.
    fn fit(&self, all: &[&Sample], used: &[&Sample], gpu: &GpuSpec) -> Surface {
        let mut surface = Surface {
            kind: self.kind,
            layout: self.layout,
            grid: self.grid(all, used, gpu),
            routing_passes: self.routing_passes,
            unaligned: None,
            samples: used.len(),
            coverage: None,
            error: None,
        };
        if self.unaligned {
            surface.unaligned = Unaligned::of(used, |s| predict(&surface, &s.point, gpu).seconds);
        }
        surface
    }

    /// Fits a grid that spans `all` to `used`.
    fn grid(&self, all: &[&Sample], used: &[&Sample], gpu: &GpuSpec) -> Grid {
        let spans: Vec<Coordinates> = all
            .iter()
            .map(|s| self.layout.coordinates(&s.point))
            .collect();
        let axes: Vec<Axis> = self
            .layout
            .axis_names()
            .enumerate()
            .map(|(d, name)| {
                let low = spans.iter().map(|p| p[d]).fold(f64::INFINITY, f64::min);
                let high = spans.iter().map(|p| p[d]).fold(0.0, f64::max);
                Axis {
                    name: name.to_owned(),
                    knots: self.layout.knots(d, low, high),
                }
            })
            .collect();
        let nodes = axes.iter().map(|a| a.knots.len()).product();
        let mut grid = Grid::new(axes, vec![0.0; nodes])
            .expect("samples have positive coordinates and knots ascend");
        let rows = || {
            used.iter()
                .filter(|s| !self.unaligned || Unaligned::aligned(s))
        };
        let points: Vec<Coordinates> = rows().map(|s| self.layout.coordinates(&s.point)).collect();
        let targets: Vec<f64> = rows()
            .map(|s| {
                let routing = self.routing_passes * routing_seconds(self.kind, &s.point, gpu);
                // Some time must be left for the experts themselves.
                (s.seconds - routing).max(0.1 * s.seconds).ln()
            })
            .collect();
        let mut rules = self.layout.rules();
        let guide = self
            .guided
            .then(|| Guide::of(self.kind, used, self.other, gpu));
        if let Some(guide) = guide.flatten() {
            let expected = node_points(&grid, self.layout)
                .map(|point| guide.ln_seconds(self.kind, &point, gpu))
                .collect();
            grid.set_values(expected);
            rules = guide.smoothed(rules);
        }
        solver::fit(&mut grid, &points, &targets, &rules);
        raise_to_roofline(&mut grid, self.kind, self.layout, gpu);
        grid
    }
}

/// A point at each node, in the order of the values.
fn node_points(grid: &Grid, layout: &Layout) -> impl Iterator<Item = Vec<f64>> {
    let axes = grid.axes();
    (0..grid.values().len()).map(move |mut rest| {
        let mut on = vec![0.0; axes.len()];
        for (d, axis) in axes.iter().enumerate().rev() {
            on[d] = axis.knots[rest % axis.knots.len()];
            rest /= axis.knots.len();
        }
        layout.point(&on)
    })
}

/// Lifts knots below the data sheet's roofline onto it and rounds to what a profile stores.
fn raise_to_roofline(grid: &mut Grid, kind: SurfaceKind, layout: &Layout, gpu: &GpuSpec) {
    let lifted = node_points(grid, layout)
        .zip(grid.values())
        .map(|(point, value)| {
            let seconds = value.exp().max(roofline_seconds(kind, &point, gpu));
            (stored_us(seconds) * 1e-6).ln()
        })
        .collect();
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

/// The part each of `count` rows belongs to, at random.
fn row_folds(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut stream(0, "cross-validation"));
    let mut fold = vec![0; count];
    for (place, &row) in order.iter().enumerate() {
        fold[row] = place % FOLDS;
    }
    fold
}

/// The part each row belongs to where whole sites, at random, form a part; `None` with fewer sites than parts.
fn site_folds(samples: &[&Sample]) -> Option<Vec<usize>> {
    let mut sites: Vec<&str> = samples.iter().map(|s| s.site.as_str()).collect();
    sites.sort_unstable();
    sites.dedup();
    sites.shuffle(&mut stream(0, "cross-validation of sites"));
    let place: BTreeMap<&str, usize> = sites.iter().enumerate().map(|(i, s)| (*s, i)).collect();
    let fold = samples.iter().map(|s| place[s.site.as_str()] % FOLDS);
    (sites.len() >= FOLDS).then(|| fold.collect())
}

/// Samples outside a part and inside it.
fn split<'a>(
    samples: &[&'a Sample],
    fold_of: &[usize],
    fold: usize,
) -> (Vec<&'a Sample>, Vec<&'a Sample>) {
    let part = |inside: bool| {
        let rows = samples.iter().zip(fold_of);
        rows.filter(|(_, f)| (**f == fold) == inside)
            .map(|(s, _)| *s)
            .collect()
    };
    (part(false), part(true))
}

/// Errors on rows left out at random and on whole sites left out.
fn cross_validate(plan: &Plan<'_>, samples: &[&Sample], gpu: &GpuSpec) -> SurfaceError {
    let held_out = |fold_of: &[usize]| {
        let all: Vec<f64> = (0..FOLDS)
            .into_par_iter()
            .flat_map_iter(|fold| {
                let (used, left_out) = split(samples, fold_of, fold);
                let surface = plan.fit(samples, &used, gpu);
                errors(&left_out, |s| as_timed(&surface, &s.point, gpu))
            })
            .collect();
        figures(all)
    };
    SurfaceError {
        rows: held_out(&row_folds(samples.len())),
        sites: site_folds(samples).map(|folds| held_out(&folds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::gpu;
    use crate::latency::kernels::CollectiveKind;

    /// Whether a collective of two ranks with these times of bytes over the rate of the links is fitted with a guide.
    fn guided(seconds: impl Fn(f64) -> f64) -> bool {
        let gpu = gpu("h100-sxm").unwrap();
        let kind = SurfaceKind::Collective(CollectiveKind::AllReduce);
        // Sizes one and a half octaves apart: a row left out leaves a gap.
        let samples: Vec<Sample> = (32..120)
            .step_by(6)
            .map(|quarter| {
                let bytes = 2f64.powf(f64::from(quarter) / 4.0);
                Sample {
                    kind,
                    point: vec![bytes, 2.0],
                    site: String::new(),
                    seconds: seconds(bytes / gpu.intra_node_bandwidth()),
                }
            })
            .collect();
        choose(kind, &samples.iter().collect::<Vec<_>>(), None, &gpu).guided
    }

    #[test]
    fn a_line_guides_only_what_runs_along_one() {
        for share in [1.0, 2.0, 3.0] {
            assert!(guided(|wire| 1e-5 + share * wire), "{share}");
            assert!(!guided(|wire| share * 1e-2 * wire.powf(0.4)), "{share}");
        }
    }
}
