//! How much of the prompts an infinite prefix cache would save, and how many sessions there are.

use std::collections::HashSet;

/// Distinct blocks (or sessions) remembered, 10 million: about 200 MB at worst, and only for traces that have so many.
const REMEMBERED: usize = 10_000_000;

/// The bound on prefix sharing: every prompt finds the blocks of all earlier ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sharing {
    /// Share of prompt tokens found, 0 to 1.
    pub tokens: f64,
    /// Share of requests that find at least one block.
    pub requests: f64,
    /// Distinct blocks.
    pub blocks: u64,
    /// Whether the memory ran out, so that later blocks were not remembered and the true bound is higher.
    pub stopped: bool,
}

/// An infinite cache of blocks.
#[derive(Debug, Default)]
pub(super) struct Cache {
    known: HashSet<u64>,
    found: u64,
    tokens: u64,
    hits: u64,
    requests: u64,
    stopped: bool,
}

impl Cache {
    /// Looks up a prompt's blocks, then remembers them. A block's id stands for its whole prefix, so what counts is the
    /// leading run of known ids; at least one token is always left to compute.
    pub(super) fn add(&mut self, input: u32, blocks: &[u64], block_tokens: u32) {
        self.tokens += u64::from(input);
        self.requests += 1;
        if blocks.is_empty() {
            return;
        }
        let run = blocks
            .iter()
            .take_while(|id| self.known.contains(id))
            .count();
        let found = (run as u64 * u64::from(block_tokens)).min(u64::from(input.saturating_sub(1)));
        self.found += found;
        self.hits += u64::from(run > 0);
        for id in &blocks[run..] {
            if self.known.len() >= REMEMBERED {
                self.stopped = true;
                break;
            }
            self.known.insert(*id);
        }
    }

    /// The bound; none for a trace without blocks.
    pub(super) fn finish(&self) -> Option<Sharing> {
        (!self.known.is_empty()).then(|| Sharing {
            tokens: self.found as f64 / self.tokens.max(1) as f64,
            requests: self.hits as f64 / self.requests.max(1) as f64,
            blocks: self.known.len() as u64,
            stopped: self.stopped,
        })
    }
}

/// Distinct sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions(HashSet<u64>);

impl Sessions {
    /// Counts a row's session; 0 is none.
    pub(super) fn add(&mut self, session: u64) {
        if session != 0 && self.0.len() < REMEMBERED {
            self.0.insert(session);
        }
    }

    /// How many there are; none for a trace without.
    pub(super) fn count(&self) -> Option<u64> {
        (!self.0.is_empty()).then_some(self.0.len() as u64)
    }
}
