//! Both sides of Little's law, of the measured requests: their number in the system over time, and how long each stayed.

use crate::cluster::{Outcome, RequestRecord};
use crate::units::SimTime;

/// Sums in request-picoseconds.
#[derive(Debug, Default)]
pub(super) struct Sojourn {
    /// All requests inside, and the measured ones of them.
    inside: u64,
    measured: u64,
    since: SimTime,
    /// Integral of the number of measured requests in the system.
    pub(super) area: u128,
    /// Sum of `end − arrival` from the records of the same.
    pub(super) sum: u128,
    /// Arrivals of unfinished ones, which stay until the end.
    open: Vec<SimTime>,
    /// A fact came before an earlier one.
    pub(super) disordered: bool,
}

impl Sojourn {
    /// Requests in the system, those of the warm-up included.
    pub(super) const fn inside(&self) -> u64 {
        self.inside
    }

    /// Moves to `now`; earlier facts are counted at the latest instant so far and noted.
    fn advance(&mut self, now: SimTime) {
        if now < self.since {
            self.disordered = true;
            return;
        }
        self.area += u128::from(self.measured) * u128::from((now - self.since).as_ps());
        self.since = now;
    }

    /// A request enters.
    pub(super) fn arrive(&mut self, now: SimTime, measured: bool) {
        self.advance(now);
        self.inside += 1;
        self.measured += u64::from(measured);
    }

    /// A request ended.
    pub(super) fn leave(&mut self, record: &RequestRecord, measured: bool) {
        let end = match record.outcome {
            Outcome::Done => record.last_token,
            // Refused where the loop says so; it has no instant of its own.
            Outcome::Rejected(_) => self.since,
            Outcome::Unfinished => {
                if measured {
                    self.open.push(record.arrival);
                }
                return;
            }
        };
        self.advance(end);
        self.inside = self.inside.saturating_sub(1);
        if measured {
            self.measured = self.measured.saturating_sub(1);
            self.sum += u128::from(end.saturating_since(record.arrival).as_ps());
        }
    }

    /// The run ended.
    pub(super) fn finish(&mut self, now: SimTime) {
        self.advance(now);
        for arrival in self.open.drain(..) {
            self.sum += u128::from(now.saturating_since(arrival).as_ps());
        }
    }
}
