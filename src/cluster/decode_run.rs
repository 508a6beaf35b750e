//! The arithmetic of decode runs.
//!
//! While a decode-only batch of `n` sequences stays as it is, its context `K` grows by `n` per step, so on one linear
//! segment of the decode curve the step times are an arithmetic progression
//!
//! ```text
//! t_i = first + growth · i,   first = t(n, K),   growth = slope · n
//! S_j = t_0 + … + t_{j−1} = first · j + growth · j (j − 1) / 2
//! ```
//!
//! in integers of 2⁻¹⁶ ps. The end of step `j` is `origin + ⌈S_j⌉`; its inverse (how many steps have ended by an
//! instant) is a square root, corrected to the exact integer.

use crate::units::{FINE_BITS, Fine, FineSum, SimTime};

/// Step times that grow by a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progression {
    /// The first step's time.
    pub first: Fine,
    /// How much longer each further step takes.
    pub growth: Fine,
}

impl Progression {
    /// The time of `steps` steps.
    #[must_use]
    pub fn sum(&self, steps: u64) -> FineSum {
        let (j, first, growth) = (
            u128::from(steps),
            u128::from(self.first.0),
            u128::from(self.growth.0),
        );
        // j (j − 1) is even, so the halving is exact.
        first * j + growth * (j * j.saturating_sub(1) / 2)
    }

    /// How many steps, at most `limit`, fit into `budget`.
    #[must_use]
    pub fn steps_within(&self, budget: FineSum, limit: u64) -> u64 {
        let step = |i: u64| u128::from(self.first.0) + u128::from(self.growth.0) * u128::from(i);
        let mut steps = self.estimate(budget).min(limit);
        let mut sum = self.sum(steps);
        // The estimate is off by a step or two at most; the integers decide.
        while sum > budget {
            steps -= 1;
            sum -= step(steps);
        }
        while steps < limit {
            sum += step(steps);
            if sum > budget {
                break;
            }
            steps += 1;
        }
        steps
    }

    /// The real root of `S_j = budget` in floating point.
    fn estimate(&self, budget: FineSum) -> u64 {
        // Whole picoseconds do for an estimate and convert to f64 in one instruction, which 128 bits do not.
        let unit = f64::from(1u32 << FINE_BITS);
        let budget = u64::try_from(budget >> FINE_BITS).unwrap_or(u64::MAX) as f64;
        let (first, growth) = (self.first.0 as f64 / unit, self.growth.0 as f64 / unit);
        // growth/2 · j² + (first − growth/2) · j = budget, in the form that does not cancel and holds for growth = 0 too.
        let b = first - growth / 2.0;
        let steps = 2.0 * budget / (b + (b * b + 2.0 * growth * budget).sqrt());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate: the saturating cast is corrected by the caller"
        )]
        {
            steps as u64
        }
    }
}

/// Where the steps of an unchanged decode batch are counted from.
///
/// Rounding to picoseconds happens when an end is read, never between steps, so stepping and closed form agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunClock {
    /// Start of the first step after the batch changed.
    pub origin: SimTime,
    /// Time of the steps since, up to the current progression.
    pub sum: FineSum,
}

impl RunClock {
    /// A clock that starts now.
    #[must_use]
    pub const fn start(origin: SimTime) -> Self {
        Self { origin, sum: 0 }
    }

    /// When the `steps`-th further step ends.
    #[must_use]
    pub fn end_of(&self, progression: &Progression, steps: u64) -> SimTime {
        self.origin
            .saturating_add(Fine::ceil_sum(self.sum + progression.sum(steps)))
    }

    /// How many further steps, at most `limit`, have ended by `at` (ends at `at` included).
    #[must_use]
    pub fn ended_by(&self, progression: &Progression, at: SimTime, limit: u64) -> u64 {
        let elapsed = u128::from(at.saturating_since(self.origin).as_ps()) << FINE_BITS;
        elapsed
            .checked_sub(self.sum)
            .map_or(0, |budget| progression.steps_within(budget, limit))
    }

    /// How many further steps, at most `limit`, have started before `at`, or the first: the steps that a cut at `at` lets end.
    #[must_use]
    pub fn started_before(&self, progression: &Progression, at: SimTime, limit: u64) -> u64 {
        let just_before = SimTime::from_ps(at.as_ps().saturating_sub(1));
        (self.ended_by(progression, just_before, limit) + 1).min(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn closed_form_agrees_with_stepping(
            first in 1u64..1 << 52,
            growth in 0u64..1 << 44,
            steps in 1u64..300,
            origin in 0u64..1 << 50,
            offset in 0u64..1 << 40,
        ) {
            let progression = Progression { first: Fine(first), growth: Fine(growth) };
            let clock = RunClock { origin: SimTime::from_ps(origin), sum: u128::from(offset) };
            let mut sum = u128::from(offset);
            let mut ends = Vec::new();
            for i in 0..steps {
                sum += u128::from(first) + u128::from(growth) * u128::from(i);
                ends.push(SimTime::from_ps(origin) + Fine::ceil_sum(sum));
            }
            for j in 1..=steps {
                prop_assert_eq!(clock.end_of(&progression, j), ends[usize::try_from(j).unwrap() - 1]);
            }
            for &probe in &ends {
                for delta in [-1i64, 0, 1] {
                    let at = SimTime::from_ps(probe.as_ps().saturating_add_signed(delta));
                    let ended = ends.iter().filter(|&&end| end <= at).count() as u64;
                    prop_assert_eq!(clock.ended_by(&progression, at, steps), ended);
                    let before = ends.iter().filter(|&&end| end < at).count() as u64;
                    prop_assert_eq!(clock.started_before(&progression, at, steps), (before + 1).min(steps));
                }
            }
        }

        #[test]
        fn the_inverse_holds_for_long_runs(first in 1u64..1 << 50, growth in 0u64..1 << 30, steps in 1u64..1 << 24) {
            let progression = Progression { first: Fine(first), growth: Fine(growth) };
            let budget = progression.sum(steps);
            prop_assert_eq!(progression.steps_within(budget, u64::MAX >> 20), steps);
            prop_assert!(progression.steps_within(budget - 1, u64::MAX >> 20) < steps);
        }
    }
}
