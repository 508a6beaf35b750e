//! What stands at the end of a calibration: files and the closing table.

use std::path::Path;

use comfy_table::Table;

use super::fit::{Fitted, fit};
use crate::calibrate::check::refused;
use crate::calibrate::record::Record;
use crate::calibrate::session::Outcome as Measured;
use crate::calibrate::store::Store;
use crate::calibrate::summary::summary;
use crate::calibrate::surfaces::charts;
use crate::calibrate::{DeviceError, Kind, Work};
use crate::cli::exit::Failure;
use crate::cli::{Outcome, output};
use crate::report::{self, Curves};

/// A calibration that came to its end.
#[derive(Debug)]
pub(super) struct Finished<'a> {
    pub(super) name: &'a str,
    pub(super) out: &'a Path,
    pub(super) store: &'a Store,
    pub(super) outcome: &'a Measured,
    pub(super) record: &'a Record,
    pub(super) quiet: bool,
}

/// Writes the record, prints the closing table; fails where kernels were wrong.
pub(super) fn finish(f: &Finished<'_>) -> Outcome {
    let text = serde_yaml::to_string(f.record).map_err(|e| Failure::Broken(e.to_string()))?;
    write(&f.out.join("calibration.yaml"), &text)?;
    draw(f)?;
    report::emit(&format!("{}\n", table(f.store)))?;
    let fitted = fit(f)?;
    if let Some(fitted) = &fitted {
        report::emit(&format!("{}\n", errors(fitted)))?;
        if !f.quiet {
            output::tell(&format!("profile: {}", fitted.path.display()));
        }
    }
    if !f.quiet {
        for line in closing(f) {
            output::tell(&line);
        }
    }
    let wrong: Vec<&str> = refused(&f.outcome.verdicts)
        .into_iter()
        .map(Kind::name)
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::Broken(format!(
            "kernels gave wrong answers on this GPU, so there are no samples of: {}",
            wrong.join(", ")
        )))
    }
}

/// Draws the surfaces that were measured.
fn draw(f: &Finished<'_>) -> Result<(), Failure> {
    for chart in charts(f.store.samples()) {
        let ceiling = chart.ceiling.map(|c| (c, format!("read {c:.0}")));
        let curves = Curves {
            title: chart.title.to_owned(),
            subtitle: format!("{} · measured by pdsim calibrate", f.record.gpu),
            x_name: chart.x_name.to_owned(),
            y_name: chart.y_name.to_owned(),
            curves: chart.curves,
            across: ceiling.into_iter().collect(),
            behind: Vec::new(),
            decades: false,
        };
        report::write_curves(&f.out.join(format!("{}.png", chart.file)), &curves)?;
    }
    Ok(())
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = report::AtomicFile::create(path)?;
    file.write(text.as_bytes())?;
    file.finish()?;
    Ok(())
}

fn table(store: &Store) -> Table {
    let mut table = Table::new();
    table.load_style(
        comfy_table::presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none()),
    );
    table.set_header(["", "reached", "at", "of"]);
    for line in summary(store.samples()) {
        table.add_row([
            line.what,
            line.reached,
            line.at,
            line.share.unwrap_or_default(),
        ]);
    }
    table
}

/// How far the profile is from the samples it was fitted to.
fn errors(fitted: &Fitted) -> Table {
    let mut table = Table::new();
    table.load_style(
        comfy_table::presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none()),
    );
    table.set_header(["surface", "samples", "fit error, median %", "p90 %"]);
    for c in &fitted.checked {
        let (kind, variant) = c.kind.names();
        table.add_row([
            format!("{kind} {variant}"),
            c.samples.to_string(),
            format!("{:.2}", c.error.median),
            format!("{:.2}", c.error.p90),
        ]);
    }
    table
}

fn closing(f: &Finished<'_>) -> Vec<String> {
    let o = f.outcome;
    let mut lines = vec![format!(
        "{}: {} points measured, {} taken over, {} skipped; samples in {}",
        f.name,
        o.measured,
        o.resumed,
        o.skipped.len(),
        f.store.folder().display()
    )];
    let unfit = |(_, e): &&(Work, DeviceError)| matches!(e, DeviceError::OutOfMemory { .. });
    let unfit = o.skipped.iter().filter(unfit).count();
    if unfit > 0 {
        lines.push(format!(
            "{unfit} of the skipped points need more memory than is free"
        ));
    }
    if o.left > 0 {
        lines.push(format!(
            "{} points are left for lack of time; --resume measures on",
            o.left
        ));
    }
    lines
}
