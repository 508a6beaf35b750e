//! The most KV blocks an instance had in use within the measured window.

use crate::units::SimTime;

/// KV blocks of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Level {
    used: u64,
    /// Most in the window so far.
    pub(super) peak: u64,
}

impl Level {
    /// `used` blocks from `now` on. What was in use until now counts, too, if the window had begun before: blocks that were taken
    /// in the warm-up are in use in the window as well. A decode run tells what it took when it ends, and never less
    /// than it had at the start of the window, so when it tells makes no difference.
    pub(super) fn change(&mut self, now: SimTime, used: u64, window: SimTime) {
        self.finish(now, window);
        self.used = used;
        if now >= window {
            self.peak = self.peak.max(used);
        }
    }

    /// The run ended at `now`.
    pub(super) fn finish(&mut self, now: SimTime, window: SimTime) {
        if now > window {
            self.peak = self.peak.max(self.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peak after changes to a level at an instant, for a window from 10 on and a run that ends at 20.
    fn peak(changes: &[(u64, u64)]) -> u64 {
        let mut level = Level::default();
        let window = SimTime::from_ps(10);
        for &(at, used) in changes {
            level.change(SimTime::from_ps(at), used, window);
        }
        level.finish(SimTime::from_ps(20), window);
        level.peak
    }

    #[test]
    fn only_blocks_in_use_within_the_window_count() {
        assert_eq!(peak(&[(1, 9), (5, 2), (12, 4), (15, 3)]), 4);
        // Taken in the warm-up and kept until after its end.
        assert_eq!(peak(&[(1, 9), (12, 4)]), 9);
        assert_eq!(peak(&[(1, 9), (10, 4)]), 4);
        assert_eq!(peak(&[(1, 9)]), 9);
        // Taken and given back at one instant.
        assert_eq!(peak(&[(12, 7), (12, 0)]), 7);
        assert_eq!(peak(&[]), 0);
    }
}
