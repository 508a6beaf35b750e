//! What the cluster needs from the loop.

use super::observer::Observer;
use crate::units::SimTime;

/// The clock, the calendar and the observer, as the loop lends them to the cluster.
pub trait Host {
    /// Who is told.
    type Observer: Observer;

    /// The current instant.
    fn now(&self) -> SimTime;

    /// Sets when `lane` fires next, replacing what was set before.
    fn schedule(&mut self, lane: usize, at: SimTime);

    /// Lets `lane` fire no more.
    fn cancel(&mut self, lane: usize);

    /// The observer.
    fn observer(&mut self) -> &mut Self::Observer;
}
