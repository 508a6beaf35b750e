//! Workloads: where a simulation's requests come from.

use std::sync::Arc;

use crate::rng::{self, Rng};
use crate::units::{PS_PER_S, SimDuration, SimTime};
use crate::workload::arrivals::ArrivalProcess;
use crate::workload::error::WorkloadError;
use crate::workload::lengths::LengthModel;
use crate::workload::trace::Trace;
use crate::workload::{Prefixes, RequestSpec};

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
pub struct Workload(Source);

#[derive(Debug, Clone)]
enum Source {
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
                return Err(WorkloadError::new("requests", "nothing", allowed));
            }
            (None, _) if matches!(workload.arrivals, ArrivalProcess::PoissonRescaled { .. }) => {
                let allowed = "a number of requests, over which the arrivals are rescaled,";
                return Err(WorkloadError::new("requests", "nothing", allowed));
            }
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
        Ok(Self(Source::Generated(workload)))
    }

    /// Replays a recorded trace.
    #[must_use]
    pub fn recorded(trace: &Trace) -> Self {
        Self(Source::Recorded(trace.clone()))
    }

    /// Streams the requests in order of arrival, in constant memory.
    ///
    /// A generated workload depends on `seed` and draws arrivals and lengths from streams of their own; a recorded
    /// one is the same for every seed.
    #[must_use]
    pub fn stream(&self, seed: u64) -> Box<dyn Iterator<Item = RequestSpec> + Send> {
        match &self.0 {
            Source::Generated(workload) => Box::new(workload.stream(seed)),
            Source::Recorded(trace) => trace.stream(),
        }
    }

    /// The shared starts of the prompts, for a recorded trace that describes them and is held in memory.
    #[must_use]
    pub fn prefixes(&self) -> Option<Arc<Prefixes>> {
        match &self.0 {
            Source::Generated(_) => None,
            Source::Recorded(trace) => trace.prefixes(),
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
        match &self.0 {
            Source::Generated(workload) => Self::generated(Generated {
                arrivals: workload.arrivals.with_rate(rate)?,
                ..workload.clone()
            }),
            Source::Recorded(trace) => trace
                .with_rate(rate)
                .map(|trace| Self(Source::Recorded(trace))),
        }
    }

    /// The mean rate in requests per second; none for a trace whose requests all arrive at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match &self.0 {
            Source::Generated(workload) => Some(workload.arrivals.rate()),
            Source::Recorded(trace) => trace.rate(),
        }
    }

    /// How many requests there will be, where that is known beforehand (a count without a duration, or a trace).
    #[must_use]
    pub fn requests(&self) -> Option<u64> {
        match &self.0 {
            Source::Generated(workload) => match workload.duration {
                None => workload.requests,
                Some(_) => None,
            },
            Source::Recorded(trace) => Some(trace.len()),
        }
    }

    /// Whether the workload replays a trace, so that another seed changes nothing.
    #[must_use]
    pub const fn is_recorded(&self) -> bool {
        matches!(self.0, Source::Recorded(_))
    }

    /// Why a stream ended before the workload did, if one did: a long trace whose file has changed since it was scanned.
    /// A run that used the workload is then not to be trusted.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match &self.0 {
            Source::Generated(_) => None,
            Source::Recorded(trace) => trace.failure(),
        }
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
