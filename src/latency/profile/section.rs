//! The `surfaces` section of a profile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::coverage::Coverage;
use super::error::ProfileError;
use super::grid::{Axis, Grid};
use super::layout::Layout;
use super::shapes::{Point, SurfaceKind};
use super::unaligned::Unaligned;

/// Relative errors in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorFigures {
    /// Half of the rows err by less.
    pub median: f64,
    /// Nine of ten rows err by less.
    pub p90: f64,
    /// The worst row.
    pub max: f64,
}

/// Errors of a surface, each on rows it was not fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SurfaceError {
    /// A random fifth of the rows left out at a time.
    pub rows: ErrorFigures,
    /// A fifth of the sites left out at a time; `None` with fewer than five sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<ErrorFigures>,
}

/// One fitted surface.
#[derive(Debug, Clone, PartialEq)]
pub struct Surface {
    /// What it times.
    pub kind: SurfaceKind,
    /// Where points lie on the grid.
    pub(super) layout: &'static Layout,
    /// Times.
    pub grid: Grid,
    /// How often the inputs of all visits of a group of ranks are moved besides, for experts; see
    /// [`super::routing_seconds`].
    pub routing_passes: f64,
    /// What the host of the benchmark added where m is not aligned.
    pub unaligned: Option<Unaligned>,
    /// Samples it was fitted to.
    pub samples: usize,
    /// Nodes that rest on samples; `None` for all.
    pub coverage: Option<Coverage>,
    /// Cross-validated errors.
    pub error: Option<SurfaceError>,
}

impl Surface {
    /// A point at these coordinates of the grid. Experts are those of a rank without a group, each touched.
    #[must_use]
    pub fn point_at(&self, on: &[f64]) -> Point {
        let mut point = self.layout.point(on);
        if let SurfaceKind::Experts(_) = self.kind {
            point.extend([point[0], on[1]]);
        }
        point
    }
}

/// All surfaces of a profile by kind.
pub type Surfaces = BTreeMap<SurfaceKind, Surface>;

/// A surface as written: times in µs, the last axis fastest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SurfaceSection {
    kind: String,
    variant: String,
    samples: usize,
    #[serde(default)]
    routing_passes: f64,
    #[serde(default)]
    unaligned: Option<Unaligned>,
    #[serde(default)]
    error_percent: Option<SurfaceError>,
    #[serde(default)]
    covered: Option<String>,
    axes: Vec<AxisSection>,
    time_us: Vec<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisSection {
    name: String,
    knots: Vec<f64>,
}

/// Reads the `surfaces` value of a profile; `path` names the file in messages.
///
/// # Errors
/// When a surface is of an unknown kind or its grid is not one.
pub fn parse(value: &serde_yaml::Value, path: &str) -> Result<Surfaces, ProfileError> {
    let bad = |reason: String| ProfileError::BadSurface {
        path: path.to_owned(),
        reason,
    };
    let sections: Vec<SurfaceSection> =
        serde_path_to_error::deserialize(value).map_err(|e| bad(e.to_string()))?;
    let mut surfaces = Surfaces::new();
    for section in sections {
        let name = format!("{} {}", section.kind, section.variant);
        let kind = SurfaceKind::from_names(&section.kind, &section.variant)
            .ok_or_else(|| bad(format!("unknown surface `{name}`")))?;
        let names: Vec<&str> = section.axes.iter().map(|a| a.name.as_str()).collect();
        let layout = layout_of(kind, &names).map_err(|expected| {
            bad(format!(
                "{name}: axes are {}, expected {expected}",
                names.join(", ")
            ))
        })?;
        let axes = section
            .axes
            .into_iter()
            .map(|a| Axis {
                name: a.name,
                knots: a.knots,
            })
            .collect();
        let values = section.time_us.iter().map(|us| (us * 1e-6).ln()).collect();
        let grid = Grid::new(axes, values).ok_or_else(|| {
            bad(format!(
                "{name}: knots must ascend and there must be one positive time per node"
            ))
        })?;
        let nodes = grid.values().len();
        let coverage = section.covered.map(|text| {
            Coverage::from_hex(&text, nodes).ok_or_else(|| {
                bad(format!(
                    "{name}: covered must be one hexadecimal digit per four of the {nodes} nodes"
                ))
            })
        });
        let surface = Surface {
            kind,
            layout,
            grid,
            routing_passes: section.routing_passes,
            unaligned: section.unaligned,
            samples: section.samples,
            coverage: coverage.transpose()?,
            error: section.error_percent,
        };
        surfaces.insert(kind, surface);
    }
    Ok(surfaces)
}

/// The layout of a kind with these axes, or the names of those there are.
fn layout_of(kind: SurfaceKind, names: &[&str]) -> Result<&'static Layout, String> {
    let layouts = kind.layouts();
    layouts
        .iter()
        .find(|l| l.axis_names().eq(names.iter().copied()))
        .ok_or_else(|| {
            let each = layouts.iter().map(|l| {
                let names: Vec<&str> = l.axis_names().collect();
                names.join(", ")
            });
            each.collect::<Vec<_>>().join("; or ")
        })
}
