//! A closed loop: a fixed number of requests in flight, the next one sent when one ends.
//!
//! Load generators call this maximum concurrency. The requests come from any workload, in its order: the lengths of the
//! n-th request are the same whatever the system under test does. Without pacing a request is sent as soon as a place is
//! free. With pacing the workload's arrivals are a plan, as a load generator's request rate is beside its maximum
//! concurrency: a request is sent at its planned instant, or when a place becomes free after it. The time between is the
//! client's wait. It is no part of TTFT, which starts when the request is sent, and is reported apart.
//!
//! Not modelled: time that a real client needs between an answer and the next request.

use std::iter::Fuse;

use crate::units::SimTime;
use crate::workload::RequestSpec;
use crate::workload::source::{Sent, Source};

/// The client side of a closed loop over `requests`.
#[derive(Debug)]
pub struct ClosedLoop<I> {
    concurrency: u64,
    paced: bool,
    in_flight: u64,
    now: SimTime,
    requests: Fuse<I>,
}

impl<I: Iterator<Item = RequestSpec>> ClosedLoop<I> {
    /// Makes a client that keeps up to `concurrency` (at least 1) of `requests` in flight, each no earlier than its
    /// arrival if the client is `paced`.
    #[must_use]
    pub fn new(concurrency: u64, paced: bool, requests: I) -> Self {
        Self {
            concurrency: concurrency.max(1),
            paced,
            in_flight: 0,
            now: SimTime::ZERO,
            requests: requests.fuse(),
        }
    }
}

impl<I: Iterator<Item = RequestSpec>> Source for ClosedLoop<I> {
    const CLOSED: bool = true;

    /// Under a plan the arrival may lie in the future; it takes its place in the count at once, so that the promise of
    /// the concurrency holds without further events.
    fn next_request(&mut self) -> Option<Sent> {
        if self.in_flight >= self.concurrency {
            return None;
        }
        let request = self.requests.next()?;
        let planned = if self.paced {
            request.arrival
        } else {
            self.now
        };
        let arrival = planned.max(self.now);
        self.in_flight += 1;
        self.now = arrival;
        Some(Sent {
            request: RequestSpec { arrival, ..request },
            client_wait: arrival.saturating_since(planned),
        })
    }

    fn ended(&mut self, at: SimTime, count: u64) {
        self.in_flight = self.in_flight.saturating_sub(count);
        self.now = self.now.max(at);
    }

    /// Only a plan says when a request was to be sent.
    fn never_sent(&mut self, until: SimTime) -> u64 {
        if !self.paced {
            return 0;
        }
        let planned = self.requests.by_ref();
        planned
            .take_while(|request| request.arrival <= until)
            .count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PS_PER_S, SimDuration};

    fn seconds(n: u64) -> SimTime {
        SimTime::ZERO + SimDuration::from_ms(n * 1000)
    }

    /// Requests planned at 1, 2, 3, … s, with prompts of as many tokens.
    fn requests(n: u32) -> impl Iterator<Item = RequestSpec> {
        (1..=n).map(|i| RequestSpec {
            arrival: seconds(u64::from(i)),
            input_tokens: i,
            output_tokens: 5,
            max_output: 5,
            class: 0,
            session: 0,
        })
    }

    /// Serves every request for `service` seconds; returns arrivals and waits in whole seconds.
    fn drive(concurrency: u64, paced: bool, n: u32, service: u64) -> Vec<(u64, u64)> {
        let mut client = ClosedLoop::new(concurrency, paced, requests(n));
        let whole = |span: SimDuration| span.as_ps() / PS_PER_S;
        let (mut ends, mut sent) = (std::collections::VecDeque::new(), Vec::new());
        loop {
            while let Some(next) = client.next_request() {
                assert_eq!(next.request.input_tokens as usize, sent.len() + 1);
                let arrival = next.request.arrival;
                sent.push((whole(arrival - SimTime::ZERO), whole(next.client_wait)));
                ends.push_back(arrival + SimDuration::from_ms(service * 1000));
            }
            let Some(end) = ends.pop_front() else {
                return sent;
            };
            client.ended(end, 1);
        }
    }

    #[test]
    fn the_next_request_is_sent_when_one_ends() {
        let sent = drive(2, false, 6, 10);
        let times: Vec<u64> = sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 0, 10, 10, 20, 20]);
        assert!(sent.iter().all(|(_, wait)| *wait == 0));
    }

    #[test]
    fn a_plan_is_kept_while_places_are_free_and_the_wait_beyond_it_is_told() {
        // Planned at 1, 2, 3, 4 s; one place; each request takes 3 s.
        assert_eq!(drive(1, true, 4, 3), [(1, 0), (4, 2), (7, 4), (10, 6)]);
        // With enough places the plan is kept.
        assert_eq!(drive(4, true, 4, 3), [(1, 0), (2, 0), (3, 0), (4, 0)]);
    }

    #[test]
    fn what_a_plan_wanted_sent_and_was_not_is_counted() {
        // Planned at 1, …, 10 s; two places, none of which becomes free.
        for (paced, until, never) in [(true, 7, 5), (true, 2, 0), (true, 60, 8), (false, 7, 0)] {
            let mut client = ClosedLoop::new(2, paced, requests(10));
            assert_eq!(std::iter::from_fn(|| client.next_request()).count(), 2);
            assert_eq!(client.never_sent(seconds(until)), never, "{paced} {until}");
        }
    }

    #[test]
    fn never_more_than_the_concurrency_is_in_flight() {
        let mut client = ClosedLoop::new(3, false, requests(10));
        assert_eq!(std::iter::from_fn(|| client.next_request()).count(), 3);
        client.ended(seconds(2), 1);
        assert_eq!(client.next_request().unwrap().request.arrival, seconds(2));
        assert_eq!(client.next_request(), None);
    }
}
