//! Random choices for scenarios: the same on every machine, because the generator is named.

use pdsim::rng::{self, Rng};
use rand::RngExt as _;

/// A stream of choices from one seed.
#[derive(Debug)]
pub(crate) struct Pick(Rng);

impl Pick {
    /// The choices of `seed` for `purpose`.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        Self(rng::stream(seed, purpose))
    }

    /// One of `options`.
    pub(crate) fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.0.random_range(0..options.len())]
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn from(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    /// The same as a `u32`.
    pub(crate) fn small(&mut self, low: u32, high: u32) -> u32 {
        self.0.random_range(low..=high)
    }

    /// Whether something with a chance of `percent` happens.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.from(0, 99) < percent
    }

    /// A number in 0..1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random::<f64>()
    }
}
