//! A log-linear histogram of spans, which takes a whole arithmetic progression at once.
//!
//! Spans below 128 ps have a bucket each; above, every power of two is cut into 128 equal buckets. A value is read back
//! as the middle of its bucket (kept within the exact extremes), so its relative error is at most 1/256, 0.4 %.
//! Count, sum, smallest and largest are exact.

use super::percentile::quantile_by;
use super::result::Distribution;
use crate::sim::Gaps;
use crate::units::{FINE_BITS, Fine, FineSum, SimDuration};

/// log2 of the buckets per power of two.
const SUB_BITS: u32 = 7;

/// Buckets per power of two.
const SUB: u64 = 1 << SUB_BITS;

/// Fine units in a millisecond.
const FINE_PER_MS: f64 = 1e9 * (1u64 << FINE_BITS) as f64;

/// Counts of spans by size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// Counts by bucket, as far as the largest one used.
    counts: Vec<u64>,
    count: u64,
    sum: FineSum,
    /// Smallest and largest span; meaningless while `count` is 0.
    min: Fine,
    max: Fine,
}

impl Histogram {
    /// Counts `times` spans of equal length; saturates at 281 s per span, the range of a fine duration.
    pub fn record(&mut self, span: SimDuration, times: u64) {
        let fine = Fine(span.as_ps().min(u64::MAX >> FINE_BITS) << FINE_BITS);
        if times == 0 {
            return;
        }
        self.add(bucket_of(fine), times);
        if self.count == 0 {
            (self.min, self.max) = (fine, fine);
        } else {
            self.min = self.min.min(fine);
            self.max = self.max.max(fine);
        }
        self.count += times;
        self.sum += u128::from(fine.0) * u128::from(times);
    }

    /// Counts an arithmetic progression of spans with multiplicity, in O(buckets crossed).
    pub fn record_gaps(&mut self, gaps: &Gaps) {
        if gaps.count == 0 || gaps.sequences == 0 {
            return;
        }
        let (first, step) = (u128::from(gaps.first.0), u128::from(gaps.step.0));
        let term = |i: u64| first + step * u128::from(i);
        let mut next = 0;
        while next < gaps.count {
            let bucket = bucket_of(to_fine(term(next)));
            let until = if step == 0 {
                gaps.count
            } else {
                // The first term at or beyond the upper edge, which is above term(next): progress is certain.
                let edge = upper_edge(bucket);
                u64::try_from((edge - first).div_ceil(step))
                    .unwrap_or(u64::MAX)
                    .min(gaps.count)
            };
            self.add(bucket, (until - next) * gaps.sequences);
            next = until;
        }
        let last = to_fine(term(gaps.count - 1));
        let n = u128::from(gaps.count);
        if self.count == 0 {
            (self.min, self.max) = (gaps.first, last);
        } else {
            self.min = self.min.min(gaps.first);
            self.max = self.max.max(last);
        }
        self.count += gaps.count * gaps.sequences;
        self.sum += (n * first + n * (n - 1) / 2 * step) * u128::from(gaps.sequences);
    }

    fn add(&mut self, bucket: usize, times: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += times;
    }

    /// How many spans were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The shape of what was counted; none without any.
    #[must_use]
    pub fn distribution(&self) -> Option<Distribution> {
        if self.count == 0 {
            return None;
        }
        let below: Vec<(u64, f64)> = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, times)| **times > 0)
            .scan(0, |sum, (bucket, times)| {
                *sum += times;
                Some((*sum, self.middle_ms(bucket)))
            })
            .collect();
        let value = |rank: u64| {
            if rank == 0 {
                return self.min.0 as f64 / FINE_PER_MS;
            }
            if rank + 1 == self.count {
                return self.max.0 as f64 / FINE_PER_MS;
            }
            let at = below.partition_point(|(upto, _)| *upto <= rank);
            below[at.min(below.len() - 1)].1
        };
        let mean_ms = self.sum as f64 / self.count as f64 / FINE_PER_MS;
        Distribution::by_quantile(self.count, mean_ms, true, |q| {
            quantile_by(self.count, q, value)
        })
    }

    fn middle_ms(&self, bucket: usize) -> f64 {
        let (low, width) = bounds(bucket);
        let middle = (low as f64 + (width as f64) / 2.0) / 1e9;
        middle.clamp(
            self.min.0 as f64 / FINE_PER_MS,
            self.max.0 as f64 / FINE_PER_MS,
        )
    }
}

/// A term of a progression, saturated at the range of [`Fine`].
fn to_fine(term: u128) -> Fine {
    Fine(u64::try_from(term).unwrap_or(u64::MAX))
}

/// The bucket of a span, by whole picoseconds.
fn bucket_of(span: Fine) -> usize {
    let ps = span.0 >> FINE_BITS;
    let index = if ps < SUB {
        ps
    } else {
        let shift = ps.ilog2() - SUB_BITS;
        u64::from(shift + 1) * SUB + (ps >> shift) - SUB
    };
    usize::try_from(index).expect("at most 58 × 128 buckets")
}

/// Lower edge and width of a bucket in picoseconds.
fn bounds(bucket: usize) -> (u64, u64) {
    let (block, row) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if block == 0 {
        (row, 1)
    } else {
        ((SUB + row) << (block - 1), 1 << (block - 1))
    }
}

/// Upper edge of a bucket (exclusive) in fine units.
fn upper_edge(bucket: usize) -> u128 {
    let (low, width) = bounds(bucket);
    (u128::from(low) + u128::from(width)) << FINE_BITS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(gaps: &Gaps) -> Histogram {
        let mut histogram = Histogram::default();
        for i in 0..gaps.count {
            for _ in 0..gaps.sequences {
                histogram.record_gaps(&Gaps {
                    first: Fine(gaps.first.0 + gaps.step.0 * i),
                    step: Fine(0),
                    count: 1,
                    sequences: 1,
                });
            }
        }
        histogram
    }

    proptest! {
        #[test]
        fn a_progression_is_booked_as_the_loop_over_its_terms(
            first in prop_oneof![0u64..1 << 24, 0u64..1 << 50],
            step in prop_oneof![Just(0u64), 1u64..1 << 20, 1u64..1 << 45],
            count in 0u64..400,
            sequences in 0u64..4,
        ) {
            let gaps = Gaps { first: Fine(first), step: Fine(step), count, sequences };
            let mut fast = Histogram::default();
            fast.record_gaps(&gaps);
            prop_assert_eq!(fast, naive(&gaps));
        }

        #[test]
        fn a_value_reads_back_within_its_stated_error(ps in 1u64..1 << 48) {
            let (low, width) = bounds(bucket_of(Fine(ps << FINE_BITS)));
            prop_assert!(low <= ps && ps < low + width);
            let middle = low as f64 + width as f64 / 2.0;
            prop_assert!((middle - ps as f64).abs() / ps as f64 <= 1.0 / 256.0 || ps < SUB);
        }
    }

    #[test]
    fn buckets_follow_one_another_without_a_hole() {
        for bucket in 0..41 * 128 {
            let (low, width) = bounds(bucket);
            assert_eq!(bounds(bucket + 1).0, low + width);
            assert_eq!(bucket_of(Fine(low << FINE_BITS)), bucket);
        }
    }

    #[test]
    fn a_long_run_crosses_few_buckets() {
        // 100 million steps of 20 ms growing to 21 ms: a loop over them would take seconds.
        let first = Fine(20_000_000_000 << FINE_BITS);
        let gaps = Gaps {
            first,
            step: Fine(10 << FINE_BITS),
            count: 100_000_000,
            sequences: 64,
        };
        let mut histogram = Histogram::default();
        histogram.record_gaps(&gaps);
        assert_eq!(histogram.count(), 6_400_000_000);
        let d = histogram.distribution().unwrap();
        assert!((d.p50_ms / 20.5 - 1.0).abs() < 1.0 / 256.0);
        assert!((d.mean_ms - 20.499_999_995).abs() < 1e-6);
        assert!((d.max_ms - 20.999_999_99).abs() < 1e-9);
    }
}
