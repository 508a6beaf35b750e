//! Arrivals and tokens over time, in bins that widen as the trace goes on.

use crate::units::{PS_PER_S, SimDuration};

/// Most bins; beyond, neighbours are merged and the width doubles.
const BINS: usize = 4096;

/// Arrivals, prompt tokens and output tokens in equal bins of time from the first arrival.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    width_ps: u64,
    bins: Vec<(u64, u64, u64)>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            width_ps: PS_PER_S / 8,
            bins: Vec::new(),
        }
    }
}

impl Timeline {
    /// Counts a request that arrives `since_ps` after the first.
    pub(super) fn add(&mut self, since_ps: u64, input: u32, output: u32) {
        while since_ps / self.width_ps >= BINS as u64 {
            self.widen();
        }
        let at = usize::try_from(since_ps / self.width_ps).unwrap_or(BINS - 1);
        if at >= self.bins.len() {
            self.bins.resize(at + 1, (0, 0, 0));
        }
        let bin = &mut self.bins[at];
        *bin = (
            bin.0 + 1,
            bin.1 + u64::from(input),
            bin.2 + u64::from(output),
        );
    }

    fn widen(&mut self) {
        self.width_ps *= 2;
        let sum = |a: (u64, u64, u64), b: &(u64, u64, u64)| (a.0 + b.0, a.1 + b.1, a.2 + b.2);
        let merged = self
            .bins
            .chunks(2)
            .map(|pair| pair.iter().fold((0, 0, 0), sum));
        self.bins = merged.collect();
    }

    /// Width of a bin.
    #[must_use]
    pub const fn width(&self) -> SimDuration {
        SimDuration::from_ps(self.width_ps)
    }

    /// `(arrivals, prompt tokens, output tokens)` of every bin from the first arrival on.
    #[must_use]
    pub fn bins(&self) -> &[(u64, u64, u64)] {
        &self.bins
    }

    /// The bins merged to at most `most`, with the width of each.
    #[must_use]
    pub fn at_most(&self, most: usize) -> Self {
        let mut coarse = self.clone();
        while coarse.bins.len() > most.max(1) {
            coarse.widen();
        }
        coarse
    }

    /// The highest rates per second in a window of about a minute: `(requests, prompt tokens, output tokens)`.
    #[must_use]
    pub fn peak_minute(&self) -> (f64, f64, f64) {
        let mut coarse = self.clone();
        while coarse.width_ps < 60 * PS_PER_S {
            coarse.widen();
        }
        let seconds = coarse.width().as_secs_f64();
        let peak = |pick: fn(&(u64, u64, u64)) -> u64| {
            coarse.bins.iter().map(pick).max().unwrap_or(0) as f64 / seconds
        };
        (peak(|bin| bin.0), peak(|bin| bin.1), peak(|bin| bin.2))
    }
}
