//! A histogram over many orders of magnitude.

/// Bins per factor of two: each is about half a percent wide.
const PER_OCTAVE: f64 = 128.0;

/// Smallest exponent of two with bins of its own; smaller values share the first bin.
const LOWEST: f64 = -40.0;

/// Counts of positive values in logarithmic bins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LogBins {
    counts: Vec<u64>,
    n: u64,
}

impl LogBins {
    /// Counts a value above 0.
    pub fn add(&mut self, value: f64) {
        let at = ((value.log2() - LOWEST) * PER_OCTAVE).clamp(0.0, 80.0 * PER_OCTAVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to a small range from 0"
        )]
        let at = at as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.n += 1;
    }

    /// Values counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.n
    }

    /// The value below which the share `p` lies, to about a quarter of a percent; none without values.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let wanted = p * self.n as f64;
        let mut below = 0;
        for (value, count) in self.bins() {
            below += count;
            if below as f64 >= wanted {
                return Some(value);
            }
        }
        self.bins().last().map(|(value, _)| value)
    }

    /// The middle and the count of every bin that holds something, in rising order.
    pub fn bins(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let middle = |at: usize| ((at as f64 + 0.5) / PER_OCTAVE + LOWEST).exp2();
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled.map(move |(at, count)| (middle(at), *count))
    }

    /// Counts in bins of equal width on a logarithmic axis, `per_decade` to a factor of ten: lower edge and count.
    #[must_use]
    pub fn coarse(&self, per_decade: u32) -> Vec<(f64, u64)> {
        let per_decade = f64::from(per_decade);
        let mut out: Vec<(f64, u64)> = Vec::new();
        for (value, count) in self.bins() {
            let edge =
                ((value.log10() * per_decade).floor() / per_decade * std::f64::consts::LN_10).exp();
            match out.last_mut() {
                Some((last, sum)) if (edge / *last - 1.0).abs() < 1e-9 => *sum += count,
                _ => out.push((edge, count)),
            }
        }
        out
    }
}
