//! Achieved rates of a profile's surfaces as curves, with the bound of the data sheet behind them.

use crate::hardware::{GpuSpec, ProfileFile};
use crate::latency::profile::{Surface, SurfaceKind, Surfaces, predict, roofline_seconds};
use crate::report::Curves;

/// Name of a curve and a point on it; the coordinate that varies is replaced.
type Curve = (String, Vec<f64>);

/// One figure: what varies, what is counted, and the curves by their fixed coordinates.
struct Figure {
    title: String,
    x_name: &'static str,
    y_name: &'static str,
    /// The axis that varies.
    axis: usize,
    /// The curves.
    curves: Vec<Curve>,
    /// Coordinate shown along, of a point.
    along: fn(SurfaceKind, &[f64]) -> f64,
    /// Work of a point in units of the rate times a second.
    work: fn(SurfaceKind, &[f64]) -> f64,
    /// Whether the bound is drawn: where rooflines of the curves differ they all are.
    bound: bool,
}

/// The figures of a profile by file name.
pub(super) fn charts(file: &ProfileFile, surfaces: &Surfaces) -> Vec<(String, Curves)> {
    let gpu = file.gpu();
    surfaces
        .values()
        .filter_map(|surface| {
            let (kind, variant) = surface.kind.names();
            let figure = figure(surface, &kind.replace('_', " "), &variant)?;
            let name = format!("{kind}-{variant}.png");
            Some((name, draw(&figure, surface, file, &gpu)))
        })
        .collect()
}

/// Bytes of an element of the KV cache.
fn kv_bytes(kind: SurfaceKind) -> f64 {
    match kind {
        SurfaceKind::DecodeAttention(kv, _) | SurfaceKind::LatentDecode(kv) => kv.bytes() as f64,
        _ => 2.0,
    }
}

const fn head_dim(kind: SurfaceKind) -> u32 {
    match kind {
        SurfaceKind::PrefillAttention(_, d) | SurfaceKind::DecodeAttention(_, d) => d,
        _ => 1,
    }
}

fn first(axis: usize) -> fn(SurfaceKind, &[f64]) -> f64 {
    match axis {
        0 => |_, p| p[0],
        _ => |_, p| p[1],
    }
}

/// Gigabytes of KV cache that a decode point reads.
fn gigabytes(kind: SurfaceKind, p: &[f64]) -> f64 {
    let elements = match kind {
        SurfaceKind::LatentDecode(_) => 576.0,
        _ => 2.0 * p[2] * f64::from(head_dim(kind)),
    };
    p[0] * p[1] * elements * kv_bytes(kind) / 1e9
}

fn tera_flop(kind: SurfaceKind, p: &[f64]) -> f64 {
    let flop = match kind {
        SurfaceKind::Gemm(_) => 2.0 * p[0] * p[1] * p[2],
        SurfaceKind::PrefillAttention(_, d) => 2.0 * p[0] * p[2] * f64::from(d) * p[1] * p[1],
        SurfaceKind::LatentPrefill(_) => 320.0 * p[0] * p[2] * p[1] * p[1],
        SurfaceKind::Experts(_) => 6.0 * p[0] * p[2] * p[3],
        _ => 0.0,
    };
    flop / 1e12
}

/// Achieved TFLOP/s of curves along an axis.
fn flops(title: &str, axis: usize, x_name: &'static str, curves: Vec<Curve>) -> Figure {
    Figure {
        title: format!("{title}: achieved TFLOP/s"),
        x_name,
        y_name: "TFLOP/s",
        axis,
        curves,
        along: first(axis),
        work: tera_flop,
        bound: true,
    }
}

/// Achieved GB/s of decode attention for batches, each at the point that `at` gives it.
fn reads(title: &str, at: impl Fn(f64) -> Vec<f64>) -> Figure {
    let curves = [1.0, 8.0, 32.0, 128.0].map(|b| (counted(b, "sequence"), at(b)));
    Figure {
        title: format!("{title}: achieved GB/s of KV reads"),
        x_name: "KV cache read (MB)",
        y_name: "GB/s",
        axis: 1,
        curves: curves.to_vec(),
        along: |kind, p| 1e3 * gigabytes(kind, p),
        work: gigabytes,
        bound: true,
    }
}

/// `1 prompt`, `4 prompts`.
fn counted(n: f64, what: &str) -> String {
    let plural = if n > 1.0 { "s" } else { "" };
    format!("{n} {what}{plural}")
}

/// Output columns and inner size of the products shown: those of Llama-3.1-8B on one GPU, and a slice of a larger model.
const SITES: [(f64, f64); 4] = [
    (6144.0, 4096.0),
    (28672.0, 4096.0),
    (4096.0, 14336.0),
    (1280.0, 8192.0),
];

fn figure(surface: &Surface, kind: &str, variant: &str) -> Option<Figure> {
    let title = &format!("{kind} {variant}");
    let middle = |axis| middle(surface, axis);
    Some(match surface.kind {
        SurfaceKind::Gemm(_) => {
            let curves = SITES.map(|(n, k)| (format!("n {n}, k {k}"), vec![1.0, n, k]));
            flops(title, 0, "rows m (tokens)", curves.to_vec())
        }
        SurfaceKind::PrefillAttention(..) => {
            let point = |b| vec![b, 1.0, middle(2), middle(3)];
            let curves = [1.0, 4.0, 16.0].map(|b| (counted(b, "prompt"), point(b)));
            flops(title, 1, "tokens of each prompt", curves.to_vec())
        }
        SurfaceKind::LatentPrefill(_) => {
            let curves = [16.0, 64.0, 128.0].map(|h| (format!("{h} heads"), vec![1.0, 1.0, h]));
            flops(title, 1, "tokens of the prompt", curves.to_vec())
        }
        SurfaceKind::Experts(_) => {
            // Near those of most models, whatever knots the surface has.
            let (hidden, inner) = (nearest(surface, 2, 4096.0), nearest(surface, 3, 1536.0));
            let point = |e| vec![1.0, e, hidden, inner, 1.0, 1.0, 1.0];
            let curves = [8.0, 64.0, 128.0].map(|e| (format!("{e} experts"), point(e)));
            let x_name = "token visits to the rank's experts";
            let title = format!("{title}, experts of {hidden} × {inner}");
            flops(&title, 0, x_name, curves.to_vec())
        }
        SurfaceKind::DecodeAttention(..) => reads(title, |b| vec![b, 1.0, 8.0, middle(3)]),
        SurfaceKind::LatentDecode(_) => reads(title, |b| vec![b, 1.0, 16.0]),
        SurfaceKind::Collective(_) => collective(surface, title),
        SurfaceKind::Elementwise | SurfaceKind::Copy(_) => Figure {
            title: format!("{title}: achieved GB/s"),
            x_name: "moved (MB)",
            y_name: "GB/s",
            axis: 0,
            curves: vec![(variant.to_owned(), vec![1.0])],
            along: |_, p| p[0] / 1e6,
            work: |_, p| p[0] / 1e9,
            bound: false,
        },
        SurfaceKind::Dispatch(..) | SurfaceKind::Launch(_) => return None,
    })
}

fn collective(surface: &Surface, title: &str) -> Figure {
    let ranks = &surface.grid.axes()[1].knots;
    Figure {
        title: format!("{title}: achieved GB/s, message over time"),
        x_name: "message (MB)",
        y_name: "GB/s",
        axis: 0,
        curves: ranks
            .iter()
            .map(|r| (format!("{r} ranks"), vec![1.0, *r]))
            .collect(),
        along: |_, p| p[0] / 1e6,
        work: |_, p| p[0] / 1e9,
        bound: false,
    }
}

/// A knot in the middle of an axis.
fn middle(surface: &Surface, axis: usize) -> f64 {
    let knots = &surface.grid.axes()[axis].knots;
    knots[(knots.len() - 1) / 2]
}

/// The knot of an axis that is nearest to `value`.
fn nearest(surface: &Surface, axis: usize, value: f64) -> f64 {
    let far = |knot: &f64| (knot / value).ln().abs();
    let knots = surface.grid.axes()[axis].knots.iter().copied();
    knots
        .min_by(|a, b| far(a).total_cmp(&far(b)))
        .unwrap_or(value)
}

/// Points of a bound between two neighbouring knots. The surface itself is a straight line between them.
const BETWEEN: u32 = 8;

/// Rates below this share of the highest are left out: launches alone.
const LEAST: f64 = 1e-3;

/// Values along an axis: its knots and some between.
fn values(knots: &[f64]) -> Vec<f64> {
    let between = |pair: &[f64]| {
        let (low, step) = (pair[0], (pair[1] / pair[0]).powf(1.0 / f64::from(BETWEEN)));
        (0..BETWEEN).map(move |i| low * step.powf(f64::from(i)))
    };
    knots
        .windows(2)
        .flat_map(between)
        .chain(knots.last().copied())
        .collect()
}

/// Leaves out what is too slow to be of interest, and bounds where there is no curve.
fn cut(curves: &mut [(String, Points)], behind: &mut [Points]) {
    let all = || curves.iter().flat_map(|(_, points)| points);
    let top = all().map(|p| p.1).fold(0.0, f64::max);
    for (_, points) in curves.iter_mut() {
        points.retain(|p| p.1 >= LEAST * top);
    }
    let left = curves
        .iter()
        .flat_map(|(_, points)| points)
        .map(|p| p.0)
        .fold(f64::INFINITY, f64::min);
    for points in behind {
        points.retain(|p| p.0 >= left);
    }
}

/// One line over the curves for bounds that are all the same rate: dashes drawn over each other look like a solid line.
fn merged(behind: Vec<Points>, curves: &[(String, Points)]) -> Vec<Points> {
    let all = || behind.iter().flatten();
    let Some(&(_, rate)) = all().next() else {
        return behind;
    };
    if all().any(|p| (p.1 / rate - 1.0).abs() > 0.01) {
        return behind;
    }
    let drawn = || curves.iter().flat_map(|(_, points)| points).map(|p| p.0);
    let left = drawn().fold(f64::INFINITY, f64::min);
    let right = drawn().fold(0.0, f64::max);
    vec![vec![(left, rate), (right, rate)]]
}

/// Points of a drawn curve.
type Points = Vec<(f64, f64)>;

/// Visits of a rank's experts that are drawn. Their surface need not have an axis of visits.
const VISITS: i32 = 16;

/// Where a surface is drawn along an axis of its points.
fn stops(figure: &Figure, surface: &Surface) -> Vec<f64> {
    match surface.kind {
        SurfaceKind::Experts(_) => (0..=VISITS).map(|i| 2f64.powi(i)).collect(),
        _ => surface.grid.axes()[figure.axis].knots.clone(),
    }
}

/// A point of a curve. Each visit goes to any of the rank's experts.
fn at(figure: &Figure, kind: SurfaceKind, curve: &[f64], value: f64) -> Vec<f64> {
    let mut point = curve.to_vec();
    point[figure.axis] = value;
    if let SurfaceKind::Experts(_) = kind {
        let experts = point[1];
        let touched = experts * (1.0 - (1.0 - 1.0 / experts).powf(value));
        point[5..].copy_from_slice(&[value, touched]);
    }
    point
}

fn draw(figure: &Figure, surface: &Surface, file: &ProfileFile, gpu: &GpuSpec) -> Curves {
    let knots = &stops(figure, surface);
    let kind = surface.kind;
    let rate = |point: &[f64], seconds: f64| {
        (
            (figure.along)(kind, point),
            (figure.work)(kind, point) / seconds,
        )
    };
    let (mut curves, mut behind): (Vec<(String, Points)>, Vec<Points>) = Default::default();
    for (name, point) in &figure.curves {
        let at = |value: f64| at(figure, kind, point, value);
        let measured = knots.iter().map(|&value| at(value)).filter_map(|point| {
            let timed = predict(surface, &point, gpu);
            timed.measured.then(|| rate(&point, timed.seconds))
        });
        let measured: Points = measured.collect();
        if measured.len() < 2 {
            continue;
        }
        if figure.bound {
            let points = values(knots).into_iter().map(at);
            let bounds = points.map(|point| rate(&point, roofline_seconds(kind, &point, gpu)));
            behind.push(bounds.collect());
        }
        curves.push((name.clone(), measured));
    }
    cut(&mut curves, &mut behind);
    let bound = if figure.bound {
        "; dashed: the data sheet's roofline"
    } else {
        ""
    };
    let from = file.provenance.name();
    let behind = merged(behind, &curves);
    Curves {
        title: figure.title.clone(),
        subtitle: format!(
            "{} · {from} · measured part of the surface{bound}",
            file.name
        ),
        x_name: figure.x_name.to_owned(),
        y_name: figure.y_name.to_owned(),
        curves,
        across: Vec::new(),
        behind,
        decades: true,
    }
}
