//! A link that carries one transfer at a time, in order of readiness.

use std::collections::VecDeque;

use crate::ids::SlotId;
use crate::units::SimDuration;

/// The outgoing link of a prefill instance: `t = base + bytes / rate`, first in, first out.
///
/// Transfers do not share the link: each has its whole rate while it lasts.
#[derive(Debug, Clone)]
pub struct Link {
    base: SimDuration,
    bytes_per_sec: f64,
    queue: VecDeque<(SlotId, u64)>,
    current: Option<(SlotId, u64)>,
}

impl Link {
    /// Makes an idle link.
    #[must_use]
    pub const fn new(base: SimDuration, bytes_per_sec: f64) -> Self {
        Self {
            base,
            bytes_per_sec,
            queue: VecDeque::new(),
            current: None,
        }
    }

    /// How long `bytes` take, rounded up; saturates beyond the clock's range.
    #[must_use]
    pub fn duration(&self, bytes: u64) -> SimDuration {
        let wire = SimDuration::from_secs_f64(bytes as f64 / self.bytes_per_sec)
            .unwrap_or(SimDuration::from_ps(u64::MAX / 2));
        SimDuration::from_ps(self.base.as_ps().saturating_add(wire.as_ps()))
    }

    /// Queues a transfer of `bytes` for the request in `slot`.
    pub fn push(&mut self, slot: SlotId, bytes: u64) {
        self.queue.push_back((slot, bytes));
    }

    /// Starts the next transfer if the link is idle and one waits; says which and how long it takes.
    pub fn start_next(&mut self) -> Option<(SlotId, u64, SimDuration)> {
        if self.current.is_some() {
            return None;
        }
        let (slot, bytes) = self.queue.pop_front()?;
        self.current = Some((slot, bytes));
        Some((slot, bytes, self.duration(bytes)))
    }

    /// Ends the transfer in progress.
    ///
    /// # Panics
    /// When none is in progress: a defect of the caller (law L5).
    pub fn end(&mut self) -> (SlotId, u64) {
        self.current
            .take()
            .expect("a transfer ends only after it started")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_go_one_at_a_time_in_order() {
        let mut link = Link::new(SimDuration::from_ms(1), 1e9);
        link.push(SlotId::new(7), 1_000_000);
        link.push(SlotId::new(8), 0);
        assert_eq!(
            link.start_next(),
            Some((SlotId::new(7), 1_000_000, SimDuration::from_ms(2)))
        );
        assert_eq!(link.start_next(), None);
        assert_eq!(link.end(), (SlotId::new(7), 1_000_000));
        assert_eq!(
            link.start_next(),
            Some((SlotId::new(8), 0, SimDuration::from_ms(1)))
        );
    }

    #[test]
    fn an_infinite_link_takes_its_base_time() {
        let link = Link::new(SimDuration::ZERO, f64::INFINITY);
        assert_eq!(link.duration(u64::MAX), SimDuration::ZERO);
    }
}
