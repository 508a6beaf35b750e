//! Arrivals under an intensity that varies: unit gaps mapped through the inverse of its integral.

use std::f64::consts::TAU;
use std::sync::Arc;

use crate::rng::Rng;
use crate::units::{SimDuration, SimTime};
use crate::workload::arrivals::{Gaps, Intensity, Segment};
use crate::workload::draw;

/// Streams the arrivals of mean rate `rate`; `gaps` and `path` are the random streams of gaps and of the intensity.
pub(super) fn stream(
    rate: f64,
    kind: Gaps,
    intensity: &Intensity,
    gaps: Rng,
    path: Rng,
) -> Box<dyn Iterator<Item = SimTime> + Send> {
    let scale = rate / intensity.mean();
    match intensity {
        Intensity::Sinusoid {
            period,
            amplitude,
            phase,
        } => Box::new(Sinusoid {
            kind,
            gaps,
            rate,
            omega: TAU / period.as_secs_f64(),
            amplitude: *amplitude,
            start: TAU * phase,
            work: 0.0,
            now: 0.0,
        }),
        Intensity::Schedule { segments, repeat } => {
            let stretches = Cycle {
                segments: Arc::clone(segments),
                next: 0,
                repeat: *repeat,
            };
            Box::new(Stepped::new(kind, gaps, scale, stretches))
        }
        Intensity::Markov { states } => {
            Box::new(Stepped::new(kind, gaps, scale, Chain::new(states, path)))
        }
    }
}

/// Seconds as an instant; none beyond the clock.
fn instant(seconds: f64) -> Option<SimTime> {
    SimDuration::from_secs_f64(seconds)
        .ok()
        .map(|span| SimTime::ZERO + span)
}

/// Arrivals under an intensity that is constant in stretches of time.
struct Stepped<S> {
    kind: Gaps,
    gaps: Rng,
    scale: f64,
    stretches: S,
    now: f64,
    /// End and rate of the current stretch.
    end: f64,
    rate: f64,
}

impl<S: Iterator<Item = (f64, f64)>> Stepped<S> {
    fn new(kind: Gaps, gaps: Rng, scale: f64, stretches: S) -> Self {
        Self {
            kind,
            gaps,
            scale,
            stretches,
            now: 0.0,
            end: 0.0,
            rate: 0.0,
        }
    }
}

impl<S: Iterator<Item = (f64, f64)>> Iterator for Stepped<S> {
    type Item = SimTime;

    fn next(&mut self) -> Option<SimTime> {
        let mut work = self.kind.draw(&mut self.gaps);
        loop {
            let room = (self.end - self.now) * self.rate;
            if work <= room && self.rate > 0.0 {
                self.now += work / self.rate;
                return instant(self.now);
            }
            work -= room;
            self.now = self.end;
            let (span, rate) = self.stretches.next()?;
            self.end = self.now + span;
            self.rate = rate * self.scale;
            // A process that only rests up to the end of the clock must end too.
            instant(self.now)?;
        }
    }
}

/// The stretches of a schedule: seconds and relative rate.
struct Cycle {
    segments: Arc<[Segment]>,
    next: usize,
    repeat: bool,
}

impl Iterator for Cycle {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        if self.next == self.segments.len() {
            if !self.repeat {
                return None;
            }
            self.next = 0;
        }
        let segment = self.segments[self.next];
        self.next += 1;
        Some((segment.span.as_secs_f64(), segment.rate))
    }
}

/// The stays of a Markov chain: seconds and relative rate.
struct Chain {
    states: Arc<[Segment]>,
    state: usize,
    path: Rng,
}

impl Chain {
    /// Draws the first state from the long-run shares of time.
    fn new(states: &Arc<[Segment]>, mut path: Rng) -> Self {
        let total: f64 = states.iter().map(|state| state.span.as_secs_f64()).sum();
        let mut left = draw::uniform(&mut path) * total;
        let first = states.iter().position(|state| {
            left -= state.span.as_secs_f64();
            left <= 0.0
        });
        Self {
            states: Arc::clone(states),
            state: first.unwrap_or(states.len() - 1),
            path,
        }
    }
}

impl Iterator for Chain {
    type Item = (f64, f64);

    fn next(&mut self) -> Option<(f64, f64)> {
        let here = self.states[self.state];
        let stay = here.span.as_secs_f64() * draw::exponential(&mut self.path);
        let others = self.states.len() - 1;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small count, at least 0"
        )]
        let jump = (draw::uniform(&mut self.path) * others as f64) as usize;
        self.state = (self.state + 1 + jump.min(others - 1)) % self.states.len();
        Some((stay, here.rate))
    }
}

/// Arrivals under `rate × (1 + amplitude × sin(omega t + start))`.
struct Sinusoid {
    kind: Gaps,
    gaps: Rng,
    rate: f64,
    omega: f64,
    amplitude: f64,
    start: f64,
    /// Sum of the unit gaps so far.
    work: f64,
    now: f64,
}

impl Sinusoid {
    /// The integral of the intensity from 0 to `t`.
    fn integral(&self, t: f64) -> f64 {
        let wave = libm::cos(self.start) - libm::cos(self.omega * t + self.start);
        self.rate * (t + self.amplitude / self.omega * wave)
    }

    /// The instant at which the integral reaches `work`: Newton's steps, halving where they leave the bracket.
    fn invert(&self) -> f64 {
        let swing = 2.0 * self.amplitude / self.omega;
        let mut low = self.now;
        let mut high = self.work / self.rate + swing;
        let mut t = low.max(self.work / self.rate - swing);
        for _ in 0..200 {
            let error = self.integral(t) - self.work;
            if error > 0.0 {
                high = high.min(t);
            } else {
                low = low.max(t);
            }
            let slope = self.rate * (1.0 + self.amplitude * libm::sin(self.omega * t + self.start));
            let newton = t - error / slope;
            let next = if newton > low && newton < high {
                newton
            } else {
                f64::midpoint(low, high)
            };
            // A picosecond is the clock's own resolution.
            if (next - t).abs() < 1e-12 || high - low < 1e-12 {
                return next;
            }
            t = next;
        }
        t
    }
}

impl Iterator for Sinusoid {
    type Item = SimTime;

    fn next(&mut self) -> Option<SimTime> {
        self.work += self.kind.draw(&mut self.gaps);
        self.now = self.invert();
        instant(self.now)
    }
}
