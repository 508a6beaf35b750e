//! Grid, ticks, names and reference lines of a panel.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Area, Chart, Panel, font, unsigned, write_text};
use super::style::{GREY, GRID, INK, LABEL, TICK, UNIT};

/// Draws everything of a panel but its data.
pub(super) fn axes(
    area: &Area<'_>,
    chart: &mut Chart<'_, '_>,
    panel: &Panel,
) -> Result<(), String> {
    grid(chart, panel)?;
    ticks(area, chart, panel)?;
    names(area, chart, panel)?;
    references(area, chart, panel)
}

fn grid(chart: &mut Chart<'_, '_>, panel: &Panel) -> Result<(), String> {
    let (x, y) = (&panel.x, &panel.y);
    let thin = GRID.stroke_width(unsigned(UNIT));
    let upright = x.ticks.iter().map(|t| [(*t, y.range.0), (*t, y.range.1)]);
    let across = y.ticks.iter().map(|t| [(x.range.0, *t), (x.range.1, *t)]);
    let lines = upright
        .chain(across)
        .map(|ends| PathElement::new(ends.to_vec(), thin));
    let frame = vec![
        (x.range.0, y.range.1),
        (x.range.0, y.range.0),
        (x.range.1, y.range.0),
    ];
    let frame = PathElement::new(frame, INK.stroke_width(unsigned(UNIT * 5 / 4)));
    let all: Vec<_> = lines.chain(std::iter::once(frame)).collect();
    chart.draw_series(all).map_err(|e| e.to_string())?;
    Ok(())
}

fn ticks(area: &Area<'_>, chart: &Chart<'_, '_>, panel: &Panel) -> Result<(), String> {
    let (x, y) = (&panel.x, &panel.y);
    let small = || (font(TICK, FontStyle::Normal), INK);
    for tick in &x.ticks {
        let at = place(chart, (*tick, y.range.0), area);
        let anchor = (HPos::Center, VPos::Top);
        write_text(area, &x.label(*tick), (at.0, at.1 + 8), small(), anchor)?;
    }
    for tick in &y.ticks {
        let at = place(chart, (x.range.0, *tick), area);
        let anchor = (HPos::Right, VPos::Center);
        write_text(area, &y.label(*tick), (at.0 - 8, at.1), small(), anchor)?;
    }
    Ok(())
}

fn names(area: &Area<'_>, chart: &Chart<'_, '_>, panel: &Panel) -> Result<(), String> {
    let (x, y) = (&panel.x, &panel.y);
    let middle = (
        f64::midpoint(x.range.0, x.range.1),
        f64::midpoint(y.range.0, y.range.1),
    );
    let label = font(LABEL, FontStyle::Normal);
    let anchor = (HPos::Center, VPos::Top);
    let below = place(chart, (middle.0, y.range.0), area);
    let below = (below.0, below.1 + 36);
    write_text(area, &panel.x_name, below, (label.clone(), INK), anchor)?;
    let beside = place(chart, (x.range.0, middle.1), area);
    let turned = label.transform(FontTransform::Rotate270);
    write_text(area, &panel.y_name, (14, beside.1), (turned, INK), anchor)
}

fn references(area: &Area<'_>, chart: &mut Chart<'_, '_>, panel: &Panel) -> Result<(), String> {
    let (x, y) = (&panel.x, &panel.y);
    let note = || (font(TICK, FontStyle::Normal), GREY);
    for (value, text) in panel.across.iter().filter(|(value, _)| y.contains(*value)) {
        let at = y.at(*value);
        dash(chart, [(x.range.0, at), (x.range.1, at)])?;
        let end = place(chart, (x.range.1, at), area);
        let anchor = (HPos::Left, VPos::Center);
        write_text(area, text, (end.0 + 6, end.1), note(), anchor)?;
    }
    for (value, text) in panel.upright.iter().filter(|(value, _)| x.contains(*value)) {
        let at = x.at(*value);
        dash(chart, [(at, y.range.0), (at, y.range.1)])?;
        let end = place(chart, (at, y.range.1), area);
        let anchor = (HPos::Center, VPos::Bottom);
        write_text(area, text, (end.0, end.1 - 2), note(), anchor)?;
    }
    Ok(())
}

fn dash(chart: &mut Chart<'_, '_>, ends: [(f64, f64); 2]) -> Result<(), String> {
    let style = GREY.stroke_width(unsigned(UNIT * 3 / 2));
    let line = DashedLineSeries::new(ends, 6 * UNIT, 4 * UNIT, style);
    chart.draw_series(line).map_err(|e| e.to_string())?;
    Ok(())
}

/// Where a coordinate lies in the area, in design pixels.
fn place(chart: &Chart<'_, '_>, at: (f64, f64), area: &Area<'_>) -> (i32, i32) {
    let (x, y) = chart.plotting_area().map_coordinate(&at);
    let (left, top) = area.get_base_pixel();
    ((x - left) / UNIT, (y - top) / UNIT)
}
