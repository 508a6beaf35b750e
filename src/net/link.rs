//! Where KV caches queue to be sent: the link of an instance, or its way into a shared network.

use std::collections::VecDeque;

use crate::ids::SlotId;
use crate::units::SimDuration;

/// A KV cache to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipment {
    /// Whose it is.
    pub slot: SlotId,
    /// What travels of it, and has not been sent while the prompt was being computed.
    pub bytes: u64,
    /// Fixed time before bytes flow: setting up, posting descriptors.
    pub posting: SimDuration,
}

/// Sends KV caches first in, first out.
///
/// On its own it carries one at a time, `t = posting + bytes / rate`, with its whole rate. Before a [`Fabric`](super::Fabric) it
/// posts one at a time and lets several be in flight.
#[derive(Debug, Clone)]
pub struct Link {
    bytes_per_sec: f64,
    most: u32,
    queue: VecDeque<Shipment>,
    current: Option<Shipment>,
    flying: u32,
}

impl Link {
    /// Makes an idle link that lets `most` shipments be in flight.
    #[must_use]
    pub const fn new(bytes_per_sec: f64, most: u32) -> Self {
        Self {
            bytes_per_sec,
            most,
            queue: VecDeque::new(),
            current: None,
            flying: 0,
        }
    }

    /// How long `bytes` take on the wire, rounded up; saturates beyond the clock's range.
    #[must_use]
    pub fn wire(&self, bytes: u64) -> SimDuration {
        SimDuration::from_secs_f64(bytes as f64 / self.bytes_per_sec)
            .unwrap_or(SimDuration::from_ps(u64::MAX / 4))
    }

    /// Queues a shipment.
    pub fn push(&mut self, shipment: Shipment) {
        self.queue.push_back(shipment);
    }

    /// Starts the next shipment if nothing is in progress, enough places are free and one waits.
    pub fn start_next(&mut self) -> Option<Shipment> {
        if self.current.is_some() || self.flying >= self.most {
            return None;
        }
        self.current = self.queue.pop_front();
        self.current
    }

    /// Ends what is in progress.
    ///
    /// # Panics
    /// When nothing is: a defect of the caller (law L5).
    pub fn end(&mut self) -> Shipment {
        self.current
            .take()
            .expect("a transfer ends only after it started")
    }

    /// Lets what was posted fly.
    ///
    /// # Panics
    /// When nothing was being posted: a defect of the caller.
    pub fn launch(&mut self) -> Shipment {
        self.flying += 1;
        self.current.take().expect("what flies was posted")
    }

    /// A shipment has landed.
    pub fn land(&mut self) {
        self.flying -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipment(slot: usize, bytes: u64) -> Shipment {
        Shipment {
            slot: SlotId::new(slot),
            bytes,
            posting: SimDuration::ZERO,
        }
    }

    #[test]
    fn transfers_go_one_at_a_time_in_order() {
        let mut link = Link::new(1e9, 1);
        link.push(shipment(7, 1_000_000));
        link.push(shipment(8, 0));
        assert_eq!(link.start_next(), Some(shipment(7, 1_000_000)));
        assert_eq!(link.start_next(), None);
        assert_eq!(link.end().slot, SlotId::new(7));
        assert_eq!(link.start_next(), Some(shipment(8, 0)));
    }

    #[test]
    fn no_more_fly_than_may() {
        let mut link = Link::new(1e9, 2);
        (0..3).for_each(|i| link.push(shipment(i, 1)));
        for _ in 0..2 {
            assert!(link.start_next().is_some());
            link.launch();
        }
        assert_eq!(link.start_next(), None);
        link.land();
        assert_eq!(link.start_next(), Some(shipment(2, 1)));
    }

    #[test]
    fn an_infinite_link_takes_no_time() {
        assert_eq!(
            Link::new(f64::INFINITY, 1).wire(u64::MAX),
            SimDuration::ZERO
        );
    }
}
