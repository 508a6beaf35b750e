//! Multilinear interpolation of ln(time) over logarithmic axes.

/// Most axes of a grid.
pub(super) const MOST_AXES: usize = 5;

/// One axis of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Name of the quantity: `m`, `context`, …
    pub name: String,
    /// Knots, ascending, above zero.
    pub knots: Vec<f64>,
}

/// Times on a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    axes: Vec<Axis>,
    /// log₂ of the knots, axis by axis.
    logs: Vec<Vec<f64>>,
    /// ln(seconds), last axis fastest.
    values: Vec<f64>,
}

/// The corners around a point: node and weight, `2^axes` of them.
pub(super) type Corners = [(usize, f64); 1 << MOST_AXES];

impl Grid {
    /// Makes a grid from its axes (1 to `MOST_AXES`, ascending positive knots) and ln(seconds) at the nodes.
    ///
    /// Returns `None` when the shape is not that.
    #[must_use]
    pub fn new(axes: Vec<Axis>, values: Vec<f64>) -> Option<Self> {
        let ascending = |a: &Axis| {
            !a.knots.is_empty()
                && a.knots[0] > 0.0
                && a.knots.windows(2).all(|w| w[0] < w[1])
                && a.knots.iter().all(|k| k.is_finite())
        };
        let nodes: usize = axes.iter().map(|a| a.knots.len()).product();
        let sound = (1..=MOST_AXES).contains(&axes.len())
            && axes.iter().all(ascending)
            && nodes == values.len()
            && values.iter().all(|v| v.is_finite());
        let logs = axes
            .iter()
            .map(|a| a.knots.iter().map(|k| k.log2()).collect())
            .collect();
        sound.then_some(Self { axes, logs, values })
    }

    /// The axes.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// ln(seconds) at the nodes, last axis fastest.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub(super) fn set_values(&mut self, values: Vec<f64>) {
        debug_assert_eq!(values.len(), self.values.len());
        self.values = values;
    }

    /// The coordinates moved onto the grid, and whether they were on it already.
    #[must_use]
    pub fn clamp(&self, at: &[f64]) -> ([f64; MOST_AXES], bool) {
        let mut clamped = [0.0; MOST_AXES];
        let mut inside = true;
        for ((out, &x), axis) in clamped.iter_mut().zip(at).zip(&self.axes) {
            let (low, high) = (axis.knots[0], axis.knots[axis.knots.len() - 1]);
            *out = x.clamp(low, high);
            // A single knot stands for a quantity that was not varied.
            inside &= axis.knots.len() == 1 || (low..=high).contains(&x);
        }
        (clamped, inside)
    }

    /// Nodes and weights around a point on the grid; the first `2^axes` entries count.
    pub(super) fn corners(&self, at: &[f64]) -> (Corners, usize) {
        let mut corners = [(0usize, 0.0f64); 1 << MOST_AXES];
        corners[0] = (0, 1.0);
        let mut used = 1;
        for (logs, &x) in self.logs.iter().zip(at) {
            let last = logs.len() - 1;
            let x = x.log2().clamp(logs[0], logs[last]);
            let low = logs
                .partition_point(|&k| k <= x)
                .saturating_sub(1)
                .min(last.saturating_sub(1));
            let share = if last == 0 {
                0.0
            } else {
                (x - logs[low]) / (logs[low + 1] - logs[low])
            };
            for i in 0..used {
                let (node, weight) = corners[i];
                let node = node * logs.len() + low;
                corners[i] = (node, weight * (1.0 - share));
                corners[used + i] = (node + usize::from(last > 0), weight * share);
            }
            used *= 2;
        }
        (corners, used)
    }

    /// Seconds at a point on the grid.
    #[must_use]
    pub fn at(&self, point: &[f64]) -> f64 {
        let (corners, used) = self.corners(point);
        self.between(&corners, used)
    }

    /// Seconds between corners.
    pub(super) fn between(&self, corners: &Corners, used: usize) -> f64 {
        corners[..used]
            .iter()
            .map(|&(node, weight)| weight * self.values[node])
            .sum::<f64>()
            .exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let axis = |name: &str, knots: &[f64]| Axis {
            name: name.to_owned(),
            knots: knots.to_vec(),
        };
        // t = m·n² at the nodes.
        let (m, n) = ([1.0, 4.0, 8.0], [2.0, 16.0]);
        let values = m
            .iter()
            .flat_map(|m| n.iter().map(move |n: &f64| f64::ln(m * n * n)))
            .collect();
        Grid::new(vec![axis("m", &m), axis("n", &n)], values).unwrap()
    }

    #[test]
    fn a_power_law_is_interpolated_exactly() {
        for (m, n) in [(1.0f64, 2.0f64), (3.0, 5.0), (8.0, 16.0), (5.5, 2.0)] {
            assert!((grid().at(&[m, n]) / (m * n * n) - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn points_outside_are_moved_to_the_edge_and_said_so() {
        let (clamped, inside) = grid().clamp(&[100.0, 4.0]);
        assert!(!inside);
        assert!((clamped[0] - 8.0).abs() < 1e-12);
        assert!(grid().clamp(&[8.0, 2.0]).1);
    }

    #[test]
    fn grids_that_are_none_are_refused() {
        let axis = |knots: &[f64]| Axis {
            name: "m".to_owned(),
            knots: knots.to_vec(),
        };
        assert!(Grid::new(vec![axis(&[2.0, 1.0])], vec![0.0, 0.0]).is_none());
        assert!(Grid::new(vec![axis(&[1.0, 2.0])], vec![0.0]).is_none());
        assert!(Grid::new(vec![axis(&[1.0, 2.0])], vec![0.0, f64::NAN]).is_none());
    }
}
