//! Means and variances, gathered one value at a time.

use crate::units::SimDuration;

/// Mean and variance by Welford's method, which does not cancel.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    n: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds one value.
    pub(super) fn add(&mut self, value: f64) {
        self.n += 1;
        let before = value - self.mean;
        self.mean += before / self.n as f64;
        self.squares += before * (value - self.mean);
    }

    /// Adds `n` zeros.
    fn add_zeros(&mut self, n: u64) {
        if n == 0 {
            return;
        }
        let (old, new) = (self.n as f64, n as f64);
        self.squares += self.mean * self.mean * old * new / (old + new);
        self.mean *= old / (old + new);
        self.n += n;
    }

    fn variance(&self) -> f64 {
        self.squares / self.n as f64
    }

    /// Standard deviation over mean; none without values or with mean 0.
    pub(super) fn cv(&self) -> Option<f64> {
        (self.n > 0 && self.mean > 0.0).then(|| self.variance().sqrt() / self.mean)
    }
}

/// Variance over mean of the arrivals in windows of one length, the last, incomplete one left out.
#[derive(Debug)]
pub(super) struct Dispersion {
    window_ps: u64,
    window: u64,
    count: u64,
    counts: Moments,
}

impl Dispersion {
    pub(super) fn new(window: SimDuration) -> Self {
        Self {
            window_ps: window.as_ps(),
            window: 0,
            count: 0,
            counts: Moments::default(),
        }
    }

    /// Counts an arrival `since_ps` after the first; arrivals come in order.
    pub(super) fn add(&mut self, since_ps: u64) {
        let window = since_ps / self.window_ps;
        if window > self.window {
            self.counts.add(self.count as f64);
            self.counts.add_zeros(window - self.window - 1);
            self.window = window;
            self.count = 0;
        }
        self.count += 1;
    }

    /// The window in seconds.
    pub(super) fn window_s(&self) -> f64 {
        SimDuration::from_ps(self.window_ps).as_secs_f64()
    }

    /// The index, if at least ten windows fit in the span.
    pub(super) fn index(&self, span: SimDuration) -> Option<f64> {
        let enough = span.as_ps() / self.window_ps >= 10;
        (enough && self.counts.mean > 0.0).then(|| self.counts.variance() / self.counts.mean)
    }
}
