//! What stands at the end of a calibration: files and the closing table.

use std::path::Path;

use comfy_table::Table;

use crate::calibrate::Kind;
use crate::calibrate::check::refused;
use crate::calibrate::record::Record;
use crate::calibrate::session::Outcome as Measured;
use crate::calibrate::store::Store;
use crate::calibrate::summary::summary;
use crate::cli::exit::Failure;
use crate::cli::{Outcome, output};
use crate::report;

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
    report::emit(&format!("{}\n", table(f.store)))?;
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

fn write(path: &Path, text: &str) -> Result<(), Failure> {
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
    if o.left > 0 {
        lines.push(format!(
            "{} points are left for lack of time; --resume measures on",
            o.left
        ));
    }
    lines
}
