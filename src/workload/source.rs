//! Where the event loop takes its requests from.

use crate::units::{SimDuration, SimTime};
use crate::workload::RequestSpec;

/// A request as its client sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The request; its arrival is when it is sent.
    pub request: RequestSpec,
    /// How long the client held it back because no place was free; zero in an open loop.
    pub client_wait: SimDuration,
}

/// Sends requests in order of arrival. Every iterator over requests is an open loop; a
/// [`ClosedLoop`](super::closed_loop::ClosedLoop) also listens for ends.
pub trait Source {
    /// Whether ends make it send more. Where they do not, the loop tells it of none, and spends nothing on it.
    const CLOSED: bool;

    /// The next request; none for good, or, in a closed loop, until a request ends.
    fn next_request(&mut self) -> Option<Sent>;

    /// `count` requests in flight ended at `at`, in any way. Later requests arrive at `at` or after it.
    fn ended(&mut self, at: SimTime, count: u64);

    /// The run ends at `until`: how many requests were to be sent by then and were not, since no place was free. Nothing is taken
    /// from it afterwards.
    fn never_sent(&mut self, until: SimTime) -> u64;
}

impl<I: Iterator<Item = RequestSpec>> Source for I {
    const CLOSED: bool = false;

    fn next_request(&mut self) -> Option<Sent> {
        self.next().map(|request| Sent {
            request,
            client_wait: SimDuration::ZERO,
        })
    }

    fn ended(&mut self, _: SimTime, _: u64) {}

    fn never_sent(&mut self, _: SimTime) -> u64 {
        0
    }
}

/// Who decides when requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Client {
    /// The workload alone.
    #[default]
    Open,
    /// A client that keeps at most so many requests in flight.
    Closed {
        /// Most requests in flight.
        concurrency: u64,
        /// Whether the workload's arrivals are a plan that it does not run ahead of; otherwise it sends whenever it may.
        paced: bool,
    },
}

impl Client {
    /// Whether requests are held back against a plan, so that there is a client's wait to report.
    #[must_use]
    pub const fn is_paced(self) -> bool {
        matches!(self, Self::Closed { paced: true, .. })
    }

    /// Whether the client always has as many requests in flight as it may.
    #[must_use]
    pub const fn is_saturating(self) -> bool {
        matches!(self, Self::Closed { paced: false, .. })
    }
}
