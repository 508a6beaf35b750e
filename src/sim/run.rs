//! The loop.

use std::sync::Arc;

use super::calendar::Calendar;
use crate::cluster::{Cluster, Host, Observer, Stall, SystemSpec};
use crate::ids::RequestId;
use crate::units::{SimDuration, SimTime};
use crate::workload::{Prefixes, RequestSpec, Sent, Source};

/// How to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Seed of what policies draw by chance.
    pub seed: u64,
    /// When to stop although requests are still in the cluster; `None`: when all have ended.
    pub horizon: Option<SimTime>,
    /// The shared starts of prompts, for pools with a prefix cache.
    pub prefixes: Option<Arc<Prefixes>>,
}

/// Why a simulation could not be carried through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing can move any more.
    #[error(
        "{stuck} requests are stuck at {at_s} s (first: request {first}): no event is pending, so nothing can move; {stall}"
    )]
    Stalled {
        /// How many requests.
        stuck: usize,
        /// The first of them.
        first: String,
        /// When, in seconds.
        at_s: String,
        /// Who waits for what, and who holds it.
        stall: Box<Stall>,
    },
    /// The system could end in a stall by what it is made of.
    #[error("{0}")]
    Contradiction(&'static str),
    /// Arrivals went back in time.
    #[error(
        "request {0} arrives before the one in front of it; a workload must be in order of arrival"
    )]
    Unordered(usize),
    /// The clock ran out.
    #[error(
        "the simulated time passed the clock's range of 213 days; check rates, lengths and step times"
    )]
    ClockOverflow,
}

/// The clock, the calendar and the observer of one simulation.
struct Engine<'a, O> {
    now: SimTime,
    calendar: Calendar,
    observer: &'a mut O,
}

impl<O: Observer> Host for Engine<'_, O> {
    type Observer = O;

    fn now(&self) -> SimTime {
        self.now
    }

    fn schedule(&mut self, lane: usize, at: SimTime) {
        // An end beyond the clock's range is an event one tick before "never": the loop sees it and stops with an error.
        let last = SimTime::from_ps(SimTime::NEVER.as_ps() - 1);
        self.calendar.set(lane, at.min(last));
    }

    fn cancel(&mut self, lane: usize) {
        self.calendar.set(lane, SimTime::NEVER);
    }

    fn observer(&mut self) -> &mut O {
        self.observer
    }
}

/// Simulates `spec` under `requests` (in order of arrival) and tells `observer` what happens; returns the last instant.
///
/// Each instant has three phases: *advance* the clock to the next event; *drain* every event of that instant, which changes
/// state only; *dispatch*: route, then form steps, so that a step formed at `t` sees all that happened at `t`.
///
/// # Errors
/// When the system contradicts itself, arrivals are out of order, the clock overflows, or nothing can move although requests are waiting.
pub fn simulate<O: Observer>(
    spec: &SystemSpec,
    requests: impl IntoIterator<Item = RequestSpec>,
    options: Options,
    observer: &mut O,
) -> Result<SimTime, Error> {
    simulate_from(spec, requests.into_iter(), options, observer)
}

/// The same under requests from any source, so also from a closed loop, which sends the next one when one ends: at that
/// very instant, and in time for the steps that are formed at it.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_from<S: Source, O: Observer>(
    spec: &SystemSpec,
    source: S,
    options: Options,
    observer: &mut O,
) -> Result<SimTime, Error> {
    if let Some(why) = spec.contradiction() {
        return Err(Error::Contradiction(why));
    }
    let mut cluster = Cluster::new(spec, options.seed, options.prefixes);
    let mut engine = Engine {
        now: SimTime::ZERO,
        calendar: Calendar::new(cluster.lanes()),
        observer,
    };
    let mut inlet = Inlet::new(source);
    let mut samples = Vec::new();
    let horizon = options.horizon.unwrap_or(SimTime::NEVER);
    // Whether something was still to come when the horizon was reached: the run then ends at the horizon.
    let cut = loop {
        let arrival = inlet.arrival();
        if arrival < engine.now {
            return Err(Error::Unordered(inlet.count));
        }
        if arrival == SimTime::NEVER && cluster.is_empty() {
            // What may be pending, an instance that is taking another role, is of no interest any more.
            break false;
        }
        let at = engine.calendar.next().0.min(arrival);
        sample_until(&mut engine, &cluster, at.min(horizon), &mut samples);
        if at == SimTime::NEVER || at > horizon {
            break at != SimTime::NEVER;
        }
        if at.as_ps() == SimTime::NEVER.as_ps() - 1 {
            return Err(Error::ClockOverflow);
        }
        engine.now = at;
        drain(&mut engine, &mut cluster);
        inlet.let_in(&mut engine, &mut cluster);
        cluster.route(&mut engine);
        // Routing may have cut decode runs at this very instant.
        drain(&mut engine, &mut cluster);
        cluster.form(&mut engine);
        // A request refused in dispatch frees its place now; what is sent for it makes this instant come again.
        inlet.listen(at, &cluster);
    };
    if cut && S::CLOSED {
        let never = inlet.source.never_sent(horizon);
        if never > 0 {
            engine.observer.never_sent(never);
        }
    }
    finish(&mut engine, &mut cluster, cut.then_some(horizon))
}

/// The requests still to come, one of them in hand.
struct Inlet<S> {
    source: S,
    next: Option<Sent>,
    /// Requests let in.
    count: usize,
    /// Ends the source has been told of.
    told: usize,
}

impl<S: Source> Inlet<S> {
    fn new(mut source: S) -> Self {
        Self {
            next: source.next_request(),
            source,
            count: 0,
            told: 0,
        }
    }

    /// When the next request arrives; never, when none is in hand.
    fn arrival(&self) -> SimTime {
        self.next
            .as_ref()
            .map_or(SimTime::NEVER, |sent| sent.request.arrival)
    }

    /// Lets in every request that arrives now.
    fn let_in<O: Observer>(&mut self, engine: &mut Engine<'_, O>, cluster: &mut Cluster) {
        let now = engine.now;
        self.listen(now, cluster);
        while let Some(sent) = self.next.take_if(|sent| sent.request.arrival == now) {
            if S::CLOSED && sent.client_wait > SimDuration::ZERO {
                let id = RequestId::new(self.count);
                engine.observer.held_back(id, sent.client_wait);
            }
            cluster.arrive(&sent.request, engine);
            self.count += 1;
            self.next = self.source.next_request();
            self.listen(now, cluster);
        }
    }

    /// Tells a closed loop of the requests that have ended, and takes what it sends for them.
    fn listen(&mut self, now: SimTime, cluster: &Cluster) {
        if !S::CLOSED {
            return;
        }
        let ended = cluster.ended();
        if ended == self.told {
            return;
        }
        self.source.ended(now, (ended - self.told) as u64);
        self.told = ended;
        if self.next.is_none() {
            self.next = self.source.next_request();
        }
    }
}

/// Fires every lane that is due now.
#[inline]
fn drain<O: Observer>(engine: &mut Engine<'_, O>, cluster: &mut Cluster) {
    loop {
        let (at, lane) = engine.calendar.next();
        if at != engine.now {
            return;
        }
        fire(lane, engine, cluster);
    }
}

/// Fires the lane that is due; kept out of line, as most looks at the calendar find none.
#[inline(never)]
fn fire<O: Observer>(lane: usize, engine: &mut Engine<'_, O>, cluster: &mut Cluster) {
    engine.calendar.set(lane, SimTime::NEVER);
    cluster.fire(lane, engine);
}

/// Takes the samples wanted before `at`; between events only decode runs move, and a sample sees them moved.
fn sample_until<O: Observer>(
    engine: &mut Engine<'_, O>,
    cluster: &Cluster,
    at: SimTime,
    samples: &mut Vec<super::PoolSample>,
) {
    while at != SimTime::NEVER && engine.observer.next_sample() < at {
        let when = engine.observer.next_sample();
        cluster.sample(when, samples);
        engine.observer.sample(when, samples);
    }
}

fn finish<O: Observer>(
    engine: &mut Engine<'_, O>,
    cluster: &mut Cluster,
    horizon: Option<SimTime>,
) -> Result<SimTime, Error> {
    if let Some(horizon) = horizon {
        engine.now = horizon;
        cluster.stop(engine);
    }
    let stuck = cluster.stuck();
    if let Some(first) = stuck.first() {
        return Err(Error::Stalled {
            stuck: stuck.len(),
            first: first.to_string(),
            at_s: format!("{:.6}", engine.now.as_secs_f64()),
            stall: Box::new(cluster.stall()),
        });
    }
    engine.observer.finished(engine.now);
    Ok(engine.now)
}
