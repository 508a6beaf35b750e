//! A tournament tree: the least of a fixed set of keys, each of which may change.

/// Keys by position; `set` costs O(log n), `least` O(1).
///
/// Order: key, then position, so that equals go to the lowest position.
#[derive(Debug, Clone)]
pub struct Tournament<K> {
    /// `winner[1]` is the root, node `i` has children `2i` and `2i + 1`, leaves start at `leaves`; each node holds the
    /// least (key, position) below it.
    winner: Vec<(K, u32)>,
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
        let mut winner = vec![(key, u32::MAX); 2 * leaves];
        for position in 0..positions {
            let number = u32::try_from(position).expect("fewer than 2^32 positions");
            winner[leaves + position].1 = number;
        }
        for node in (1..leaves).rev() {
            winner[node] = winner[2 * node].min(winner[2 * node + 1]);
        }
        Self { winner, leaves }
    }

    /// Changes the key at `position`.
    ///
    /// # Panics
    /// When there is no such position.
    pub fn set(&mut self, position: usize, key: K) {
        let mut node = self.leaves + position;
        self.winner[node].0 = key;
        while node > 1 {
            let best = self.winner[node].min(self.winner[node ^ 1]);
            node /= 2;
            if self.winner[node] == best {
                return;
            }
            self.winner[node] = best;
        }
    }

    /// The least key and its position.
    #[must_use]
    pub fn least(&self) -> (K, usize) {
        let (key, position) = self.winner[1];
        (key, position as usize)
    }
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
