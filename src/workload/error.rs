//! What is wrong with a workload's description.

use std::fmt;

use crate::names;

/// A key of a workload that holds an impossible value.
///
/// `key` is relative to the workload (`rate`, `lengths.input.lognormal.sigma`); a scenario puts its own path
/// in front with [`WorkloadError::under`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct WorkloadError {
    /// Dotted path of the key to change.
    pub key: String,
    /// The value seen.
    pub seen: String,
    /// What would be allowed.
    pub allowed: String,
    /// The nearest valid name, where the value is a name.
    pub nearest: Option<String>,
}

impl WorkloadError {
    /// Makes the error for `key`, which holds `seen` where `allowed` is expected.
    #[must_use]
    pub fn new(
        key: impl Into<String>,
        seen: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            seen: readable(seen.to_string()),
            allowed: allowed.into(),
            nearest: None,
        }
    }

    /// Makes the error for `key`, which holds the name `seen` where one of `known` is expected.
    #[must_use]
    pub fn unknown_name<'a>(
        key: impl Into<String>,
        seen: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let allowed: Vec<&str> = known.collect();
        let nearest = names::nearest(seen, allowed.iter().copied()).map(ToOwned::to_owned);
        Self {
            key: key.into(),
            seen: format!("`{seen}`"),
            allowed: format!("one of {}", allowed.join(", ")),
            nearest,
        }
    }

    /// Puts `prefix` in front of the key path.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        self.key = format!("{prefix}.{}", self.key);
        self
    }
}

/// A number with a power of ten where it has too many digits to be read.
fn readable(text: String) -> String {
    const DIGITS: usize = 20;
    match text.parse::<f64>() {
        Ok(number) if text.len() > DIGITS => format!("{number:e}"),
        _ => text,
    }
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} where {} is expected",
            self.key, self.seen, self.allowed
        )?;
        match &self.nearest {
            Some(name) => write!(f, " (did you mean `{name}`?)"),
            None => Ok(()),
        }
    }
}

/// Checks that `value` is a finite number above zero.
pub(crate) fn positive(key: &str, value: f64) -> Result<f64, WorkloadError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(WorkloadError::new(key, value, "a finite number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        let error = WorkloadError::unknown_name(
            "lengths",
            "sharegp",
            ["sharegpt", "humaneval"].into_iter(),
        );
        assert_eq!(
            error.under("workload").to_string(),
            "workload.lengths: `sharegp` where one of sharegpt, humaneval is expected (did you mean `sharegpt`?)"
        );
    }

    #[test]
    fn a_number_of_three_hundred_digits_is_shortened() {
        let error = positive("time_scale", -1e300).unwrap_err();
        assert_eq!(error.seen, "-1e300");
        assert_eq!(positive("time_scale", -0.25).unwrap_err().seen, "-0.25");
    }

    #[test]
    fn only_finite_numbers_above_zero_are_positive() {
        assert!(positive("rate", 0.1).is_ok());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(positive("rate", bad).unwrap_err().key, "rate");
        }
    }
}
