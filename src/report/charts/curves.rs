//! Named curves over one axis: achieved rates against sizes.

use std::path::Path;

use super::canvas::{self, Figure, Line, Panel};
use super::scale::Scale;
use crate::report::file::{Error, write_file};

/// Curves over one pair of axes, as a caller outside the report describes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// Name and unit of the axis along.
    pub x_name: String,
    /// Name and unit of the axis up.
    pub y_name: String,
    /// Name and points of each curve, ascending.
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
    /// Values with a dashed line across and a note.
    pub across: Vec<(f64, String)>,
    /// Dashed grey curves behind the named ones: bounds.
    pub behind: Vec<Vec<(f64, f64)>>,
    /// Whether the axis up is logarithmic; otherwise it starts at 0.
    pub decades: bool,
}

/// Draws curves into a PNG; nothing, and false, where there is no point.
///
/// # Errors
/// When the file cannot be written or drawn; the message names it.
pub fn write_curves(path: &Path, curves: &Curves) -> Result<bool, Error> {
    let Some(figure) = figure(curves) else {
        return Ok(false);
    };
    let png = canvas::png(&figure).map_err(|reason| Error::Chart {
        path: path.to_owned(),
        reason,
    })?;
    write_file(path, &png)?;
    Ok(true)
}

fn figure(c: &Curves) -> Option<Figure> {
    let points = || c.curves.iter().flat_map(|(_, points)| points);
    let low = points().map(|p| p.0).min_by(f64::total_cmp)?;
    let high = points().map(|p| p.0).max_by(f64::total_cmp)?;
    let marks = c.across.iter().map(|a| a.0);
    let bottom = points().map(|p| p.1).min_by(f64::total_cmp)?;
    let bounds = c.behind.iter().flatten().map(|p| p.1);
    let values = points().map(|p| p.1).chain(marks).chain(bounds);
    let top = values.max_by(f64::total_cmp)?;
    let lines = (0..).zip(&c.curves).map(|(system, (_, points))| Line {
        system,
        points: points.clone(),
        errors: Vec::new(),
    });
    Some(Figure {
        title: c.title.clone(),
        subtitle: c.subtitle.clone(),
        legend: c.curves.iter().map(|(name, _)| name.clone()).collect(),
        markers: true,
        panels: vec![Panel {
            x_name: c.x_name.clone(),
            y_name: c.y_name.clone(),
            x: Scale::fitting(low, high),
            y: if c.decades {
                Scale::decades(bottom, top)
            } else {
                Scale::linear(0.0, top)
            },
            lines: lines.collect(),
            across: c.across.clone(),
            upright: Vec::new(),
            behind: c.behind.clone(),
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_become_a_picture_and_no_points_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.png");
        let mut curves = Curves {
            title: "t".to_owned(),
            subtitle: String::new(),
            x_name: "rows".to_owned(),
            y_name: "TFLOP/s".to_owned(),
            curves: vec![("a".to_owned(), vec![(1.0, 2.0), (1000.0, 700.0)])],
            across: vec![(989.0, "peak".to_owned())],
            behind: vec![vec![(1.0, 3.0), (500.0, 900.0)]],
            decades: true,
        };
        assert!(write_curves(&path, &curves).unwrap());
        assert_eq!(&std::fs::read(&path).unwrap()[1..4], b"PNG");
        curves.curves.clear();
        assert!(!write_curves(&folder.path().join("d.png"), &curves).unwrap());
        assert!(!folder.path().join("d.png").exists());
    }
}
