//! The robust, smooth, monotone fit of a grid to points.
//!
//! Minimises Σ|r| (iteratively reweighted least squares) + λ Σ curvature² + a penalty on each decreasing edge of a
//! monotone axis that stays violated, then projects what is left of the violations away. Each step is solved by
//! conjugate gradients without forming the matrix.

use super::grid::Grid;

/// How smooth and how monotone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AxisRule {
    /// Weight of the squared second derivative in log₂ of the axis.
    pub smooth: f64,
    /// Whether times must not decrease along the axis.
    pub monotone: bool,
}

/// Residuals below this (in ln time) count as squared, above as absolute.
const HUBER: f64 = 0.01;
/// Rounds of reweighting.
const ROUNDS: usize = 14;
/// Pull of neighbouring knots towards each other where no data are.
const FIRST: f64 = 1e-4;
/// Pull of all knots towards the mean.
const RIDGE: f64 = 1e-6;
/// Largest weight of a violated edge.
const BARRIER: f64 = 30.0;

/// Knots closer than this, in log₂, are the two sides of a step: a tile that one more row no longer fits.
const STEP: f64 = 0.15;

/// A row of at most four weighted nodes that should sum to zero; unused ones have no factor.
struct Penalty {
    nodes: [u32; 4],
    factors: [f64; 4],
    weight: f64,
}

/// One observation as weighted nodes.
struct Design {
    nodes: Vec<u32>,
    weights: Vec<f64>,
    per_row: usize,
}

impl Design {
    fn new<P: AsRef<[f64]>>(grid: &Grid, points: &[P]) -> Self {
        let per_row = 1 << grid.axes().len();
        let mut nodes = Vec::with_capacity(points.len() * per_row);
        let mut weights = Vec::with_capacity(points.len() * per_row);
        for point in points {
            let (corners, used) = grid.corners(point.as_ref());
            for &(node, weight) in &corners[..used] {
                nodes.push(u32::try_from(node).expect("grids have fewer than 2^32 nodes"));
                weights.push(weight);
            }
        }
        Self {
            nodes,
            weights,
            per_row,
        }
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> {
        let span = i * self.per_row..(i + 1) * self.per_row;
        self.nodes[span.clone()]
            .iter()
            .map(|&n| n as usize)
            .zip(self.weights[span].iter().copied())
    }

    fn dot(&self, i: usize, x: &[f64]) -> f64 {
        self.row(i).map(|(n, w)| w * x[n]).sum()
    }
}

/// Lengths of the axes and the strides of their nodes.
fn strides(grid: &Grid) -> Vec<(usize, usize)> {
    let lengths: Vec<usize> = grid.axes().iter().map(|a| a.knots.len()).collect();
    (0..lengths.len())
        .map(|d| (lengths[d], lengths[d + 1..].iter().product()))
        .collect()
}

/// All nodes whose position along the axis is `at`.
fn slice(nodes: usize, length: usize, stride: usize, at: usize) -> impl Iterator<Item = usize> {
    (0..nodes).filter(move |n| n / stride % length == at)
}

/// Curvature and first-difference rows of all axes. Curvature ties the slopes of neighbouring intervals; a step is no
/// interval, so the slopes on its two sides are tied and its height is free.
fn smoothness(grid: &Grid, rules: &[AxisRule]) -> Vec<Penalty> {
    let nodes = grid.values().len();
    let mut rows = Vec::new();
    for (d, (length, stride)) in strides(grid).into_iter().enumerate() {
        let logs: Vec<f64> = grid.axes()[d].knots.iter().map(|k| k.log2()).collect();
        let width = |i: usize| logs[i + 1] - logs[i];
        for i in 0..length.saturating_sub(1) {
            rows.extend(slice(nodes, length, stride, i).map(|n| difference(n, n + stride, FIRST)));
        }
        let intervals: Vec<usize> = (0..length.saturating_sub(1))
            .filter(|&i| width(i) >= STEP)
            .collect();
        for pair in intervals.windows(2) {
            let (i, j) = (pair[0], pair[1]);
            let tie = bend(width(i), width(j), j - i);
            rows.extend(slice(nodes, length, stride, i).map(|n| Penalty {
                nodes: [0, 1, j - i, j - i + 1].map(|k| index(n + k * stride)),
                factors: tie,
                weight: rules[d].smooth,
            }));
        }
    }
    rows
}

/// Factors of the difference of two slopes over intervals of these widths, the second `apart` knots after the first,
/// scaled so that its square is ∫ second derivative².
fn bend(before: f64, after: f64, apart: usize) -> [f64; 4] {
    let scale = 2.0 * f64::midpoint(before, after).sqrt() / (before + after);
    let (before, after) = (scale / before, scale / after);
    if apart == 1 {
        // The end of the first interval is the start of the second.
        [before, -before - after, 0.0, after]
    } else {
        [before, -before, -after, after]
    }
}

fn index(n: usize) -> u32 {
    u32::try_from(n).expect("grids have fewer than 2^32 nodes")
}

fn difference(low: usize, high: usize, weight: f64) -> Penalty {
    Penalty {
        nodes: [index(low), index(high), index(low), index(low)],
        factors: [-1.0, 1.0, 0.0, 0.0],
        weight,
    }
}

/// Edges of the monotone axes, with no weight yet.
fn edges(grid: &Grid, rules: &[AxisRule]) -> Vec<Penalty> {
    let nodes = grid.values().len();
    let mut rows = Vec::new();
    for ((length, stride), rule) in strides(grid).into_iter().zip(rules) {
        if rule.monotone {
            for i in 0..length.saturating_sub(1) {
                rows.extend(
                    slice(nodes, length, stride, i).map(|n| difference(n, n + stride, 0.0)),
                );
            }
        }
    }
    rows
}

/// The normal equations, applied without forming them.
struct Normal<'a> {
    design: &'a Design,
    weights: &'a [f64],
    penalties: [&'a [Penalty]; 2],
}

impl Normal<'_> {
    fn apply(&self, x: &[f64], out: &mut [f64]) {
        for (o, v) in out.iter_mut().zip(x) {
            *o = RIDGE * v;
        }
        for (i, w) in self.weights.iter().enumerate() {
            let r = w * self.design.dot(i, x);
            for (n, c) in self.design.row(i) {
                out[n] += c * r;
            }
        }
        for p in self.penalties.iter().copied().flatten() {
            if p.weight > 0.0 {
                let r: f64 = p.weight
                    * (0..4)
                        .map(|j| p.factors[j] * x[p.nodes[j] as usize])
                        .sum::<f64>();
                for j in 0..4 {
                    out[p.nodes[j] as usize] += p.factors[j] * r;
                }
            }
        }
    }

    fn diagonal(&self, nodes: usize) -> Vec<f64> {
        let mut diagonal = vec![RIDGE; nodes];
        for (i, w) in self.weights.iter().enumerate() {
            for (n, c) in self.design.row(i) {
                diagonal[n] += w * c * c;
            }
        }
        for p in self.penalties.iter().copied().flatten() {
            for j in 0..4 {
                diagonal[p.nodes[j] as usize] += p.weight * p.factors[j] * p.factors[j];
            }
        }
        diagonal
    }

    /// Conjugate gradients from `x`, preconditioned by the diagonal.
    fn solve(&self, right: &[f64], x: &mut [f64]) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let diagonal = self.diagonal(x.len());
        let mut applied = vec![0.0; x.len()];
        self.apply(x, &mut applied);
        let mut residual: Vec<f64> = right.iter().zip(&applied).map(|(b, a)| b - a).collect();
        let precondition =
            |r: &[f64]| -> Vec<f64> { r.iter().zip(&diagonal).map(|(r, d)| r / d).collect() };
        let mut z = precondition(&residual);
        let mut direction = z.clone();
        let mut rz = dot(&residual, &z);
        let goal = 1e-10 * dot(right, &precondition(right)).max(1e-30);
        for _ in 0..400 {
            if rz <= goal {
                break;
            }
            self.apply(&direction, &mut applied);
            let step = rz / dot(&direction, &applied);
            for i in 0..x.len() {
                x[i] += step * direction[i];
                residual[i] -= step * applied[i];
            }
            z = precondition(&residual);
            let next = dot(&residual, &z);
            for (d, z) in direction.iter_mut().zip(&z) {
                *d = z + next / rz * *d;
            }
            rz = next;
        }
    }
}

/// How much the values grow along an edge.
fn rise(edge: &Penalty, values: &[f64]) -> f64 {
    values[edge.nodes[1] as usize] - values[edge.nodes[0] as usize]
}

/// Fits the values of `grid` to `targets` (ln seconds) at `points`. What is smooth is the difference to the values `grid`
/// comes with: zeros, or those of a guide.
pub(super) fn fit<P: AsRef<[f64]>>(
    grid: &mut Grid,
    points: &[P],
    targets: &[f64],
    rules: &[AxisRule],
) {
    let guide = grid.values().to_vec();
    let nodes = guide.len();
    let design = Design::new(grid, points);
    let targets: Vec<f64> = targets
        .iter()
        .enumerate()
        .map(|(i, t)| t - design.dot(i, &guide))
        .collect();
    let mean = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
    let smooth = smoothness(grid, rules);
    let mut edges = edges(grid, rules);
    let mut weights = vec![1.0; targets.len()];
    let mut x = vec![0.0; nodes];
    for _ in 0..ROUNDS {
        let mut right = vec![0.0; nodes];
        for (i, t) in targets.iter().enumerate() {
            for (n, c) in design.row(i) {
                right[n] += c * weights[i] * (t - mean);
            }
        }
        for edge in &edges {
            let pull = edge.weight * rise(edge, &guide);
            right[edge.nodes[0] as usize] += pull;
            right[edge.nodes[1] as usize] -= pull;
        }
        let normal = Normal {
            design: &design,
            weights: &weights,
            penalties: [&smooth, &edges],
        };
        normal.solve(&right, &mut x);
        for (i, t) in targets.iter().enumerate() {
            let r = (t - mean - design.dot(i, &x)).abs();
            weights[i] = HUBER / r.max(HUBER);
        }
        for edge in &mut edges {
            let rise = rise(edge, &x) + rise(edge, &guide);
            edge.weight = if rise < 0.0 {
                (edge.weight.max(0.3) * 3.0).min(BARRIER)
            } else if rise < 0.02 {
                edge.weight * 0.7
            } else {
                0.0
            };
        }
    }
    for (v, g) in x.iter_mut().zip(&guide) {
        *v += mean + g;
    }
    project(grid, rules, &mut x);
    grid.set_values(x);
}

/// Makes the values monotone along the monotone axes: the mean of the running maximum and of the running minimum from
/// the other end, both of which are.
pub(super) fn project(grid: &Grid, rules: &[AxisRule], values: &mut [f64]) {
    let (mut up, mut down) = (values.to_vec(), values.to_vec());
    for ((length, stride), rule) in strides(grid).into_iter().zip(rules) {
        if !rule.monotone {
            continue;
        }
        for i in 1..length {
            for n in slice(values.len(), length, stride, i) {
                up[n] = up[n].max(up[n - stride]);
            }
        }
        for i in (0..length.saturating_sub(1)).rev() {
            for n in slice(values.len(), length, stride, i) {
                down[n] = down[n].min(down[n + stride]);
            }
        }
    }
    for (v, (u, d)) in values.iter_mut().zip(up.iter().zip(&down)) {
        *v = f64::midpoint(*u, *d);
    }
}

#[cfg(test)]
mod tests {
    use super::super::grid::Axis;
    use super::*;

    fn line(knots: &[f64]) -> Grid {
        let axis = Axis {
            name: "m".to_owned(),
            knots: knots.to_vec(),
        };
        Grid::new(vec![axis], vec![0.0; knots.len()]).unwrap()
    }

    const RULE: AxisRule = AxisRule {
        smooth: 1e-3,
        monotone: true,
    };

    #[test]
    fn a_clean_power_law_is_found_again() {
        let mut grid = line(&[1.0, 4.0, 16.0, 64.0]);
        let points: Vec<Vec<f64>> = (0..40).map(|i| vec![1.0 + f64::from(i) * 1.5]).collect();
        let targets: Vec<f64> = points.iter().map(|p| (3.0 * p[0]).ln()).collect();
        fit(&mut grid, &points, &targets, &[RULE]);
        for p in &points {
            assert!((grid.at(p) / (3.0 * p[0]) - 1.0).abs() < 0.01, "{p:?}");
        }
    }

    #[test]
    fn without_samples_the_ratio_to_the_guide_is_what_stays() {
        let mut grid = line(&[1.0, 4.0, 16.0, 64.0]);
        let steep = [0.0, 2.0, 2.1, 6.0];
        grid.set_values(steep.to_vec());
        let points = [[1.0], [4.0]];
        fit(&mut grid, &points, &[0.5, 2.5], &[RULE]);
        for (v, s) in grid.values().iter().zip(steep) {
            assert!((v - s - 0.5).abs() < 0.02, "{grid:?}");
        }
    }

    #[test]
    fn a_guide_that_falls_does_not_make_a_time_fall() {
        let mut grid = line(&[1.0, 4.0, 16.0]);
        grid.set_values(vec![3.0, 2.0, 1.0]);
        fit(&mut grid, &[[1.0], [16.0]], &[3.0, 3.2], &[RULE]);
        let v = grid.values();
        assert!(v.windows(2).all(|w| w[0] <= w[1]), "{grid:?}");
        assert!(
            (v[0] - 3.0).abs() < 0.1 && (v[2] - 3.2).abs() < 0.1,
            "{grid:?}"
        );
    }

    #[test]
    fn one_outlier_does_not_move_the_fit() {
        let mut grid = line(&[1.0, 4.0, 16.0, 64.0]);
        let points: Vec<Vec<f64>> = (0..41).map(|i| vec![1.0 + f64::from(i) * 1.5]).collect();
        let mut targets: Vec<f64> = points.iter().map(|p| p[0].ln()).collect();
        targets[20] += 3.0;
        fit(&mut grid, &points, &targets, &[RULE]);
        assert!((grid.at(&points[20]) / points[20][0] - 1.0).abs() < 0.05);
    }

    #[test]
    fn a_step_between_close_knots_is_not_smoothed_away() {
        let mut grid = line(&[16.0, 64.0, 128.0, 129.0, 256.0, 512.0]);
        let time = |x: f64| if x < 128.5 { x } else { 1.4 * x };
        let points: Vec<Vec<f64>> = (16..=512).map(|i| vec![f64::from(i)]).collect();
        let targets: Vec<f64> = points.iter().map(|p| time(p[0]).ln()).collect();
        fit(&mut grid, &points, &targets, &[RULE]);
        for x in [100.0, 128.0, 129.0, 200.0] {
            assert!((grid.at(&[x]) / time(x) - 1.0).abs() < 0.02, "{x}");
        }
    }

    #[test]
    fn falling_data_become_level() {
        let mut grid = line(&[1.0, 2.0, 4.0, 8.0, 16.0]);
        let points: Vec<Vec<f64>> = [1.0, 2.0, 4.0, 8.0, 16.0]
            .iter()
            .map(|&p| vec![p])
            .collect();
        let targets = [1.0, 2.0, 1.5, 1.4, 3.0];
        fit(&mut grid, &points, &targets, &[RULE]);
        assert!(grid.values().windows(2).all(|w| w[0] <= w[1]), "{grid:?}");
    }
}
