//! Exact counts of token lengths.

use std::collections::BTreeMap;

/// Lengths up to this are counted in an array, the few beyond in a map.
const DENSE: u32 = 1 << 17;

/// How often each length was seen.
#[derive(Debug, Default)]
pub(super) struct Counter {
    dense: Vec<u64>,
    sparse: BTreeMap<u32, u64>,
    n: u64,
    sum: u128,
    squares: f64,
}

/// Exact figures of a length, in tokens; percentiles by linear interpolation.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantiles {
    /// Lengths counted.
    pub n: u64,
    /// Sum of all.
    pub sum: u128,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
    /// Shortest.
    pub min: u32,
    /// Percentiles 10, 25, 50, 75, 90, 95 and 99.
    pub percentiles: [(u32, f64); 7],
    /// Longest.
    pub max: u32,
}

impl Counter {
    /// Counts one length.
    pub(super) fn add(&mut self, tokens: u32) {
        if tokens < DENSE {
            let at = tokens as usize;
            if at >= self.dense.len() {
                self.dense.resize(at + 1, 0);
            }
            self.dense[at] += 1;
        } else {
            *self.sparse.entry(tokens).or_default() += 1;
        }
        self.n += 1;
        self.sum += u128::from(tokens);
        self.squares += f64::from(tokens) * f64::from(tokens);
    }

    /// Lengths in rising order, with how often each was seen.
    fn counts(&self) -> impl Iterator<Item = (u32, u64)> {
        let dense = (0..)
            .zip(&self.dense)
            .map(|(tokens, count)| (tokens, *count));
        let sparse = self.sparse.iter().map(|(tokens, count)| (*tokens, *count));
        dense.chain(sparse).filter(|(_, count)| *count > 0)
    }

    /// The `k`-th shortest length, from 0.
    fn order(&self, k: u64) -> u32 {
        let mut below = 0;
        for (tokens, count) in self.counts() {
            below += count;
            if k < below {
                return tokens;
            }
        }
        self.counts().last().map_or(0, |(tokens, _)| tokens)
    }

    fn percentile(&self, percent: u32) -> f64 {
        // Whole and remainder of percent × (n − 1) / 100, exactly.
        let position = u128::from(percent) * u128::from(self.n.saturating_sub(1));
        let below = u64::try_from(position / 100).unwrap_or(u64::MAX);
        let share = (position % 100) as f64 / 100.0;
        let (low, high) = (
            f64::from(self.order(below)),
            f64::from(self.order(below + 1)),
        );
        low + share * (high - low)
    }

    /// All figures.
    pub(super) fn quantiles(&self) -> Quantiles {
        let n = self.n.max(1) as f64;
        let mean = self.sum as f64 / n;
        Quantiles {
            n: self.n,
            sum: self.sum,
            mean,
            sd: (self.squares / n - mean * mean).max(0.0).sqrt(),
            min: self.order(0),
            percentiles: [10, 25, 50, 75, 90, 95, 99].map(|p| (p, self.percentile(p))),
            max: self.order(self.n.saturating_sub(1)),
        }
    }
}
