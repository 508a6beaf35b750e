//! The CPU tier behind a prefix cache: prompt blocks that GPU memory had no room for, kept in host memory.
//!
//! A block enters when the GPU drops it and stays, most recently used last, until the tier is full. A block that is loaded back stays
//! here as well, so that dropping it again costs nothing.

use super::lru::Lru;

/// Prompt blocks of one instance in host memory, least recently used first out.
#[derive(Debug, Clone)]
pub struct CpuCache {
    cached: Lru,
    capacity: u64,
}

impl CpuCache {
    /// An empty tier for `capacity` prompt blocks.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self {
            cached: Lru::new(),
            capacity,
        }
    }

    /// How many leading `ids` are here.
    #[must_use]
    pub fn hits(&self, ids: &[u32]) -> usize {
        ids.iter()
            .take_while(|&&id| self.cached.contains(id))
            .count()
    }

    /// Takes a block in, or notes that it was used.
    pub fn put(&mut self, id: u32) {
        if self.capacity == 0 {
            return;
        }
        if self.cached.contains(id) {
            self.cached.remove(id);
        } else if self.cached.len() == self.capacity {
            self.cached.pop();
        }
        self.cached.push(id);
    }

    /// Notes that `ids`, all here, were used: the end of a prompt before its start, which is of use without it.
    pub fn touch(&mut self, ids: &[u32]) {
        for &id in ids.iter().rev() {
            self.put(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn it_keeps_what_a_list_in_order_of_use_keeps(
            capacity in 0usize..6,
            puts in proptest::collection::vec(0u32..10, 1..80),
        ) {
            let mut cache = CpuCache::new(capacity as u64);
            let mut list: Vec<u32> = Vec::new();
            for id in puts {
                cache.put(id);
                list.retain(|&other| other != id);
                list.push(id);
                let over = list.len().saturating_sub(capacity);
                list.drain(..over);
                for id in 0..10 {
                    prop_assert_eq!(cache.hits(&[id]) == 1, list.contains(&id));
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_prompt_leaves_before_its_start() {
        let mut cache = CpuCache::new(3);
        (1..4).for_each(|id| cache.put(id));
        cache.touch(&[1, 2]);
        cache.put(4);
        cache.put(5);
        assert_eq!(cache.hits(&[1]), 1);
        assert_eq!(cache.hits(&[2]), 0);
        assert_eq!(cache.hits(&[4, 5, 3]), 2);
    }
}
