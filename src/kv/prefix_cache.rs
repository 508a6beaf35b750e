//! The prefix cache of one instance: KV blocks of prompts, kept after use until memory is needed.
//!
//! Prompts are described by chained ids of fixed-size prompt blocks (an id implies its predecessors), so a hit is a leading run of
//! known ids. A cached block is *held* while a live sequence uses it and *idle* otherwise; idle blocks count as free memory and leave
//! in least-recently-used order, the end of a prompt before its start. Ids are dense, so tables are vectors and nothing is hashed.
//!
//! Not modelled: partly filled blocks (only whole ones are cached) and duplicates (two sequences that computed the same
//! block at the same time share it from then on; vLLM keeps both).

use super::CpuCache;
use super::lru::Lru;

/// Holders of a block that is not cached.
const ABSENT: u32 = u32::MAX;

/// Cached prompt blocks of one instance.
#[derive(Debug, Clone)]
pub struct PrefixCache {
    /// Sequences that hold each block; [`ABSENT`] when it is not cached.
    holders: Vec<u32>,
    /// Those that nobody holds.
    idle: Lru,
    cached: u64,
    /// Where dropped blocks go.
    cpu: Option<CpuCache>,
}

impl Default for PrefixCache {
    fn default() -> Self {
        Self {
            holders: Vec::new(),
            idle: Lru::new(),
            cached: 0,
            cpu: None,
        }
    }
}

impl PrefixCache {
    /// The same, with a CPU tier that takes what is dropped.
    #[must_use]
    pub fn with_cpu(self, cpu: CpuCache) -> Self {
        Self {
            cpu: Some(cpu),
            ..self
        }
    }

    /// How many leading `ids`, which follow those that [`PrefixCache::hits`] found, are in the CPU tier.
    #[must_use]
    pub fn cpu_hits(&self, ids: &[u32]) -> usize {
        self.cpu.as_ref().map_or(0, |cpu| cpu.hits(ids))
    }

    /// Notes that `ids`, all in the CPU tier, are loaded.
    pub fn load(&mut self, ids: &[u32]) {
        if let Some(cpu) = &mut self.cpu {
            cpu.touch(ids);
        }
    }

    /// How many leading `ids` are cached.
    #[must_use]
    pub fn hits(&self, ids: &[u32]) -> usize {
        ids.iter().take_while(|&&id| self.is_cached(id)).count()
    }

    /// How many of `ids`, all cached, no sequence holds.
    #[must_use]
    pub fn idle_among(&self, ids: &[u32]) -> u64 {
        ids.iter()
            .filter(|&&id| self.holders[id as usize] == 0)
            .count() as u64
    }

    /// Holds `ids`, all cached, for one more sequence; says how many were idle.
    pub fn hold(&mut self, ids: &[u32]) -> u64 {
        let mut were_idle = 0;
        for &id in ids {
            if self.holders[id as usize] == 0 {
                self.idle.remove(id);
                were_idle += 1;
            }
            self.holders[id as usize] += 1;
        }
        were_idle
    }

    /// Caches freshly computed `ids`, held by the sequence that computed them; says how many other sequences hold already.
    pub fn insert(&mut self, ids: &[u32]) -> u64 {
        let mut held = 0;
        for &id in ids {
            let at = id as usize;
            if at >= self.holders.len() {
                self.holders.resize(at + 1, ABSENT);
            }
            match self.holders[at] {
                ABSENT => {
                    self.holders[at] = 1;
                    self.cached += 1;
                }
                0 => {
                    self.idle.remove(id);
                    self.holders[at] = 1;
                }
                _ => {
                    self.holders[at] += 1;
                    held += 1;
                }
            }
        }
        held
    }

    /// Lets go of `ids` for one sequence; says how many are idle now.
    pub fn release(&mut self, ids: &[u32]) -> u64 {
        let mut idle = 0;
        // The end of the prompt first, so that it is older and leaves first: a start is of use without its end.
        for &id in ids.iter().rev() {
            let holders = &mut self.holders[id as usize];
            *holders -= 1;
            if *holders == 0 {
                self.idle.push(id);
                idle += 1;
            }
        }
        idle
    }

    /// Drops idle blocks, least recently used first, until at most `most` are left. The CPU tier, if there is one, takes them.
    #[inline(never)]
    pub fn trim(&mut self, most: u64) {
        while self.idle.len() > most {
            let Some(id) = self.idle.pop() else { return };
            self.holders[id as usize] = ABSENT;
            self.cached -= 1;
            if let Some(cpu) = &mut self.cpu {
                cpu.put(id);
            }
        }
    }

    /// Cached blocks, held or idle.
    #[must_use]
    pub const fn cached(&self) -> u64 {
        self.cached
    }

    /// Cached blocks that no sequence holds.
    #[must_use]
    pub const fn idle(&self) -> u64 {
        self.idle.len()
    }

    fn is_cached(&self, id: u32) -> bool {
        let holders = self.holders.get(id as usize);
        holders.is_some_and(|&holders| holders != ABSENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    /// The same cache as a list in order of use.
    #[derive(Default)]
    struct Slow {
        idle: Vec<u32>,
        held: Vec<u32>,
    }

    impl Slow {
        fn hits(&self, ids: &[u32]) -> usize {
            ids.iter()
                .take_while(|id| self.idle.contains(id) || self.held.contains(id))
                .count()
        }

        fn hold(&mut self, ids: &[u32]) {
            self.idle.retain(|id| !ids.contains(id));
            self.held.extend(ids);
        }

        fn release(&mut self, ids: &[u32]) {
            for id in ids.iter().rev() {
                let at = self.held.iter().position(|held| held == id).unwrap();
                self.held.swap_remove(at);
                if !self.held.contains(id) {
                    self.idle.push(*id);
                }
            }
        }

        fn trim(&mut self, most: usize) {
            let gone = self.idle.len().saturating_sub(most);
            self.idle.drain(..gone);
        }
    }

    /// Prompt `i`: a chain through a tree, so that prompts share starts.
    fn chain(prompt: u32, length: u32) -> Vec<u32> {
        (0..length)
            .map(|depth| depth * 8 + (prompt % 8) / (8 >> depth.min(3)))
            .collect()
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_list_in_order_of_use_keeps(
            steps in proptest::collection::vec((0u32..8, 1u32..7, 0u64..12, 0usize..4), 1..80),
        ) {
            let (mut cache, mut slow) = (PrefixCache::default(), Slow::default());
            let mut live: Vec<Vec<u32>> = Vec::new();
            for (prompt, length, most, end) in steps {
                let ids = chain(prompt, length);
                let hits = cache.hits(&ids);
                prop_assert_eq!(hits, slow.hits(&ids));
                cache.hold(&ids[..hits]);
                cache.insert(&ids[hits..]);
                slow.hold(&ids);
                live.push(ids);
                if end < live.len() {
                    let ids = live.swap_remove(end);
                    cache.release(&ids);
                    slow.release(&ids);
                }
                cache.trim(most);
                slow.trim(usize::try_from(most).unwrap());
                prop_assert_eq!(cache.idle(), slow.idle.len() as u64);
                let held: std::collections::BTreeSet<_> = slow.held.iter().collect();
                prop_assert_eq!(cache.cached(), (slow.idle.len() + held.len()) as u64);
            }
        }
    }
}
