//! Bytes that flow at a rate that changes now and then.

use super::max_min::Path;
use crate::ids::SlotId;
use crate::units::{SimDuration, SimTime};

/// A transfer, or an early part of one, whose bytes flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) slot: SlotId,
    pub(super) path: Path,
    /// Most bytes per second of its own.
    pub(super) cap: f64,
    /// Bytes left at `since`, at `rate` from then on.
    left: f64,
    pub(super) since: SimTime,
    pub(super) rate: f64,
    pub(super) end: SimTime,
}

impl Flow {
    /// A flow that begins at `since` and has no rate yet.
    pub(super) const fn new(
        slot: SlotId,
        path: Path,
        bytes: f64,
        cap: f64,
        since: SimTime,
    ) -> Self {
        Self {
            slot,
            path,
            cap,
            left: bytes,
            since,
            rate: 0.0,
            end: SimTime::NEVER,
        }
    }

    /// Bytes left at `now`.
    pub(super) fn left_at(&self, now: SimTime) -> f64 {
        let elapsed = now.saturating_since(self.since);
        if elapsed == SimDuration::ZERO {
            return self.left;
        }
        (self.left - self.rate * elapsed.as_secs_f64()).max(0.0)
    }

    /// Goes on at `rate`. At the same rate nothing changes, not even by rounding.
    pub(super) fn set_rate(&mut self, now: SimTime, rate: f64) {
        if rate.to_bits() == self.rate.to_bits() {
            return;
        }
        self.left = self.left_at(now);
        (self.since, self.rate) = (now, rate);
        self.end = if rate > 0.0 {
            let time = SimDuration::from_secs_f64(self.left / rate)
                .unwrap_or(SimDuration::from_ps(u64::MAX / 4));
            now.saturating_add(time)
        } else {
            SimTime::NEVER
        };
    }

    /// Takes more bytes in.
    pub(super) fn add(&mut self, now: SimTime, bytes: f64) {
        self.left = self.left_at(now) + bytes;
        self.since = now;
        // The next share finds a new rate, and with it a new end.
        (self.rate, self.end) = (0.0, SimTime::NEVER);
    }
}
