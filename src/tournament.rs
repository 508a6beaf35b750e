//! A tournament tree: the least of a fixed set of keys, each of which may change.

use std::hint::select_unpredictable;

/// Keys by position; `set` costs O(log n), `least` O(1).
///
/// Order: key, then position, so that equals go to the lowest position.
#[derive(Debug, Clone)]
pub struct Tournament<K> {
    /// Node 1 is the root, node `i` has children `2i` and `2i + 1`, leaves start at `leaves`; each node holds the least (key,
    /// position) below it. Siblings lie together: node `i` is `winners[i / 2][i % 2]`, and there
    /// is no node 0.
    winners: Vec<[(K, u32); 2]>,
    leaves: usize,
}

impl<K: Ord + Copy> Tournament<K> {
    /// `positions` keys, all equal to `key`, the greatest there will be.
    ///
    /// # Panics
    /// When there are 2³² positions or more.
    #[must_use]
    pub fn new(positions: usize, key: K) -> Self {
        let leaves = positions.next_power_of_two().max(1);
        let mut winners = vec![[(key, u32::MAX); 2]; leaves];
        for position in 0..positions {
            let number = u32::try_from(position).expect("fewer than 2^32 positions");
            let node = leaves + position;
            winners[node / 2][node % 2].1 = number;
        }
        for node in (1..leaves).rev() {
            winners[node / 2][node % 2] = lesser(winners[node][0], winners[node][1], 0);
        }
        Self { winners, leaves }
    }

    /// Changes the key at `position`.
    ///
    /// # Panics
    /// When there is no such position.
    pub fn set(&mut self, position: usize, key: K) {
        let mut node = self.leaves + position;
        let (old, number) = self.winners[node / 2][node % 2];
        debug_assert_ne!(number, u32::MAX, "there is no position {position}");
        if old == key {
            return;
        }
        let mut least = (key, number);
        // All the way up without a branch on keys: which of two wins nobody can predict, and a wrong guess costs more than the climb.
        while node > 1 {
            let pair = &mut self.winners[node / 2];
            let side = node % 2;
            pair[side] = least;
            least = lesser(least, pair[1 - side], side);
            node /= 2;
        }
        self.winners[0][1] = least;
    }

    /// The least key and its position.
    #[must_use]
    pub fn least(&self) -> (K, usize) {
        let (key, position) = self.winners[0][1];
        (key, position as usize)
    }
}

/// The lesser of two siblings, of which `one` is on the left (`side` 0) or on the right (1). Positions on the left are lower, so
/// equals go there.
fn lesser<K: Ord + Copy>(one: (K, u32), other: (K, u32), side: usize) -> (K, u32) {
    let other_wins = (other.0 < one.0) | ((side == 1) & (other.0 == one.0));
    (
        select_unpredictable(other_wins, other.0, one.0),
        select_unpredictable(other_wins, other.1, one.1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn the_least_is_what_a_scan_finds(n in 1usize..20, sets in proptest::collection::vec((0usize..20, 0u64..6), 1..100)) {
            let mut tree = Tournament::new(n, u64::MAX);
            let mut slow = vec![u64::MAX; n];
            prop_assert_eq!(tree.least(), (u64::MAX, 0));
            for (position, key) in sets {
                let (position, key) = (position % n, if key == 5 { u64::MAX } else { key });
                tree.set(position, key);
                slow[position] = key;
                let least = (0..n).min_by_key(|&i| (slow[i], i)).unwrap();
                prop_assert_eq!(tree.least(), (slow[least], least));
            }
        }
    }
}
