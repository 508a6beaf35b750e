//! `--require`: conditions on the figures, for scripts and CI.

use std::fmt;
use std::str::FromStr;

use crate::names::did_you_mean;
use crate::report::{Pooled, Report, figures};

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// Longest first, so that `>=` is not read as `>`.
const OPS: [(&str, Op); 4] = [
    (">=", Op::AtLeast),
    ("<=", Op::AtMost),
    (">", Op::Above),
    ("<", Op::Below),
];

/// `[SYSTEM.]FIGURE OP VALUE`: holds when it holds for every named system at every point of the sweep.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    system: Option<String>,
    figure: String,
    op: Op,
    value: f64,
    text: String,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: String| {
            format!(
                "--require {text}: {why}; write `[SYSTEM.]FIGURE>=VALUE`, as in `attainment>=0.9`"
            )
        };
        let found = OPS
            .iter()
            .find_map(|(sign, op)| Some((text.split_once(sign)?, *op)));
        let Some(((left, right), op)) = found else {
            return Err(bad("has none of `>=`, `<=`, `>`, `<`".to_owned()));
        };
        let value: f64 = right
            .trim()
            .parse()
            .map_err(|_| bad(format!("`{}` is not a number", right.trim())))?;
        if !value.is_finite() {
            return Err(bad(format!("`{}` is not a finite number", right.trim())));
        }
        let (system, figure) = match left.trim().split_once('.') {
            Some((system, figure)) => (Some(system.to_owned()), figure),
            None => (None, left.trim()),
        };
        let names: Vec<&str> = figures().map(|figure| figure.name).collect();
        if !names.contains(&figure) {
            let near = did_you_mean(figure, names.iter().copied());
            return Err(bad(format!(
                "unknown figure `{figure}`{near} (allowed: {})",
                names.join(", ")
            )));
        }
        Ok(Self {
            system,
            figure: figure.to_owned(),
            op,
            value,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    /// Checks that the named system exists.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn check_system<'a>(
        &self,
        systems: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), String> {
        match &self.system {
            Some(name) if !systems.clone().any(|known| known == name) => {
                let near = did_you_mean(name, systems.clone());
                let known: Vec<&str> = systems.collect();
                Err(format!(
                    "--require {self}: unknown system `{name}`{near} (allowed: {})",
                    known.join(", ")
                ))
            }
            _ => Ok(()),
        }
    }

    /// Every row of the report that misses the condition, one line each.
    pub(super) fn misses(&self, report: &Report, pooled: &[Pooled]) -> Vec<String> {
        let names = |row: &&Pooled| {
            self.system
                .as_ref()
                .is_none_or(|name| report.systems[row.system].name == *name)
        };
        let misses = pooled.iter().filter(names).filter_map(|row| {
            let seen = row.mean(&self.figure);
            if seen.is_some_and(|seen| self.holds(seen)) {
                return None;
            }
            let label = &report.axis.values[row.point].label;
            let at = if label.is_empty() {
                String::new()
            } else {
                format!(" at {label}")
            };
            let seen = seen.map_or("nothing".to_owned(), |seen| format!("{seen:.6}"));
            Some(format!(
                "missed --require {self}: {}{at} has {} {seen}",
                report.systems[row.system].name, self.figure
            ))
        });
        misses.collect()
    }

    fn holds(&self, seen: f64) -> bool {
        match self.op {
            Op::AtLeast => seen >= self.value,
            Op::AtMost => seen <= self.value,
            Op::Above => seen > self.value,
            Op::Below => seen < self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_read_system_figure_sign_and_value() {
        let condition: Condition = "a-b.ttft_p90_ms <= 250".parse().unwrap();
        assert_eq!(condition.system.as_deref(), Some("a-b"));
        assert_eq!(condition.figure, "ttft_p90_ms");
        assert!(condition.holds(250.0) && !condition.holds(250.1));
        let strict: Condition = "attainment>0.9".parse().unwrap();
        assert!(!strict.holds(0.9));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_allowed() {
        let error = |text: &str| text.parse::<Condition>().unwrap_err();
        assert!(error("attainment").contains("has none of"));
        assert!(error("attainmnt>=0.9").contains("did you mean `attainment`?"));
        assert!(error("attainment>=NaN").contains("not a finite number"));
        assert!(error("attainment>=high").contains("`high` is not a number"));
    }
}
