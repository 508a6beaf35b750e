//! Draws a figure described as data.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg;

use super::axes::axes;
use super::scale::Scale;
use super::style::{
    FAMILY, GREY, INK, LABEL, Marker, PANEL_HEIGHT, STACKED_HEIGHT, SUBTITLE, TITLE, TO_PIXELS,
    UNIT, WIDTH, fonts, look, register_fonts,
};

/// A chart: stacked panels under a title, a subtitle and a legend of systems.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) subtitle: String,
    /// Names by system index.
    pub(super) legend: Vec<String>,
    /// Whether data points carry markers.
    pub(super) markers: bool,
    pub(super) panels: Vec<Panel>,
}

/// One pair of axes.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    /// Name and unit; empty when the panel below has the same axis.
    pub(super) x_name: String,
    pub(super) y_name: String,
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) lines: Vec<Line>,
    /// Values of y with a dashed grey line across and a note at its right end.
    pub(super) across: Vec<(f64, String)>,
    /// Values of x with a dashed grey line up and a note above it.
    pub(super) upright: Vec<(f64, String)>,
    /// Dashed grey curves behind the lines.
    pub(super) behind: Vec<Vec<(f64, f64)>>,
}

/// The line of a system.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) system: usize,
    pub(super) points: Vec<(f64, f64)>,
    /// Half widths of intervals by point; empty for none.
    pub(super) errors: Vec<Option<f64>>,
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Left edge of titles and legend, in design pixels.
const EDGE: i32 = 18;

/// Width of a line sample in the legend, with its gap.
const SAMPLE: i32 = 52;

/// Height of a row of the legend.
const ROW: i32 = 26;

/// Room for the name of the x axis below the last panel.
const X_NAME: i32 = 34;

/// Draws the figure as PNG.
pub(super) fn png(figure: &Figure) -> Result<Vec<u8>, String> {
    rasterise(&svg(figure)?)
}

pub(super) fn rasterise(svg: &str) -> Result<Vec<u8>, String> {
    let options = usvg::Options {
        fontdb: fonts(),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).map_err(|e| e.to_string())?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(TO_PIXELS)
        .ok_or("the picture has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
    let scale = Transform::from_scale(TO_PIXELS, TO_PIXELS);
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| e.to_string())
}

/// Draws the figure as SVG.
fn svg(figure: &Figure) -> Result<String, String> {
    register_fonts()?;
    let rows = legend_rows(figure);
    let panel_height = if figure.panels.len() > 1 {
        STACKED_HEIGHT
    } else {
        PANEL_HEIGHT
    };
    let top = legend_top(figure) + ROW * count(rows.len());
    let panels = count(figure.panels.len());
    let height = top + panels * panel_height + X_NAME;
    let mut text = String::new();
    {
        let size = (unsigned(WIDTH * UNIT), unsigned(height * UNIT));
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(|e| e.to_string())?;
        heading(&root, figure)?;
        legend(&root, figure, &rows)?;
        for (i, panel) in (0..).zip(&figure.panels) {
            let from = top + i * panel_height;
            let extra = if i + 1 == panels { X_NAME } else { 0 };
            let size = (WIDTH * UNIT, (panel_height + extra) * UNIT);
            let area = root.clone().shrink((0, from * UNIT), size);
            draw_panel(&area, panel, figure.markers, 30 + extra)?;
        }
        root.present().map_err(|e| e.to_string())?;
    }
    Ok(text)
}

pub(super) fn count(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

pub(super) fn unsigned(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// A font of `size` design pixels. plotters divides by 1.24 when it writes SVG.
pub(super) fn font(size: i32, style: FontStyle) -> FontDesc<'static> {
    let size = f64::from(size * UNIT) * 1.24;
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// Writes text at a place in design pixels.
pub(super) fn write_text(
    area: &Area<'_>,
    text: &str,
    (x, y): (i32, i32),
    (font, colour): (FontDesc<'static>, RGBColor),
    anchor: (HPos, VPos),
) -> Result<(), String> {
    let style = TextStyle::from(font)
        .color(&colour)
        .pos(Pos::new(anchor.0, anchor.1));
    area.draw(&Text::new(text.to_owned(), (x * UNIT, y * UNIT), style))
        .map_err(|e| e.to_string())
}

fn heading(root: &Area<'_>, figure: &Figure) -> Result<(), String> {
    let corner = (HPos::Left, VPos::Top);
    let bold = (font(TITLE, FontStyle::Bold), INK);
    write_text(root, &figure.title, (EDGE, 14), bold, corner)?;
    let small = (font(SUBTITLE, FontStyle::Normal), GREY);
    write_text(root, &figure.subtitle, (EDGE, 42), small, corner)
}

fn legend_top(figure: &Figure) -> i32 {
    if figure.subtitle.is_empty() { 44 } else { 68 }
}

/// Systems of each row of the legend with their left edges.
fn legend_rows(figure: &Figure) -> Vec<Vec<(usize, i32)>> {
    let mut rows = vec![Vec::new()];
    let mut x = EDGE;
    for (system, name) in figure.legend.iter().enumerate() {
        let wide = SAMPLE + text_width(name) + 44;
        if x + wide > WIDTH && x > EDGE {
            rows.push(Vec::new());
            x = EDGE;
        }
        if let Some(row) = rows.last_mut() {
            row.push((system, x));
        }
        x += wide;
    }
    rows
}

/// Width of a legend name in design pixels.
fn text_width(text: &str) -> i32 {
    match font(LABEL, FontStyle::Normal).box_size(text) {
        Ok((wide, _)) => count(wide as usize) * 100 / 124 / UNIT,
        // Without a measure, as if all letters were wide.
        Err(_) => count(text.chars().count()) * LABEL,
    }
}

fn legend(root: &Area<'_>, figure: &Figure, rows: &[Vec<(usize, i32)>]) -> Result<(), String> {
    let middles = (0..).map(|row| legend_top(figure) + ROW / 2 + row * ROW);
    for (row, y) in rows.iter().zip(middles) {
        for (system, x) in row {
            let look = look(*system);
            let ends = [(x * UNIT, y * UNIT), ((x + 43) * UNIT, y * UNIT)];
            let style = look.colour.stroke_width(line_width());
            match look.dash {
                None => root.draw(&PathElement::new(ends.to_vec(), style)),
                Some((on, off)) => {
                    root.draw(&DashedPathElement::new(ends, on * UNIT, off * UNIT, style))
                }
            }
            .map_err(|e| e.to_string())?;
            if figure.markers {
                let shape = marker(look.marker, ((x + 21) * UNIT, y * UNIT), look.colour);
                root.draw(&shape).map_err(|e| e.to_string())?;
            }
            let label = (font(LABEL, FontStyle::Normal), INK);
            let place = (x + SAMPLE, y);
            let anchor = (HPos::Left, VPos::Center);
            write_text(root, &figure.legend[*system], place, label, anchor)?;
        }
    }
    Ok(())
}

/// Width of data lines in drawing units.
fn line_width() -> u32 {
    unsigned(UNIT * 9 / 4)
}

fn draw_panel(area: &Area<'_>, panel: &Panel, markers: bool, bottom: i32) -> Result<(), String> {
    let (x, y) = (&panel.x, &panel.y);
    // Notes at reference lines go outside the plot, above it and to its right.
    let right = if panel.across.is_empty() { 34 } else { 108 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(26 * UNIT)
        .margin_right(right * UNIT)
        .x_label_area_size(bottom * UNIT)
        .y_label_area_size(80 * UNIT)
        .build_cartesian_2d(x.range.0..x.range.1, y.range.0..y.range.1)
        .map_err(|e| e.to_string())?;
    axes(area, &mut chart, panel)?;
    for curve in &panel.behind {
        draw_behind(&mut chart, panel, curve)?;
    }
    for line in &panel.lines {
        draw_line(&mut chart, panel, line)?;
        draw_errors(&mut chart, panel, line)?;
        if markers {
            draw_markers(&mut chart, panel, line)?;
        }
    }
    Ok(())
}

fn draw_behind(
    chart: &mut Chart<'_, '_>,
    panel: &Panel,
    curve: &[(f64, f64)],
) -> Result<(), String> {
    let on = curve
        .iter()
        .filter(|(x, y)| panel.x.contains(*x) && panel.y.contains(*y))
        .map(|(x, y)| (panel.x.at(*x), panel.y.at(*y)));
    let style = GREY.stroke_width(unsigned(UNIT * 3 / 2));
    let dashes = DashedLineSeries::new(on, 6 * UNIT, 4 * UNIT, style);
    chart.draw_series(dashes).map_err(|e| e.to_string())?;
    Ok(())
}

/// The points on the axes, in coordinates.
fn on_axes(panel: &Panel, line: &Line) -> Vec<(f64, f64)> {
    line.points
        .iter()
        .filter(|(x, y)| panel.x.contains(*x) && panel.y.contains(*y))
        .map(|(x, y)| (panel.x.at(*x), panel.y.at(*y)))
        .collect()
}

/// The line as far as the ends of the x axis, also between points on either side of an end.
fn cut(panel: &Panel, line: &Line) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = line
        .points
        .iter()
        .map(|(x, y)| (panel.x.at(*x), panel.y.at(*y)))
        .collect();
    let (low, high) = panel.x.range;
    let mut out = Vec::new();
    for (i, (x, y)) in points.iter().enumerate() {
        if let Some((x0, y0)) = i.checked_sub(1).map(|before| points[before]) {
            for end in [low, high] {
                if x0.min(*x) < end && end < x0.max(*x) {
                    out.push((end, y0 + (y - y0) * (end - x0) / (x - x0)));
                }
            }
        }
        if low <= *x && *x <= high {
            out.push((*x, *y));
        }
    }
    out
}

fn draw_line(chart: &mut Chart<'_, '_>, panel: &Panel, line: &Line) -> Result<(), String> {
    let look = look(line.system);
    let style = look.colour.stroke_width(line_width());
    let points = cut(panel, line);
    match look.dash {
        None => chart.draw_series(LineSeries::new(points, style)).map(drop),
        Some((on, off)) => {
            let dashes = DashedLineSeries::new(points, on * UNIT, off * UNIT, style);
            chart.draw_series(dashes).map(drop)
        }
    }
    .map_err(|e| e.to_string())
}

fn draw_markers(chart: &mut Chart<'_, '_>, panel: &Panel, line: &Line) -> Result<(), String> {
    let look = look(line.system);
    let shapes: Vec<_> = on_axes(panel, line)
        .into_iter()
        .map(|at| EmptyElement::at(at) + marker(look.marker, (0, 0), look.colour))
        .collect();
    chart.draw_series(shapes).map_err(|e| e.to_string())?;
    Ok(())
}

/// Intervals as bars with caps, cut at the ends of the axis.
fn draw_errors(chart: &mut Chart<'_, '_>, panel: &Panel, line: &Line) -> Result<(), String> {
    let (low, high) = panel.y.range;
    let cap = (panel.x.range.1 - panel.x.range.0) / 160.0;
    let style = look(line.system)
        .colour
        .stroke_width(unsigned(UNIT * 3 / 2));
    for ((x, y), half) in line.points.iter().zip(&line.errors) {
        let Some(half) = half else { continue };
        let x = panel.x.at(*x);
        let (from, to) = ((y - half).max(low), (y + half).min(high));
        let strokes = [
            [(x, from), (x, to)],
            [(x - cap, from), (x + cap, from)],
            [(x - cap, to), (x + cap, to)],
        ];
        chart
            .draw_series(strokes.map(|ends| PathElement::new(ends.to_vec(), style)))
            .map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// A filled marker centred at a place in drawing units.
fn marker(kind: Marker, (x, y): (i32, i32), colour: RGBColor) -> Polygon<(i32, i32)> {
    // Corners around the centre in percent of the radius; the circle is a 16-gon.
    let corners: &[(i32, i32)] = match kind {
        Marker::Circle => &[
            (100, 0),
            (92, 38),
            (71, 71),
            (38, 92),
            (0, 100),
            (-38, 92),
            (-71, 71),
            (-92, 38),
            (-100, 0),
            (-92, -38),
            (-71, -71),
            (-38, -92),
            (0, -100),
            (38, -92),
            (71, -71),
            (92, -38),
        ],
        Marker::Square => &[(-88, -88), (88, -88), (88, 88), (-88, 88)],
        Marker::Triangle => &[(0, -120), (110, 75), (-110, 75)],
        Marker::Diamond => &[(0, -125), (125, 0), (0, 125), (-125, 0)],
    };
    let radius = 6 * UNIT;
    let corners: Vec<(i32, i32)> = corners
        .iter()
        .map(|(dx, dy)| (x + dx * radius / 100, y + dy * radius / 100))
        .collect();
    Polygon::new(corners, colour.filled())
}
