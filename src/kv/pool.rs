//! The KV blocks of one instance.

use super::blocks_for;

/// Counts the KV blocks of an instance; `None` capacity is unlimited.
#[derive(Debug, Clone)]
pub struct BlockPool {
    block_tokens: u32,
    capacity: Option<u64>,
    used: u64,
}

impl BlockPool {
    /// Makes an empty pool.
    #[must_use]
    pub const fn new(block_tokens: u32, capacity: Option<u64>) -> Self {
        Self {
            block_tokens,
            capacity,
            used: 0,
        }
    }

    /// Blocks that `tokens` KV entries occupy.
    #[must_use]
    pub const fn blocks_for(&self, tokens: u64) -> u64 {
        blocks_for(tokens, self.block_tokens)
    }

    /// Tokens per block.
    #[must_use]
    pub const fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    /// Blocks in all; `None` when unlimited.
    #[must_use]
    pub const fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Whether memory is finite, so that decode steps can run dry.
    #[must_use]
    pub const fn is_limited(&self) -> bool {
        self.capacity.is_some()
    }

    /// Blocks in use.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Blocks not in use; `u64::MAX` when unlimited.
    #[must_use]
    pub const fn free(&self) -> u64 {
        match self.capacity {
            Some(capacity) => capacity - self.used,
            None => u64::MAX,
        }
    }

    /// Takes blocks.
    ///
    /// # Panics
    /// When fewer are free: callers look first, so that would be a defect (law L4).
    pub fn take(&mut self, blocks: u64) {
        assert!(
            blocks <= self.free(),
            "took {blocks} KV blocks with {} free",
            self.free()
        );
        self.used += blocks;
    }

    /// Gives blocks back.
    ///
    /// # Panics
    /// When more are given than are in use: a defect (law L4).
    pub fn give(&mut self, blocks: u64) {
        assert!(
            blocks <= self.used,
            "gave {blocks} KV blocks with {} in use",
            self.used
        );
        self.used -= blocks;
    }
}
