//! The event queue: when each lane fires next.

use crate::units::SimTime;

/// A tournament tree over a fixed set of lanes, each with at most one pending event.
///
/// Order: time, then lane number. That is the whole tie-break: lanes are numbered so that their order is the rank of their
/// events (step ends in order of instances, then transfer ends; arrivals are taken by the loop after both). Rescheduling a
/// lane replaces its event, so nothing stale is ever popped. `set` costs O(log lanes), `next` O(1).
#[derive(Debug)]
pub struct Calendar {
    /// `winner[1]` is the root, node `i` has children `2i` and `2i + 1`, leaves start at `leaves`; each node holds the
    /// earliest (time, lane) below it.
    winner: Vec<(SimTime, u32)>,
    leaves: usize,
}

impl Calendar {
    /// A calendar with nothing scheduled.
    #[must_use]
    pub fn new(lanes: usize) -> Self {
        let leaves = lanes.next_power_of_two().max(1);
        Self {
            winner: vec![(SimTime::NEVER, 0); 2 * leaves],
            leaves,
        }
    }

    /// Sets when `lane` fires next; [`SimTime::NEVER`] for not at all.
    ///
    /// # Panics
    /// When `lane` is not below the number of lanes.
    pub fn set(&mut self, lane: usize, at: SimTime) {
        let mut node = self.leaves + lane;
        let lane = u32::try_from(lane).expect("lanes are instances and links, far fewer than 2^32");
        self.winner[node] = (at, lane);
        while node > 1 {
            let best = self.winner[node].min(self.winner[node ^ 1]);
            node /= 2;
            if self.winner[node] == best {
                return;
            }
            self.winner[node] = best;
        }
    }

    /// The next event: when, and of which lane. [`SimTime::NEVER`] when there is none.
    #[must_use]
    pub fn next(&self) -> (SimTime, usize) {
        let (at, lane) = self.winner[1];
        (at, lane as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn next_is_the_earliest_lane(lanes in 1usize..20, sets in proptest::collection::vec((0usize..20, 0u64..50), 1..100)) {
            let mut calendar = Calendar::new(lanes);
            let mut slow = vec![SimTime::NEVER; lanes];
            for (lane, at) in sets {
                let (lane, at) = (lane % lanes, if at == 49 { SimTime::NEVER } else { SimTime::from_ps(at) });
                calendar.set(lane, at);
                slow[lane] = at;
                let earliest = (0..lanes).min_by_key(|&l| (slow[l], l)).unwrap();
                prop_assert_eq!(calendar.next().0, slow[earliest]);
                if slow[earliest] != SimTime::NEVER {
                    prop_assert_eq!(calendar.next().1, earliest);
                }
            }
        }
    }
}
