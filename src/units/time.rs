//! Instants and spans of simulated time.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// Picoseconds in one second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// Says why a floating-point number of seconds could not become a time.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum UnitError {
    /// The number is NaN or infinite.
    #[error("{0} is not a finite number of seconds")]
    NotFinite(f64),
    /// The number is below zero.
    #[error("{0} s is negative")]
    Negative(f64),
    /// The number does not fit the clock.
    #[error("{0} s is beyond the clock's range of 213 days")]
    Overflow(f64),
}

/// An instant: picoseconds since the start of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// A span of simulated time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimDuration(u64);

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// Later than every reachable instant; stands for "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// Makes an instant from picoseconds since the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for reports.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// The span since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.saturating_sub(earlier.0))
    }

    /// `self + span`, or [`SimTime::NEVER`] beyond the clock's range; the loop turns that into an error.
    #[must_use]
    pub const fn saturating_add(self, span: SimDuration) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Makes a span from picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Makes a span from whole microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * (PS_PER_S / 1_000_000))
    }

    /// Makes a span from whole milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * (PS_PER_S / 1000))
    }

    /// Makes a span from seconds, rounded **up** to a picosecond so that nothing ends early.
    ///
    /// # Errors
    /// When `seconds` is NaN, infinite, negative or beyond 213 days.
    pub fn from_secs_f64(seconds: f64) -> Result<Self, UnitError> {
        if !seconds.is_finite() {
            return Err(UnitError::NotFinite(seconds));
        }
        if seconds < 0.0 {
            return Err(UnitError::Negative(seconds));
        }
        let ps = (seconds * PS_PER_S as f64).ceil();
        if ps >= u64::MAX as f64 {
            return Err(UnitError::Overflow(seconds));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above: finite, not negative, below u64::MAX"
        )]
        Ok(Self(ps as u64))
    }

    /// Picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds, for reports.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }

    /// Milliseconds, for reports.
    #[must_use]
    pub fn as_ms_f64(self) -> f64 {
        self.0 as f64 / (PS_PER_S / 1000) as f64
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, span: SimDuration) -> Self {
        Self(self.0 + span.0)
    }
}

impl Sub for SimTime {
    type Output = SimDuration;
    fn sub(self, earlier: Self) -> SimDuration {
        debug_assert!(self >= earlier, "time went back: {self:?} - {earlier:?}");
        SimDuration(self.0 - earlier.0)
    }
}

impl Add for SimDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for SimDuration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Mul<u64> for SimDuration {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}

impl fmt::Debug for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(f, "{}s", self.as_secs_f64())
    }
}

impl fmt::Debug for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.as_ms_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_up_to_a_picosecond() {
        assert_eq!(SimDuration::from_secs_f64(1e-13).unwrap().as_ps(), 1);
        assert_eq!(
            SimDuration::from_secs_f64(0.25).unwrap(),
            SimDuration::from_ms(250)
        );
    }

    #[test]
    fn impossible_seconds_are_refused() {
        assert!(matches!(
            SimDuration::from_secs_f64(f64::NAN),
            Err(UnitError::NotFinite(_))
        ));
        assert!(matches!(
            SimDuration::from_secs_f64(-1.0),
            Err(UnitError::Negative(_))
        ));
        assert!(matches!(
            SimDuration::from_secs_f64(1e9),
            Err(UnitError::Overflow(_))
        ));
    }
}
