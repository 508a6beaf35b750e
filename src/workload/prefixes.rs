//! The shared starts of prompts, as a trace describes them.

use std::collections::HashMap;

/// Ids of the whole prompt blocks of each request, in order of arrival.
///
/// Ids are dense (0, 1, 2, …) and chained: an id implies all before it in its prompt, so equal ids mean equal starts. A last block
/// that is only partly filled has no id here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefixes {
    block_tokens: u32,
    /// Where each request's ids start in `ids`; one more entry than requests.
    starts: Vec<usize>,
    ids: Vec<u32>,
}

impl Prefixes {
    /// An empty table for blocks of `block_tokens` prompt tokens.
    #[must_use]
    pub fn new(block_tokens: u32) -> Self {
        Self {
            block_tokens,
            starts: vec![0],
            ids: Vec::new(),
        }
    }

    /// Adds the next request's ids.
    pub fn push(&mut self, ids: impl IntoIterator<Item = u32>) {
        self.ids.extend(ids);
        self.starts.push(self.ids.len());
    }

    /// Tokens per prompt block.
    #[must_use]
    pub const fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// The ids of the `request`-th request in order of arrival; none beyond the last.
    #[must_use]
    pub fn ids(&self, request: usize) -> &[u32] {
        match self.starts.get(request..request + 2) {
            Some(bounds) => &self.ids[bounds[0]..bounds[1]],
            None => &[],
        }
    }
}

/// Builds [`Prefixes`] from the ids of a trace, which may be any numbers.
///
/// An id counts only together with what precedes it, so the result is chained even where a trace's ids are not.
#[derive(Debug)]
pub(crate) struct PrefixBuilder {
    prefixes: Prefixes,
    /// By predecessor (`u32::MAX` for none) and the trace's id.
    dense: HashMap<(u32, u64), u32>,
}

impl PrefixBuilder {
    /// A builder without requests.
    pub(crate) fn new() -> Self {
        Self {
            prefixes: Prefixes::new(0),
            dense: HashMap::new(),
        }
    }

    /// Adds the next request: its prompt tokens and the ids of its blocks.
    pub(crate) fn push(&mut self, input_tokens: u32, blocks: &[u64], block_tokens: u32) {
        if block_tokens > 0 && self.prefixes.block_tokens == 0 {
            self.prefixes.block_tokens = block_tokens;
        }
        let whole = input_tokens.checked_div(block_tokens).unwrap_or(0) as usize;
        let mut before = u32::MAX;
        for &id in &blocks[..whole.min(blocks.len())] {
            // Beyond 2^32 distinct blocks the map would not have fitted into memory.
            let next = u32::try_from(self.dense.len()).unwrap_or(u32::MAX);
            before = *self.dense.entry((before, id)).or_insert(next);
            self.prefixes.ids.push(before);
        }
        self.prefixes.starts.push(self.prefixes.ids.len());
    }

    /// The prefixes; none for a trace without block ids.
    pub(crate) fn finish(self) -> Option<Prefixes> {
        (!self.prefixes.ids.is_empty()).then_some(self.prefixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dense_and_a_partly_filled_block_has_none() {
        let mut builder = PrefixBuilder::new();
        builder.push(1030, &[77, 5_000_000_000, 9], 512);
        builder.push(100, &[77], 512);
        builder.push(1024, &[77, 8], 512);
        builder.push(1024, &[8, 8], 512);
        let prefixes = builder.finish().unwrap();
        assert_eq!(prefixes.ids(0), [0, 1]);
        assert_eq!(prefixes.ids(1), [0_u32; 0]);
        assert_eq!(prefixes.ids(2), [0, 2]);
        assert_eq!(
            prefixes.ids(3),
            [3, 4],
            "the same id after another start is another block"
        );
        assert_eq!(prefixes.ids(4), [0_u32; 0]);
        assert_eq!(prefixes.block_tokens(), 512);
    }
}
