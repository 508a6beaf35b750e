//! KV memory: the paged block pool of an instance and the counting of blocks over runs of decode steps.
//!
//! A sequence whose KV cache holds `c` tokens owns `⌈c / block⌉` blocks. A decode step stores one more token per sequence,
//! so it takes a new block for exactly those sequences whose context is a multiple of the block size. Contexts of
//! a batch move in lockstep, so counting sequences by residue class tells the blocks of any number of steps without stepping.

mod cpu_cache;
mod lru;
mod pool;
mod prefix_cache;
mod residues;

pub use cpu_cache::CpuCache;
pub use pool::BlockPool;
pub use prefix_cache::PrefixCache;
pub use residues::Residues;

/// Blocks that `tokens` KV entries occupy.
#[must_use]
pub const fn blocks_for(tokens: u64, block_tokens: u32) -> u64 {
    let (whole, over) = in_blocks(tokens, block_tokens as u64);
    whole + (over > 0) as u64
}

/// Whole blocks in `count`, and what is over. Block sizes are nearly always powers of two, and a shift costs a tenth of a division.
const fn in_blocks(count: u64, block: u64) -> (u64, u64) {
    if block.is_power_of_two() {
        (count >> block.trailing_zeros(), count & (block - 1))
    } else {
        (count / block, count % block)
    }
}

#[cfg(test)]
mod tests {
    use super::blocks_for;

    #[test]
    fn blocks_are_whole_ones_rounded_up() {
        for block in [1, 2, 3, 16, 100, 1 << 31, u32::MAX] {
            let size = u64::from(block);
            for tokens in [0, 1, size - 1, size, size + 1, u64::MAX - 1, u64::MAX] {
                assert_eq!(
                    blocks_for(tokens, block),
                    tokens.div_ceil(size),
                    "{tokens} in {block}"
                );
            }
        }
    }
}
