//! What the client of a closed loop held back, and whether it fell behind its plan.

use super::histogram::Histogram;
use super::result::Distribution;
use super::verdict::{Growth, growth_of};
use crate::units::{SimDuration, SimTime};

/// Most waits kept for the verdict; one more drops every other one.
const MOST: usize = 4096;

/// Waits of the requests of a paced client; empty for every other.
#[derive(Debug, Default)]
pub(super) struct ClientBook {
    /// The wait told for the request that is about to arrive.
    pending: SimDuration,
    waits: Histogram,
    /// When a measured request was sent and how long it had waited, every `stride`-th of them.
    thinned: Vec<(SimTime, SimDuration)>,
    stride: u64,
    seen: u64,
    /// Of every request by id, where records are kept.
    pub(super) all: Vec<SimDuration>,
}

impl ClientBook {
    /// Notes the wait of the next request to arrive.
    pub(super) fn held_back(&mut self, wait: SimDuration) {
        self.pending = wait;
    }

    /// Books the request sent at `now`.
    pub(super) fn sent(&mut self, now: SimTime, measured: bool, keep: bool) {
        let wait = std::mem::take(&mut self.pending);
        if keep {
            self.all.push(wait);
        }
        if !measured {
            return;
        }
        self.waits.record(wait, 1);
        let stride = self.stride.max(1);
        if self.seen.is_multiple_of(stride) {
            self.thinned.push((now, wait));
        }
        self.seen += 1;
        if self.thinned.len() > MOST {
            let mut at = 0;
            self.thinned.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride = 2 * stride;
        }
    }

    /// The shape of the waits of measured requests.
    pub(super) fn distribution(&self) -> Option<Distribution> {
        self.waits.distribution()
    }

    /// Growth of the wait, as a share of the time in which it grew: `1 − sent/planned` in rates.
    pub(super) fn growth(&self) -> Growth {
        let (Some(first), Some(last)) = (self.thinned.first(), self.thinned.last()) else {
            return Growth::default();
        };
        let waits: Vec<f64> = self
            .thinned
            .iter()
            .map(|(_, wait)| wait.as_secs_f64())
            .collect();
        let span = (last.0.saturating_since(first.0)).as_secs_f64();
        growth_of(&waits, span, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_falls_behind_shows_by_how_much() {
        // Planned every 8 s, sent every 10 s: a fifth of the load is not carried.
        let mut book = ClientBook::default();
        for i in 0..10_000_u64 {
            book.held_back(SimDuration::from_ms(2000 * i));
            book.sent(SimTime::ZERO + SimDuration::from_ms(10_000 * i), true, true);
        }
        let growth = book.growth();
        assert!((growth.share - 0.2).abs() < 1e-9, "{growth:?}");
        assert!(growth.sigmas > 100.0, "{growth:?}");
        assert_eq!(book.all.len(), 10_000);
        assert!(book.thinned.len() <= MOST, "{}", book.thinned.len());
    }

    #[test]
    fn a_plan_that_is_kept_shows_no_growth() {
        let mut book = ClientBook::default();
        for i in 0..100 {
            book.sent(SimTime::from_ps(i), true, false);
        }
        assert_eq!(book.growth(), Growth::default());
        assert!(book.distribution().unwrap().max_ms.abs() < f64::EPSILON);
        assert!(book.all.is_empty());
    }
}
