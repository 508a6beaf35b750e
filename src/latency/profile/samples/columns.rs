//! Columns by name.

use super::super::error::ProfileError;

/// Other names of columns.
const ALIASES: &[(&str, &[&str])] = &[
    ("new_tokens", &["q_len"]),
    ("context_tokens", &["kv_len"]),
    ("dtype", &["quant"]),
    ("expert_size", &["inter"]),
    ("tp", &["moe_tp"]),
    ("ep", &["moe_ep"]),
    ("ranks", &["num_gpus"]),
    ("kind", &["op"]),
    ("implementation", &["impl"]),
];

/// Time columns and the seconds of their unit.
const TIMES: &[(&str, f64)] = &[
    ("time_us", 1e-6),
    ("time_ms", 1e-3),
    ("latency_ms", 1e-3),
    ("time_s", 1.0),
    ("dispatch_ms", 1e-3),
];

/// The header of a file.
#[derive(Debug)]
pub(super) struct Columns {
    path: String,
    names: Vec<String>,
    time: (usize, f64),
}

impl Columns {
    /// Reads a header; there must be one time column with a unit.
    pub(super) fn new(path: &str, header: &csv::StringRecord) -> Result<Self, ProfileError> {
        let names: Vec<String> = header.iter().map(|n| n.trim().to_owned()).collect();
        let time = TIMES
            .iter()
            .find_map(|(name, unit)| names.iter().position(|n| n == name).map(|i| (i, *unit)));
        let Some(time) = time else {
            return Err(ProfileError::MissingColumn {
                path: path.to_owned(),
                column: "time_us (or time_ms, time_s)".to_owned(),
                found: names.join(", "),
            });
        };
        Ok(Self {
            path: path.to_owned(),
            names,
            time,
        })
    }

    /// A row under this header.
    pub(super) const fn row<'a>(&'a self, record: &'a csv::StringRecord, line: u64) -> Row<'a> {
        Row {
            columns: self,
            record,
            line,
        }
    }

    fn position(&self, column: &str) -> Option<usize> {
        let find = |name: &str| self.names.iter().position(|n| n == name);
        find(column).or_else(|| {
            let (_, others) = ALIASES.iter().find(|(name, _)| *name == column)?;
            others.iter().find_map(|other| find(other))
        })
    }
}

/// One row.
#[derive(Debug)]
pub(super) struct Row<'a> {
    columns: &'a Columns,
    record: &'a csv::StringRecord,
    line: u64,
}

impl Row<'_> {
    /// Whether the file has the column.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.position(column).is_some()
    }

    /// Whether the file's header has this very name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.columns.names.iter().any(|n| n == name)
    }

    /// A cell as text.
    pub(super) fn text(&self, column: &str) -> Result<&str, ProfileError> {
        let Some(i) = self.columns.position(column) else {
            return Err(ProfileError::MissingColumn {
                path: self.columns.path.clone(),
                column: column.to_owned(),
                found: self.columns.names.join(", "),
            });
        };
        Ok(self.record.get(i).unwrap_or_default().trim())
    }

    /// A cell as a whole number of at least `least`.
    pub(super) fn count(&self, column: &str, least: u32) -> Result<u32, ProfileError> {
        let text = self.text(column)?;
        match text.parse::<u32>() {
            Ok(n) if n >= least => Ok(n),
            _ => Err(self.bad(column, "a whole number, at least 1 (0 for no window)")),
        }
    }

    /// A cell as a positive number.
    pub(super) fn positive(&self, column: &str) -> Result<f64, ProfileError> {
        match self.text(column)?.parse::<f64>() {
            Ok(x) if x.is_finite() && x > 0.0 => Ok(x),
            _ => Err(self.bad(column, "a number above zero")),
        }
    }

    /// The time in seconds; between 10 ns and 1000 s, or the unit is wrong.
    pub(super) fn seconds(&self) -> Result<f64, ProfileError> {
        let (i, unit) = self.columns.time;
        self.seconds_in(&self.columns.names[i], unit)
    }

    /// [`Row::seconds`] of another time column with its unit.
    pub(super) fn seconds_in(&self, column: &str, unit: f64) -> Result<f64, ProfileError> {
        let seconds = self.positive(column)? * unit;
        if (1e-8..1e3).contains(&seconds) {
            Ok(seconds)
        } else {
            Err(self.bad(
                column,
                "a time between 10 ns and 1000 s in the unit the column names",
            ))
        }
    }

    /// An error about a cell.
    pub(super) fn bad(&self, column: &str, allowed: &'static str) -> ProfileError {
        ProfileError::BadCell {
            path: self.columns.path.clone(),
            line: self.line,
            column: column.to_owned(),
            value: self.text(column).unwrap_or_default().to_owned(),
            allowed,
        }
    }
}
