//! A closed loop: a fixed number of requests in flight, the next one sent when one ends.
//!
//! Load generators call this maximum concurrency. Arrivals then depend on the simulation, so a closed loop is no iterator:
//! the event loop asks for the first requests, and tells of every end. What it has to provide:
//!
//! 1. At the start, take [`ClosedLoop::next_request`] until it gives nothing.
//! 2. When a request ends in any way (done or rejected), call [`ClosedLoop::ended`] with the instant, then take
//!    [`ClosedLoop::next_request`] again until it gives nothing. Every arrival handed out is at or after that instant, and they
//!    never decrease, so each becomes one arrival event.
//!
//! A rate cap (load generators' request rate beside a maximum concurrency) plans a request for an instant of its own; if no
//! place is free then, the request is sent when one becomes free. The time between is the client's wait, reported apart: it
//! is not part of TTFT, which starts when the request is sent.

use crate::rng::{self, Rng};
use crate::units::{SimDuration, SimTime};
use crate::workload::RequestSpec;
use crate::workload::arrivals::ArrivalProcess;
use crate::workload::error::WorkloadError;
use crate::workload::lengths::LengthModel;

/// A request of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The request; its arrival is when it is sent.
    pub request: RequestSpec,
    /// How long the client held it back because no place was free; zero without a rate cap.
    pub client_wait: SimDuration,
}

/// The client side of a closed loop.
pub struct ClosedLoop {
    concurrency: u64,
    in_flight: u64,
    left: u64,
    now: SimTime,
    lengths: LengthModel,
    rng: Rng,
    /// Planned instants under a rate cap, and the next of them.
    plan: Option<Box<dyn Iterator<Item = SimTime> + Send>>,
    planned: Option<SimTime>,
}

impl std::fmt::Debug for ClosedLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClosedLoop")
            .field("concurrency", &self.concurrency)
            .field("in_flight", &self.in_flight)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl ClosedLoop {
    /// Makes a client that keeps up to `concurrency` requests in flight until `requests` have been sent, at most at the
    /// pace of `cap` if there is one. Lengths and planned instants are those of the open loop under the same seed.
    ///
    /// # Errors
    /// When `concurrency` or `requests` is 0, or the cap has an impossible parameter.
    pub fn new(
        concurrency: u64,
        requests: u64,
        lengths: LengthModel,
        cap: Option<&ArrivalProcess>,
        seed: u64,
    ) -> Result<Self, WorkloadError> {
        for (key, value) in [("concurrency", concurrency), ("requests", requests)] {
            if value == 0 {
                return Err(WorkloadError::new(
                    key,
                    value,
                    "a whole number of at least 1",
                ));
            }
        }
        cap.map_or(Ok(()), ArrivalProcess::validate)?;
        let mut plan = cap.map(|process| process.stream(seed, Some(requests)));
        Ok(Self {
            concurrency,
            in_flight: 0,
            left: requests,
            now: SimTime::ZERO,
            lengths,
            rng: rng::stream(seed, "lengths"),
            planned: plan.as_mut().and_then(Iterator::next),
            plan,
        })
    }

    /// The next request that can be sent, or none until one in flight ends (or for good, when all have been sent).
    ///
    /// Under a rate cap the arrival may lie in the future; it takes its place in the count at once, so that the promise of
    /// the concurrency holds without further events.
    pub fn next_request(&mut self) -> Option<Sent> {
        if self.in_flight >= self.concurrency || self.left == 0 {
            return None;
        }
        let planned = match self.plan {
            Some(_) => self.planned?,
            None => self.now,
        };
        if let Some(plan) = &mut self.plan {
            self.planned = plan.next();
        }
        self.left -= 1;
        self.in_flight += 1;
        let arrival = planned.max(self.now);
        self.now = arrival;
        let (input_tokens, output_tokens) = self.lengths.draw(&mut self.rng);
        let request = RequestSpec {
            arrival,
            input_tokens,
            output_tokens,
            max_output: self.lengths.max_output(),
            class: 0,
            session: 0,
        };
        Some(Sent {
            request,
            client_wait: arrival.saturating_since(planned),
        })
    }

    /// A request in flight ended at `at`: its place is free from then on.
    pub fn ended(&mut self, at: SimTime) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.now = self.now.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lengths::Marginal;

    fn client(concurrency: u64, requests: u64, cap: Option<f64>) -> ClosedLoop {
        let tokens = |n| Marginal::fixed("tokens", n).unwrap();
        let lengths = LengthModel::independent(tokens(10), tokens(5));
        let cap = cap.map(|rate| ArrivalProcess::Constant { rate });
        ClosedLoop::new(concurrency, requests, lengths, cap.as_ref(), 1).unwrap()
    }

    fn seconds(n: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_ms(n * 1000)
    }

    /// Serves every request for `service` seconds; returns arrivals and waits in whole seconds.
    fn drive(client: &mut ClosedLoop, service: u64) -> Vec<(u64, u64)> {
        let whole = |span: SimDuration| span.as_ps() / crate::units::PS_PER_S;
        let (mut ends, mut sent) = (std::collections::VecDeque::new(), Vec::new());
        loop {
            while let Some(next) = client.next_request() {
                let arrival = next.request.arrival;
                ends.push_back(arrival + SimDuration::from_ms(service * 1000));
                sent.push((whole(arrival - SimTime::ZERO), whole(next.client_wait)));
            }
            let Some(end) = ends.pop_front() else {
                return sent;
            };
            client.ended(end);
        }
    }

    #[test]
    fn the_next_request_is_sent_when_one_ends() {
        let sent = drive(&mut client(2, 5, None), 3);
        assert_eq!(sent, [(0, 0), (0, 0), (3, 0), (3, 0), (6, 0)]);
    }

    #[test]
    fn a_rate_cap_holds_back_and_the_clients_wait_is_told() {
        // Planned at 1, 2, 3, 4 s; one place; each request takes 3 s.
        let sent = drive(&mut client(1, 4, Some(1.0)), 3);
        assert_eq!(sent, [(1, 0), (4, 2), (7, 4), (10, 6)]);
        // With enough places the plan is kept.
        let sent = drive(&mut client(4, 4, Some(1.0)), 3);
        assert_eq!(sent, [(1, 0), (2, 0), (3, 0), (4, 0)]);
    }

    #[test]
    fn never_more_than_the_concurrency_is_in_flight() {
        let mut client = client(3, 10, None);
        assert_eq!(std::iter::from_fn(|| client.next_request()).count(), 3);
        client.ended(seconds(2));
        assert_eq!(client.next_request().unwrap().request.arrival, seconds(2));
        assert_eq!(client.next_request(), None);
    }

    #[test]
    fn nothing_to_send_is_refused() {
        let lengths = LengthModel::independent(
            Marginal::fixed("t", 1).unwrap(),
            Marginal::fixed("t", 1).unwrap(),
        );
        assert_eq!(
            ClosedLoop::new(0, 1, lengths.clone(), None, 1)
                .unwrap_err()
                .key,
            "concurrency"
        );
        assert_eq!(
            ClosedLoop::new(1, 0, lengths, None, 1).unwrap_err().key,
            "requests"
        );
    }
}
