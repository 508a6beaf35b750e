//! The axes of surfaces: which quantities, their knots and smoothness, and where a point of a kind lies on them.
//!
//! A kind may have more than one set of axes. Kernels change their ways along lines of equal work or of equal tiles; where such
//! a line runs along an axis, few knots follow it, and where it runs across two axes, all knots of both blur it.

use super::grid::MOST_AXES;
use super::solver::AxisRule;

/// An axis: name, knots, rule.
#[derive(Debug, PartialEq)]
pub(super) struct AxisShape {
    name: &'static str,
    knots: &'static [f64],
    rule: AxisRule,
}

/// An axis with its smoothness.
pub(super) const fn axis(
    name: &'static str,
    knots: &'static [f64],
    smooth: f64,
    monotone: bool,
) -> AxisShape {
    AxisShape {
        name,
        knots,
        rule: AxisRule { smooth, monotone },
    }
}

/// Decode attention by what its kernels hand out: one KV head of one sequence is a unit of work, whichever sequence it
/// belongs to.
pub(super) const DECODE_UNITS: &[AxisShape] = &[
    axis(
        "sequence_heads",
        &[
            1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
            8192.0, 16384.0,
        ],
        3e-3,
        true,
    ),
    axis(
        "context",
        &[
            2.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0,
            131_072.0,
        ],
        3e-3,
        true,
    ),
    axis("kv_heads_per_sequence", &[1.0, 8.0], 1e-2, false),
    // Kernels take up to 8 or 16 heads at a time: beyond a multiple they take another turn.
    axis("group", &[1.0, 4.0, 8.0, 16.0, 20.0], 1e-2, false),
];

/// Experts by what bounds them: the weights of those touched, and how many rows each of those gets.
pub(super) const EXPERTS_TOUCHED: &[AxisShape] = &experts_touched(&[256.0, 1024.0, 2048.0, 4096.0]);

/// The same with knots where experts are cut over so many ranks that a part is smaller than a tile.
pub(super) const EXPERTS_TOUCHED_NARROW: &[AxisShape] =
    &experts_touched(&[64.0, 256.0, 1024.0, 4096.0]);

const fn experts_touched(inner: &'static [f64]) -> [AxisShape; 5] {
    [
        axis(
            "visits_per_expert",
            &[1.0, 8.0, 32.0, 64.0, 128.0, 512.0, 4096.0],
            3e-3,
            true,
        ),
        axis("experts_touched", &[0.1, 1.0, 4.0, 16.0, 64.0], 3e-3, true),
        axis("hidden", &[2048.0, 4096.0, 6144.0], 1e-3, false),
        axis("inner", inner, 3e-3, false),
        axis("skew", &[1.0], 1e-2, false),
    ]
}

/// How a point of a kind is placed on the axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The first numbers of the point are the coordinates.
    Plain,
    /// Batch, context, KV heads, group as sequences × KV heads, context, KV heads, group.
    SequenceHeads,
    /// Visits, experts, hidden, inner, skew and, behind the visits of the group, experts touched: as visits per expert
    /// touched, experts touched, hidden, inner, skew.
    ExpertsTouched,
}

/// A set of axes.
#[derive(Debug, PartialEq)]
pub(super) struct Layout {
    axes: &'static [AxisShape],
    place: Place,
}

/// Coordinates on the axes of a surface; those beyond its axes are zero.
pub(super) type Coordinates = [f64; MOST_AXES];

impl Layout {
    /// Axes that are the numbers of the point.
    pub(super) const fn plain(axes: &'static [AxisShape]) -> Self {
        Self::new(axes, Place::Plain)
    }

    /// Axes with their place.
    pub(super) const fn new(axes: &'static [AxisShape], place: Place) -> Self {
        Self { axes, place }
    }

    /// Number of axes.
    pub(super) const fn len(&self) -> usize {
        self.axes.len()
    }

    /// Names of the axes.
    pub(super) fn axis_names(&self) -> impl Iterator<Item = &'static str> {
        self.axes.iter().map(|a| a.name)
    }

    /// Smoothness and monotony of the axes.
    pub(super) fn rules(&self) -> Vec<AxisRule> {
        self.axes.iter().map(|a| a.rule).collect()
    }

    /// How fast the roofline grows along an axis at most, as a power: what a time beyond the grid is scaled by.
    pub(super) fn growth(&self, axis: usize) -> i32 {
        match self.axes[axis].name {
            "new_tokens" => 2,
            "group" | "experts" | "skew" | "ranks" | "launches" | "kv_heads_per_sequence" => 0,
            _ => 1,
        }
    }

    /// Where a point lies on the axes.
    pub(super) fn coordinates(&self, point: &[f64]) -> Coordinates {
        let mut on = [0.0; MOST_AXES];
        on[..self.len()].copy_from_slice(&point[..self.len()]);
        match self.place {
            Place::Plain => {}
            Place::SequenceHeads => on[0] = point[0] * point[2],
            Place::ExpertsTouched => {
                on[0] = point[0] / point[6];
                on[1] = point[6];
            }
        }
        on
    }

    /// A point that lies at `on`; numbers that are no coordinate are as small as they can be.
    pub(super) fn point(&self, on: &[f64]) -> Vec<f64> {
        let mut point = on[..self.len()].to_vec();
        match self.place {
            Place::Plain => {}
            Place::SequenceHeads => point[0] = on[0] / on[2],
            Place::ExpertsTouched => point[0] = on[0] * on[1],
        }
        point
    }

    /// Knots for an axis that spans `low` to `high`: the layout's own between, and the ends.
    pub(super) fn knots(&self, axis: usize, low: f64, high: f64) -> Vec<f64> {
        let close = |a: f64, b: f64| (a / b).log2().abs() < 0.2;
        let mut knots = vec![low];
        for &k in self.axes[axis].knots {
            if k > low && k < high && !close(k, low) && !close(k, high) {
                knots.push(k);
            }
        }
        if high > low {
            knots.push(high);
        }
        knots
    }
}
