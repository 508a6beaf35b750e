//! Numbers in order of use: a list through a table, so that every operation takes a few loads and stores.

/// Stands for no number.
const NONE: u32 = u32::MAX;
/// Where the next older one would stand: not in the list.
const OUT: u32 = u32::MAX - 1;

/// The next older and the next newer number.
#[derive(Debug, Clone, Copy)]
struct Entry {
    older: u32,
    newer: u32,
}

impl Entry {
    const ABSENT: Self = Self {
        older: OUT,
        newer: NONE,
    };
}

/// Dense numbers, each at most once, least recently used first.
#[derive(Debug, Clone)]
pub(super) struct Lru {
    entries: Vec<Entry>,
    oldest: u32,
    newest: u32,
    len: u64,
}

impl Lru {
    /// An empty list.
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            oldest: NONE,
            newest: NONE,
            len: 0,
        }
    }

    /// How many are in it.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Whether `id` is in it.
    pub(super) fn contains(&self, id: u32) -> bool {
        let entry = self.entries.get(id as usize);
        entry.is_some_and(|entry| entry.older != OUT)
    }

    /// Appends `id`, which is not in it, as the most recently used.
    pub(super) fn push(&mut self, id: u32) {
        let at = id as usize;
        if at >= self.entries.len() {
            self.entries.resize(at + 1, Entry::ABSENT);
        }
        let older = std::mem::replace(&mut self.newest, id);
        match older {
            NONE => self.oldest = id,
            older => self.entries[older as usize].newer = id,
        }
        self.entries[at] = Entry { older, newer: NONE };
        self.len += 1;
    }

    /// Takes out `id`, which is in it.
    pub(super) fn remove(&mut self, id: u32) {
        let removed = std::mem::replace(&mut self.entries[id as usize], Entry::ABSENT);
        let Entry { older, newer } = removed;
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        self.len -= 1;
    }

    /// Takes out the least recently used one.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        if oldest == NONE {
            return None;
        }
        self.remove(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn it_is_a_list_in_order_of_use(uses in proptest::collection::vec((0u32..9, 0u8..4), 1..60)) {
            let (mut lru, mut list) = (Lru::new(), Vec::new());
            for (id, what) in uses {
                if what == 0 {
                    let first = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(lru.pop(), first);
                } else if lru.contains(id) {
                    lru.remove(id);
                    list.retain(|&other| other != id);
                } else {
                    lru.push(id);
                    list.push(id);
                }
                prop_assert_eq!(lru.len(), list.len() as u64);
                for id in 0..9 {
                    prop_assert_eq!(lru.contains(id), list.contains(&id));
                }
            }
        }
    }
}
