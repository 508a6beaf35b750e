//! Sub-picosecond durations for sums of decode steps.

use super::time::{PS_PER_S, SimDuration};

/// Binary digits below the picosecond that a [`Fine`] keeps.
pub const FINE_BITS: u32 = 16;

/// A duration in units of 2⁻¹⁶ ps; one decode step is at most 281 s.
///
/// A decode run sums thousands of steps whose times grow by a fraction of a picosecond per context token; whole
/// picoseconds would drift by microseconds over such a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fine(pub u64);

/// A sum of [`Fine`] durations.
pub type FineSum = u128;

impl Fine {
    /// Makes a fine duration from seconds, rounded to the nearest 2⁻¹⁶ ps; anything not representable
    /// saturates (NaN and negatives to zero, overflow to the maximum), which the step models refuse beforehand.
    #[must_use]
    pub fn from_secs_f64(seconds: f64) -> Self {
        let units = (seconds * PS_PER_S as f64 * f64::from(1u32 << FINE_BITS)).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float-to-int casts saturate, which is what is documented"
        )]
        Self(units as u64)
    }

    /// Rounds up to whole picoseconds.
    #[must_use]
    pub const fn ceil(self) -> SimDuration {
        SimDuration::from_ps((self.0 >> FINE_BITS) + (self.0 & ((1 << FINE_BITS) - 1) != 0) as u64)
    }

    /// Rounds a sum up to whole picoseconds, saturating beyond the clock's range.
    #[must_use]
    pub const fn ceil_sum(sum: FineSum) -> SimDuration {
        let ps = (sum + ((1 << FINE_BITS) - 1)) >> FINE_BITS;
        if ps > u64::MAX as u128 {
            return SimDuration::from_ps(u64::MAX);
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        SimDuration::from_ps(ps as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceil_rounds_any_fraction_up() {
        assert_eq!(Fine(1).ceil().as_ps(), 1);
        assert_eq!(Fine(1 << FINE_BITS).ceil().as_ps(), 1);
        assert_eq!(Fine::ceil_sum((1 << FINE_BITS) + 1).as_ps(), 2);
    }
}
