//! The page of `pdsim trace info`: arrivals over time, lengths with their margins, inter-arrival times.

use plotters::prelude::*;

use super::axes::axes;
use super::canvas::{Area, Chart, Panel, count, font, rasterise, unsigned, write_text};
use super::scale::Scale;
use super::style::{GREY, INK, SUBTITLE, TITLE, UNIT, WIDTH, look, register_fonts};
use plotters::style::text_anchor::{HPos, VPos};

use crate::workload::stats::TraceStats;

/// Design height of the row of arrivals.
const TOP: i32 = 270;

/// Design height of the row of lengths and gaps.
const BOTTOM: i32 = 470;

/// Design height of the title.
const HEAD: i32 = 70;

/// Design width of the scatter with its right margin plot.
const LEFT: i32 = 540;

/// Design size of the two margin plots.
const MARGIN: i32 = 60;

/// Points of the arrivals, at most.
const BINS: usize = 240;

/// Milliseconds in a second, for the axis.
const MS: f64 = 1000.0;

/// Bars of a margin or a histogram to a factor of ten.
const PER_DECADE: i32 = 12;

/// Draws the page as PNG.
pub(in crate::report) fn page(stats: &TraceStats) -> Result<Vec<u8>, String> {
    register_fonts()?;
    let size = (
        unsigned(WIDTH * UNIT),
        unsigned((HEAD + TOP + BOTTOM) * UNIT),
    );
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|e| e.to_string())?;
        heading(&root, stats)?;
        let part = |x: i32, y: i32, w: i32, h: i32| {
            root.clone()
                .shrink((x * UNIT, y * UNIT), (w * UNIT, h * UNIT))
        };
        arrivals(&part(0, HEAD, WIDTH, TOP), stats)?;
        lengths(&part(0, HEAD + TOP, LEFT, BOTTOM), stats)?;
        gaps(&part(LEFT, HEAD + TOP, WIDTH - LEFT, BOTTOM), stats)?;
        root.present().map_err(|e| e.to_string())?;
    }
    rasterise(&text)
}

fn heading(root: &Area<'_>, stats: &TraceStats) -> Result<(), String> {
    let name = stats
        .report
        .path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let corner = (HPos::Left, VPos::Top);
    write_text(
        root,
        &name,
        (18, 14),
        (font(TITLE, FontStyle::Bold), INK),
        corner,
    )?;
    let rate = stats
        .rate
        .map_or(String::new(), |rate| format!(" · {rate:.3} requests/s"));
    let span = span(stats.report.span.as_secs_f64());
    let text = format!("{} requests · {span}{rate}", grouped(stats.report.kept));
    write_text(
        root,
        &text,
        (18, 42),
        (font(SUBTITLE, FontStyle::Normal), GREY),
        corner,
    )
}

/// A whole number with commas between thousands.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A span in the unit that suits it.
fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 3.0 * 86_400.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 3.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 300.0 => format!("{:.1} min", s / 60.0),
        s => format!("{s:.1} s"),
    }
}

fn panel(x_name: &str, y_name: &str, x: Scale, y: Scale) -> Panel {
    Panel {
        x_name: x_name.to_owned(),
        y_name: y_name.to_owned(),
        x,
        y,
        lines: Vec::new(),
        across: Vec::new(),
        upright: Vec::new(),
        behind: Vec::new(),
    }
}

/// Builds the axes of a panel, leaving room at the top and the right in design pixels.
fn build<'a, 'b>(
    area: &'a Area<'b>,
    panel: &Panel,
    top: i32,
    right: i32,
) -> Result<Chart<'a, 'b>, String> {
    let (x, y) = (&panel.x, &panel.y);
    let mut chart = ChartBuilder::on(area)
        .margin_top(top * UNIT)
        .margin_right(right * UNIT)
        .x_label_area_size(64 * UNIT)
        .y_label_area_size(80 * UNIT)
        .build_cartesian_2d(x.range.0..x.range.1, y.range.0..y.range.1)
        .map_err(|e| e.to_string())?;
    axes(area, &mut chart, panel)?;
    Ok(chart)
}

/// The rate in bins of time, as a line of steps.
fn arrivals(area: &Area<'_>, stats: &TraceStats) -> Result<(), String> {
    let coarse = stats.timeline.at_most(BINS);
    let width = coarse.width().as_secs_f64();
    let end = stats.report.span.as_secs_f64().max(width);
    // The unit of the axis follows the span.
    let (unit, name) = match end {
        s if s > 3.0 * 86_400.0 => (86_400.0, "time since the first arrival, days"),
        s if s > 3.0 * 3600.0 => (3600.0, "time since the first arrival, h"),
        s if s > 300.0 => (60.0, "time since the first arrival, min"),
        _ => (1.0, "time since the first arrival, s"),
    };
    let rates: Vec<f64> = coarse
        .bins()
        .iter()
        .map(|bin| bin.0 as f64 / width)
        .collect();
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let panel = panel(
        name,
        "arrivals, requests/s",
        Scale::until(end / unit),
        Scale::linear(0.0, highest),
    );
    let mut chart = build(area, &panel, 12, 34)?;
    let mut steps = Vec::new();
    for (i, rate) in rates.iter().enumerate() {
        let from = i as f64 * width / unit;
        let to = (from + width / unit).min(end / unit);
        steps.extend([(from, *rate), (to, *rate)]);
    }
    let colour = look(0).colour;
    let filled = AreaSeries::new(steps, 0.0, colour.mix(0.25))
        .border_style(colour.stroke_width(unsigned(UNIT * 3 / 2)));
    chart.draw_series(filled).map_err(|e| e.to_string())?;
    Ok(())
}

/// Prompt against output lengths on logarithmic axes, with the share of each along them.
fn lengths(area: &Area<'_>, stats: &TraceStats) -> Result<(), String> {
    // What is drawn sets the axes: a single longest request among millions would leave the rest a dot in a corner.
    let reach = |length: fn(&(u32, u32)) -> u32| {
        let lengths = || stats.pairs.iter().map(length);
        let (low, high) = (lengths().min().unwrap_or(1), lengths().max().unwrap_or(1));
        decades(
            f64::from(low),
            f64::from(high.max(low.saturating_mul(10))),
            6,
        )
    };
    let panel = panel(
        "prompt tokens",
        "output tokens",
        reach(|pair| pair.0),
        reach(|pair| pair.1),
    );
    let mut chart = build(area, &panel, MARGIN + 8, MARGIN + 8)?;
    let dot = look(0).colour.mix(0.35).filled();
    let radius = unsigned(UNIT * 2);
    let points = stats
        .pairs
        .iter()
        .map(|(x, y)| (panel.x.at(f64::from(*x)), panel.y.at(f64::from(*y))));
    let dots: Vec<_> = points.map(|at| Circle::new(at, radius, dot)).collect();
    chart.draw_series(dots).map_err(|e| e.to_string())?;
    let place = |at: (f64, f64)| chart.backend_coord(&at);
    let base = area.get_base_pixel();
    let local = |at: (f64, f64)| {
        let (x, y) = place(at);
        (x - base.0, y - base.1)
    };
    let (xs, ys) = (panel.x.range, panel.y.range);
    let bar = look(0).colour.mix(0.5).filled();
    let input: Vec<f64> = stats
        .pairs
        .iter()
        .map(|pair| panel.x.at(f64::from(pair.0)))
        .collect();
    let output: Vec<f64> = stats
        .pairs
        .iter()
        .map(|pair| panel.y.at(f64::from(pair.1)))
        .collect();
    for (from, to, share) in bars(&input, xs) {
        let (left, edge) = local((from, ys.1));
        let (right, _) = local((to, ys.1));
        let height = pixels(share, MARGIN * UNIT);
        area.draw(&Rectangle::new([(left, edge - height), (right, edge)], bar))
            .map_err(|e| e.to_string())?;
    }
    for (from, to, share) in bars(&output, ys) {
        let (edge, bottom) = local((xs.1, from));
        let (_, top) = local((xs.1, to));
        let length = pixels(share, MARGIN * UNIT);
        area.draw(&Rectangle::new([(edge, top), (edge + length, bottom)], bar))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// A logarithmic axis whose labels have room: powers of ten only, once there are more than `most`, and then as few of these.
fn decades(low: f64, high: f64, most: usize) -> Scale {
    let mut scale = Scale::decades(low, high);
    if scale.ticks.len() > most {
        scale
            .ticks
            .retain(|tick| (tick - tick.round()).abs() < 1e-9);
    }
    let every = scale.ticks.len().div_ceil(most).max(1);
    let mut at = 0;
    scale.ticks.retain(|_| {
        at += 1;
        (at - 1) % every == 0
    });
    scale
}

/// Counts in equal bins of a logarithmic coordinate, relative to the fullest: from, to, share.
fn bars(values: &[f64], range: (f64, f64)) -> Vec<(f64, f64, f64)> {
    let width = 1.0 / f64::from(PER_DECADE);
    let bins = pixels((range.1 - range.0) / width, 1).max(0) + 1;
    let mut counts = vec![0_u32; usize::try_from(bins).unwrap_or(1)];
    let last = counts.len() - 1;
    for value in values {
        let at = usize::try_from(pixels(((value - range.0) / width).floor(), 1)).unwrap_or(0);
        counts[at.min(last)] += 1;
    }
    let fullest = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
    let edge = |i: usize| range.0 + f64::from(count(i)) * width;
    let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    filled
        .map(|(i, n)| (edge(i), edge(i + 1).min(range.1), f64::from(*n) / fullest))
        .collect()
}

/// `share × whole`, rounded.
fn pixels(share: f64, whole: i32) -> i32 {
    let value = (share * f64::from(whole)).round().clamp(0.0, 1e6);
    #[expect(clippy::cast_possible_truncation, reason = "clamped just before")]
    let value = value as i32;
    value
}

/// Inter-arrival times in logarithmic bins, beside what a Poisson process of the same rate would show.
fn gaps(area: &Area<'_>, stats: &TraceStats) -> Result<(), String> {
    let bins = stats.gaps.coarse(unsigned(PER_DECADE));
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        let style = (font(SUBTITLE, FontStyle::Normal), GREY);
        let text = "all requests arrive at once: no inter-arrival times";
        return write_text(area, text, (20, 40), style, (HPos::Left, VPos::Top));
    };
    let total = (stats.gaps.count() + stats.zero_gaps) as f64;
    let step = (std::f64::consts::LN_10 / f64::from(PER_DECADE)).exp();
    let quantile = |p: f64| stats.gaps.quantile(p);
    let share = |n: u64| n as f64 / total * 100.0;
    let rate = stats.rate.unwrap_or(0.0);
    let poisson = |edge: f64| ((-rate * edge).exp() - (-rate * edge * step).exp()) * 100.0;
    // Tails of very short and very long gaps would push the rest together; the Poisson curve has its end at ten mean gaps.
    let tail = quantile(0.999).unwrap_or(last.0) * step;
    let high = tail.max(if rate > 0.0 { 10.0 / rate } else { 0.0 });
    // At least a factor of a hundred, so that a single gap is a bar and not a wall, and at most seven decades.
    let low = first.0.max(quantile(0.005).unwrap_or(first.0));
    let low = low.clamp(high / 1e7, high / 100.0);
    let x = decades(low * MS, high * MS, 4);
    let highest = bins
        .iter()
        .map(|bin| share(bin.1).max(poisson(bin.0)))
        .fold(0.0, f64::max);
    let panel = panel(
        "inter-arrival time, ms",
        "share of gaps, %",
        x,
        Scale::linear(0.0, highest),
    );
    let mut chart = build(area, &panel, MARGIN + 8, 20)?;
    let shown = bins
        .iter()
        .filter(|bin| panel.x.contains(bin.0 * MS) && panel.x.contains(bin.0 * step * MS));
    let fill = look(0).colour.mix(0.5).filled();
    let rectangles: Vec<_> = shown
        .map(|(edge, n)| {
            Rectangle::new(
                [
                    (panel.x.at(*edge * MS), 0.0),
                    (panel.x.at(edge * step * MS), share(*n)),
                ],
                fill,
            )
        })
        .collect();
    chart.draw_series(rectangles).map_err(|e| e.to_string())?;
    poisson_curve(&mut chart, &panel, step, poisson)?;
    let zeros = match stats.zero_gaps {
        0 => String::new(),
        zeros => format!("{:.1} % of gaps are 0 and not shown", share(zeros)),
    };
    let corner = (HPos::Left, VPos::Top);
    let small = || font(SUBTITLE, FontStyle::Normal);
    write_text(
        area,
        "Poisson of the same rate",
        (84, 12),
        (small(), look(1).colour),
        corner,
    )?;
    write_text(area, &zeros, (84, 34), (small(), GREY), corner)
}

/// The curve of shares that `poisson` gives for a bin's lower edge in seconds, through the middles of the bins.
fn poisson_curve(
    chart: &mut Chart<'_, '_>,
    panel: &Panel,
    step: f64,
    poisson: impl Fn(f64) -> f64,
) -> Result<(), String> {
    let (from, to) = panel.x.range;
    let steps = ((to - from) * f64::from(PER_DECADE)).ceil();
    let curve = (0..=pixels(steps, 1)).map(|i| from + f64::from(i) / f64::from(PER_DECADE));
    let half = step.ln() / 2.0 / std::f64::consts::LN_10;
    let curve = curve.filter(|at| *at + half <= to).map(|at| {
        (
            at + half,
            poisson((at * std::f64::consts::LN_10).exp() / MS),
        )
    });
    chart
        .draw_series(LineSeries::new(
            curve,
            look(1).colour.stroke_width(unsigned(UNIT * 2)),
        ))
        .map_err(|e| e.to_string())?;
    Ok(())
}
