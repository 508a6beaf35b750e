//! When both streams of a GPU had a step in progress.

use crate::units::SimTime;

/// Most steps kept. They pile up only while the other stream is idle: its next step cannot have begun before its last one
/// ended, which only a step longer than so many of this stream would.
const MOST: usize = 4096;

/// Steps of the two streams of an instance, told in order of their ends.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    /// Steps of `stream` since the last one of the other.
    steps: Vec<(SimTime, SimTime)>,
    stream: usize,
}

impl Overlap {
    /// Takes note of steps from `start` to `end` on `stream`; tells `both` of each span of them in which a step of the other
    /// stream that ended before was in progress.
    pub(super) fn add(
        &mut self,
        stream: usize,
        start: SimTime,
        end: SimTime,
        mut both: impl FnMut(SimTime, SimTime),
    ) {
        if stream != self.stream {
            // What this stream does later begins after all of these have ended.
            for (from, to) in self.steps.drain(..) {
                let (from, to) = (from.max(start), to.min(end));
                if from < to {
                    both(from, to);
                }
            }
            self.stream = stream;
        }
        match self.steps.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => self.steps.push((start, end)),
        }
        if self.steps.len() > MOST {
            self.steps.drain(..MOST / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ps: u64) -> SimTime {
        SimTime::from_ps(ps)
    }

    #[test]
    fn every_shared_instant_is_told_once() {
        // Prompts 0..10, 10..14 and 30..50; decodes 5..12, 12..20, 20..32, 45..60: both in 5..14, 30..32 and 45..50.
        let steps = [
            (0, 0, 10),
            (1, 5, 12),
            (0, 10, 14),
            (1, 12, 20),
            (1, 20, 32),
            (0, 30, 50),
            (1, 45, 60),
        ];
        let mut overlap = Overlap::default();
        let mut shared = Vec::new();
        for (stream, start, end) in steps {
            overlap.add(stream, at(start), at(end), |from, to| {
                shared.extend(from.as_ps()..to.as_ps());
            });
        }
        shared.sort_unstable();
        let expected: Vec<u64> = (5..14).chain(30..32).chain(45..50).collect();
        assert_eq!(shared, expected);
    }

    #[test]
    fn an_idle_stream_does_not_let_steps_pile_up() {
        let mut overlap = Overlap::default();
        for i in 0..20_000 {
            overlap.add(0, at(10 * i), at(10 * i + 5), |_, _| panic!("alone"));
        }
        assert!(overlap.steps.len() <= MOST);
        let mut shared = 0;
        overlap.add(1, at(199_991), at(199_999), |from, to| {
            shared += (to - from).as_ps();
        });
        assert_eq!(shared, 4);
    }
}
