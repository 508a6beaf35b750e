//! State over time, at an interval that adapts itself to the length of the run.

use crate::sim::PoolSample;
use crate::units::{SimDuration, SimTime};

/// Most points kept; one more halves the resolution.
const MAX_POINTS: usize = 1024;

/// First interval.
const FIRST_INTERVAL: SimDuration = SimDuration::from_ms(1);

/// Samples of every pool at multiples of an interval.
///
/// The interval starts at 1 ms and doubles whenever more than 1024 points would be kept (every other one is then
/// dropped), so a run of any length has 512 to 1024 points that depend on nothing but the run.
#[derive(Debug, Clone)]
pub struct Series {
    pools: usize,
    interval: SimDuration,
    points: Vec<Point>,
    samples: Vec<PoolSample>,
}

/// Counts of the whole cluster at one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub time: SimTime,
    /// Requests arrived so far.
    pub arrived: u64,
    /// Requests ended so far.
    pub ended: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Series {
    /// Makes an empty series of a system with `pools` pools.
    #[must_use]
    pub const fn new(pools: usize) -> Self {
        Self {
            pools,
            interval: FIRST_INTERVAL,
            points: Vec::new(),
            samples: Vec::new(),
        }
    }

    /// When the next sample is due.
    #[must_use]
    pub fn next(&self) -> SimTime {
        self.points
            .last()
            .map_or(SimTime::ZERO, |p| p.time.saturating_add(self.interval))
    }

    /// Adds the state at `point.time`, which is the instant [`Series::next`] named.
    pub fn push(&mut self, point: Point, pools: &[PoolSample]) {
        self.points.push(point);
        self.samples.extend_from_slice(pools);
        if self.points.len() > MAX_POINTS {
            self.halve();
        }
    }

    /// Keeps the points at even multiples of the interval.
    fn halve(&mut self) {
        let kept = self.points.len().div_ceil(2);
        for to in 0..kept {
            let from = 2 * to;
            self.points[to] = self.points[from];
            for pool in 0..self.pools {
                self.samples[to * self.pools + pool] = self.samples[from * self.pools + pool];
            }
        }
        self.points.truncate(kept);
        self.samples.truncate(kept * self.pools);
        self.interval += self.interval;
    }

    /// The points with the samples of their pools, in order of time.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Point, &[PoolSample])> {
        self.points.iter().enumerate().map(|(i, point)| {
            let row = i * self.pools..(i + 1) * self.pools;
            (point, &self.samples[row])
        })
    }

    /// The points alone.
    #[must_use]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The present interval.
    #[must_use]
    pub const fn interval(&self) -> SimDuration {
        self.interval
    }
}
