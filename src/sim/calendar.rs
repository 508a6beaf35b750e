//! The event queue: when each lane fires next.

use crate::tournament::Tournament;
use crate::units::SimTime;

/// A calendar over a fixed set of lanes, each with at most one pending event.
///
/// Order: time, then lane number. That is the whole tie-break: lanes are numbered so that their order is the rank of their
/// events (step ends in order of instances, then transfer ends; arrivals are taken by the loop after both). Rescheduling a
/// lane replaces its event, so nothing stale is ever popped. `set` costs O(log lanes), `next` O(1).
#[derive(Debug)]
pub struct Calendar {
    lanes: Tournament<SimTime>,
}

impl Calendar {
    /// A calendar with nothing scheduled.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        Self {
            lanes: Tournament::new(lanes, SimTime::NEVER),
        }
    }

    /// Sets when `lane` fires next; [`SimTime::NEVER`] for not at all.
    pub fn set(&mut self, lane: usize, at: SimTime) {
        self.lanes.set(lane, at);
    }

    /// The next event: when, and of which lane. [`SimTime::NEVER`] when there is none.
    #[must_use]
    pub fn next(&self) -> (SimTime, usize) {
        self.lanes.least()
    }
}
