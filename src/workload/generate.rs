//! Workloads: where a simulation's requests come from.

use std::sync::Arc;

use crate::rng::{self, Rng};
use crate::units::{PS_PER_S, SimDuration, SimTime};
use crate::workload::arrivals::ArrivalProcess;
use crate::workload::error::WorkloadError;
use crate::workload::lengths::LengthModel;
use crate::workload::trace::{Trace, TraceError};
use crate::workload::{Client, Prefixes, RequestSpec};

/// Longest expected span of a workload in seconds: half the clock's range of 213 days.
pub(crate) const MAX_SPAN_S: f64 = 107.0 * 86_400.0;

/// A generated workload: an arrival process and a length model, ended by a count, a duration, or both.
#[derive(Debug, Clone)]
pub struct Generated {
    /// When requests arrive.
    pub arrivals: ArrivalProcess,
    /// How long they are.
    pub lengths: LengthModel,
    /// Ends after this many requests.
    pub requests: Option<u64>,
    /// Ends with the last arrival before this instant.
    pub duration: Option<SimDuration>,
}

/// A resolved workload; cheap to clone and safe to share between threads.
#[derive(Debug, Clone)]
pub struct Workload {
    from: Kind,
    client: Client,
}

#[derive(Debug, Clone)]
enum Kind {
    Generated(Generated),
    Recorded(Trace),
}

impl Workload {
    /// Makes a generated workload.
    ///
    /// # Errors
    /// Names the first key with an impossible value: a rate that is not above 0, no requests, no end.
    pub fn generated(workload: Generated) -> Result<Self, WorkloadError> {
        workload.arrivals.validate()?;
        if workload.requests == Some(0) {
            return Err(WorkloadError::new(
                "requests",
                0,
                "a whole number of at least 1",
            ));
        }
        if workload.duration == Some(SimDuration::ZERO) {
            return Err(WorkloadError::new("duration", "0 s", "a duration above 0"));
        }
        let ends = matches!(workload.arrivals, ArrivalProcess::Replay(_));
        match (workload.requests, workload.duration) {
            (None, None) if !ends => {
                let allowed = "`requests`, `duration` or both, so that the workload ends";
                return Err(WorkloadError::new("requests", "missing", allowed));
            }
            (None, _) if matches!(workload.arrivals, ArrivalProcess::PoissonRescaled { .. }) => {
                let allowed = "a number of requests, over which the arrivals are rescaled,";
                return Err(WorkloadError::new("requests", "missing", allowed));
            }
            (Some(_), None) if matches!(workload.arrivals, ArrivalProcess::AtOnce) => {}
            (Some(requests), None) if !ends => {
                let span = requests as f64 / workload.arrivals.rate();
                if span > MAX_SPAN_S {
                    let seen = format!("{requests} requests at {} /s", workload.arrivals.rate());
                    let allowed =
                        "a workload of at most 107 days; raise `rate` or lower `requests`";
                    return Err(WorkloadError::new("requests", seen, allowed));
                }
            }
            _ => {}
        }
        Ok(Self::open(Kind::Generated(workload)))
    }

    /// Replays a recorded trace.
    #[must_use]
    pub fn recorded(trace: &Trace) -> Self {
        Self::open(Kind::Recorded(trace.clone()))
    }

    const fn open(from: Kind) -> Self {
        Self {
            from,
            client: Client::Open,
        }
    }

    /// The same requests, sent by a client that keeps at most `concurrency` in flight: each no earlier than its arrival
    /// if it is `paced`, otherwise whenever a place is free.
    ///
    /// # Errors
    /// When `concurrency` is 0, or nothing but the duration of a client without a plan would end the workload.
    pub fn closed(self, concurrency: u64, paced: bool) -> Result<Self, WorkloadError> {
        if concurrency == 0 {
            let allowed = "a whole number of at least 1";
            return Err(WorkloadError::new("concurrency", 0, allowed));
        }
        if let Kind::Generated(workload) = &self.from
            && !paced
            && workload.requests.is_none()
        {
            let allowed = "a number of requests, after which the client stops sending,";
            return Err(WorkloadError::new("requests", "missing", allowed));
        }
        let client = Client::Closed { concurrency, paced };
        Ok(Self { client, ..self })
    }

    /// Who decides when requests are sent.
    #[must_use]
    pub const fn client(&self) -> Client {
        self.client
    }

    /// Streams the requests in order of arrival, in constant memory.
    ///
    /// A generated workload depends on `seed` and draws arrivals and lengths from streams of their own; a recorded
    /// one is the same for every seed. In a closed loop these are the requests of its client, with planned arrivals if
    /// it is paced.
    #[must_use]
    pub fn stream(&self, seed: u64) -> Box<dyn Iterator<Item = RequestSpec> + Send> {
        match &self.from {
            Kind::Generated(workload) => Box::new(workload.stream(seed)),
            Kind::Recorded(trace) => trace.stream(),
        }
    }

    /// The shared starts of the prompts, for a recorded trace that describes them and is held in memory.
    #[must_use]
    pub fn prefixes(&self) -> Option<Arc<Prefixes>> {
        match &self.from {
            Kind::Generated(_) => None,
            Kind::Recorded(trace) => trace.prefixes(),
        }
    }

    /// The names of the request classes by number; empty where requests have none, as generated ones never have.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        match &self.from {
            Kind::Generated(_) => &[],
            Kind::Recorded(trace) => &trace.report.classes,
        }
    }

    /// The same workload at another mean rate in requests per second.
    ///
    /// A generated workload keeps its unit-rate gaps and its lengths for the same seed; a recorded one has its time
    /// stretched. Comparisons between rates are therefore paired.
    ///
    /// # Errors
    /// When `rate` is not a finite number above 0, or the stretched workload does not fit the clock, or a trace has
    /// no span to stretch.
    pub fn with_rate(&self, rate: f64) -> Result<Self, WorkloadError> {
        let at_rate = match &self.from {
            Kind::Generated(workload) => Self::generated(Generated {
                arrivals: workload.arrivals.with_rate(rate)?,
                ..workload.clone()
            })?,
            Kind::Recorded(trace) => Self::recorded(&trace.with_rate(rate)?),
        };
        Ok(Self {
            client: self.client,
            ..at_rate
        })
    }

    /// The mean rate in requests per second; none where all requests arrive at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match &self.from {
            Kind::Generated(workload) => Some(workload.arrivals.rate()).filter(|rate| *rate > 0.0),
            Kind::Recorded(trace) => trace.rate(),
        }
    }

    /// How many requests there will be, where that is known beforehand (a count without a duration, or a trace).
    #[must_use]
    pub fn requests(&self) -> Option<u64> {
        match &self.from {
            Kind::Generated(workload) => match workload.duration {
                None => workload.requests,
                Some(_) => None,
            },
            Kind::Recorded(trace) => Some(trace.len()),
        }
    }

    /// Whether the workload replays a trace, so that another seed changes nothing.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        matches!(self.from, Kind::Recorded(_))
    }

    /// Why a stream ended before the workload did, if one did: a long trace whose file has changed since it was scanned.
    /// A run that used the workload is then not to be trusted.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.trace().and_then(Trace::failure)
    }

    /// The trace behind the workload, or behind its arrivals alone.
    const fn trace(&self) -> Option<&Trace> {
        match &self.from {
            Kind::Recorded(trace)
            | Kind::Generated(Generated {
                arrivals: ArrivalProcess::Replay(trace),
                ..
            }) => Some(trace),
            Kind::Generated(_) => None,
        }
    }
}

impl Workload {
    /// The error behind [`Workload::failure`], taken out.
    pub(crate) fn take_failure(&self) -> Option<TraceError> {
        self.trace().and_then(Trace::take_failure)
    }
}

impl Generated {
    fn stream(&self, seed: u64) -> impl Iterator<Item = RequestSpec> + Send + use<> {
        let end = self
            .duration
            .map_or(SimTime::NEVER, |span| SimTime::ZERO + span);
        let left = self.requests.unwrap_or(u64::MAX);
        let max_output = self.lengths.max_output();
        let lengths = self.lengths.clone();
        let mut rng: Rng = rng::stream(seed, "lengths");
        self.arrivals
            .stream(seed, self.requests)
            .zip(0..left)
            .take_while(move |(arrival, _)| *arrival < end)
            .map(move |(arrival, _)| {
                let (input_tokens, output_tokens) = lengths.draw(&mut rng);
                RequestSpec {
                    arrival,
                    input_tokens,
                    output_tokens,
                    max_output,
                    class: 0,
                    session: 0,
                }
            })
    }
}

/// Stretches an instant; exact at scale 1.
pub(crate) fn scaled(at: SimTime, scale: f64) -> SimTime {
    if (scale - 1.0).abs() < f64::EPSILON {
        return at;
    }
    let ps = at.as_ps() as f64 * scale;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and `with_rate` keeps the last arrival inside the clock"
    )]
    SimTime::from_ps(ps.round() as u64)
}

/// Mean rate of `n` arrivals over `span`: the reciprocal of the mean gap.
pub(crate) fn mean_rate(n: u64, span: SimDuration) -> Option<f64> {
    (n > 1 && span > SimDuration::ZERO)
        .then(|| (n - 1) as f64 * PS_PER_S as f64 / span.as_ps() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lengths::named;

    fn chat(
        rate: f64,
        requests: Option<u64>,
        duration: Option<SimDuration>,
    ) -> Result<Workload, WorkloadError> {
        Workload::generated(Generated {
            arrivals: ArrivalProcess::Poisson { rate },
            lengths: named("sharegpt").unwrap().lengths,
            requests,
            duration,
        })
    }

    #[test]
    fn one_seed_gives_one_workload_and_another_seed_another() {
        let workload = chat(5.0, Some(50), None).unwrap();
        let draw = |seed| workload.stream(seed).collect::<Vec<_>>();
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_eq!(draw(1).len(), 50);
        assert!(draw(1).is_sorted_by_key(|request| request.arrival));
    }

    #[test]
    fn another_rate_keeps_lengths_and_stretches_arrivals() {
        let slow = chat(1.0, Some(200), None).unwrap();
        let fast = slow.with_rate(4.0).unwrap();
        for (a, b) in slow.stream(9).zip(fast.stream(9)) {
            assert_eq!(
                (a.input_tokens, a.output_tokens),
                (b.input_tokens, b.output_tokens)
            );
            let difference = a.arrival.as_ps().abs_diff(b.arrival.as_ps() * 4);
            assert!(difference <= 200 * 5, "{difference} ps apart");
        }
        assert_eq!(fast.rate(), Some(4.0));
    }

    #[test]
    fn a_duration_ends_the_workload_before_it() {
        let second = SimDuration::from_ms(1000);
        let workload = chat(100.0, None, Some(second)).unwrap();
        let all: Vec<_> = workload.stream(1).collect();
        assert!(
            all.iter()
                .all(|request| request.arrival < SimTime::ZERO + second)
        );
        assert!((50..200).contains(&all.len()), "{}", all.len());
        assert_eq!(workload.requests(), None);
        assert_eq!(
            chat(100.0, Some(3), Some(second))
                .unwrap()
                .stream(1)
                .count(),
            3
        );
    }

    #[test]
    fn impossible_workloads_name_their_key() {
        let key = |result: Result<Workload, WorkloadError>| result.unwrap_err().key;
        assert_eq!(key(chat(0.0, Some(1), None)), "rate");
        assert_eq!(key(chat(1.0, Some(0), None)), "requests");
        assert_eq!(key(chat(1.0, None, None)), "requests");
        assert_eq!(key(chat(1.0, None, Some(SimDuration::ZERO))), "duration");
        assert_eq!(key(chat(1e-6, Some(1_000_000), None)), "requests");
    }

    #[test]
    fn no_request_reveals_its_output_length() {
        let workload = chat(5.0, Some(50), None).unwrap();
        let caps: Vec<u32> = workload
            .stream(1)
            .map(|request| request.max_output)
            .collect();
        assert!(caps.windows(2).all(|pair| pair[0] == pair[1]));
        assert!(
            workload
                .stream(1)
                .all(|request| request.output_tokens <= request.max_output)
        );
    }
}
