//! Which nodes of a grid rest on samples.
//!
//! A grid spans a box, samples need not fill it: no engine runs 64 sequences of 128k tokens on one GPU. A node is covered
//! when a sample lies in one of the cells around it; the others hold what smoothness made of them. A query counts as
//! measured when all nodes it is interpolated from are covered.

use super::grid::{Corners, Grid};
use super::layout::Layout;
use super::samples::Sample;

/// One bit per node, in the order of the grid's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    bits: Vec<bool>,
}

impl Coverage {
    /// The nodes of `grid` that rest on `samples`, which `layout` places on it.
    #[must_use]
    pub(super) fn of(layout: &Layout, grid: &Grid, samples: &[&Sample]) -> Self {
        let mut bits = vec![false; grid.values().len()];
        for sample in samples {
            let (clamped, _) = grid.clamp(&layout.coordinates(&sample.point));
            let (corners, used) = grid.corners(&clamped[..grid.axes().len()]);
            for &(node, weight) in &corners[..used] {
                bits[node] |= weight > 0.0;
            }
        }
        Self { bits }
    }

    /// Whether every node is covered, so that there is nothing to say.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bits.iter().all(|&bit| bit)
    }

    /// Covered nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bits.iter().filter(|&&bit| bit).count()
    }

    /// Whether all of the corners that count are covered.
    pub(super) fn covers(&self, corners: &Corners, used: usize) -> bool {
        corners[..used]
            .iter()
            .all(|&(node, weight)| weight <= 0.0 || self.bits[node])
    }

    /// Four nodes per hexadecimal digit, the first node in the highest bit.
    #[must_use]
    pub fn hex(&self) -> String {
        let digit = |four: &[bool]| {
            let value = (0..4).fold(0, |sum, i| {
                2 * sum + u32::from(four.get(i).copied().unwrap_or(false))
            });
            char::from_digit(value, 16).unwrap_or('0')
        };
        self.bits.chunks(4).map(digit).collect()
    }

    /// Reads [`Coverage::hex`] of a grid of `nodes` nodes; `None` for anything else.
    #[must_use]
    pub fn from_hex(text: &str, nodes: usize) -> Option<Self> {
        let mut bits = Vec::with_capacity(nodes + 3);
        for digit in text.chars() {
            let value = digit.to_digit(16)?;
            bits.extend((0..4).rev().map(|i| value >> i & 1 == 1));
        }
        let padding = bits.len().checked_sub(nodes)?;
        (padding < 4 && !bits[nodes..].contains(&true)).then(|| {
            bits.truncate(nodes);
            Self { bits }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::predict;
    use super::super::grid::Axis;
    use super::super::section::Surface;
    use super::super::shapes::SurfaceKind;
    use super::*;
    use crate::hardware::gpu;
    use crate::latency::kernels::CollectiveKind;

    const KIND: SurfaceKind = SurfaceKind::Collective(CollectiveKind::AllReduce);

    fn grid() -> Grid {
        let axis = |name: &str, knots: &[f64]| Axis {
            name: name.to_owned(),
            knots: knots.to_vec(),
        };
        let axes = vec![
            axis("bytes", &[1e3, 1e4, 1e5, 1e6]),
            axis("ranks", &[2.0, 4.0, 8.0]),
        ];
        Grid::new(axes, vec![-9.0; 12]).unwrap()
    }

    fn sample(bytes: f64, ranks: f64) -> Sample {
        Sample {
            kind: KIND,
            point: vec![bytes, ranks],
            site: String::new(),
            seconds: 1e-4,
        }
    }

    #[test]
    fn a_query_in_an_empty_corner_of_the_grid_is_not_measured() {
        let grid = grid();
        let samples = [sample(1e3, 2.0), sample(5e4, 2.0), sample(1e6, 8.0)];
        let coverage = Coverage::of(
            &KIND.layouts()[0],
            &grid,
            &samples.iter().collect::<Vec<_>>(),
        );
        assert_eq!(coverage.count(), 4);
        let surface = Surface {
            kind: KIND,
            layout: &KIND.layouts()[0],
            grid,
            routing_passes: 0.0,
            unaligned: None,
            samples: 3,
            coverage: Some(coverage),
            error: None,
        };
        let gpu = gpu("h100-sxm").unwrap();
        let measured = |bytes, ranks| predict(&surface, &[bytes, ranks], &gpu).measured;
        assert!(measured(2e4, 2.0) && measured(1e3, 2.0) && measured(1e6, 8.0));
        assert!(!measured(2e3, 8.0) && !measured(2e4, 3.0) && !measured(5e5, 8.0));
    }

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let samples = [sample(2e3, 3.0), sample(1e6, 8.0)];
        let coverage = Coverage::of(
            &KIND.layouts()[0],
            &grid(),
            &samples.iter().collect::<Vec<_>>(),
        );
        assert_eq!(coverage.hex(), "d81");
        assert_eq!(Coverage::from_hex("d81", 12), Some(coverage));
        for (text, nodes) in [("d8", 12), ("d810", 12), ("dx1", 12), ("d81", 11), ("", 1)] {
            assert_eq!(Coverage::from_hex(text, nodes), None, "{text} of {nodes}");
        }
        assert!(Coverage::from_hex("e", 3).unwrap().is_full());
    }
}
