//! Programs of several GPUs.

use super::{SHORT_ROUNDS, Target, aligned, random};
use crate::calibrate::launch;
use crate::calibrate::program::{Buffer, Fill, Mode, Place, Program, Step};
use crate::calibrate::work::Collective;

/// Ranks the kernel's tables have room for.
const MAX_RANKS: usize = 8;
/// Buffers of a rank.
const OF_RANK: usize = 4;

/// Buffers of rank r start at `4 r`: data, scratch, flags, out. The tables of addresses follow, one per rank.
pub(super) fn all_reduce(c: &Collective, target: &Target) -> Program {
    let ranks = c.ranks as usize;
    let blocks = u64::from(launch::collective_blocks(c.bytes));
    let flags = aligned(4 * blocks * (MAX_RANKS as u64 + 1));
    let mut buffers = Vec::new();
    for rank in 0..ranks {
        for (bytes, fill) in [
            (c.bytes, random()),
            (c.bytes.div_ceil(u64::from(c.ranks)), Fill::Nothing),
            (flags, Fill::Zeros),
            (c.bytes, Fill::Nothing),
        ] {
            let mut buffer = Buffer::new(bytes.max(16), fill);
            buffer.place = Place::Gpu(rank);
            buffers.push(buffer);
        }
    }
    for rank in 0..ranks {
        // Seats of absent ranks repeat rank 0; the kernel does not look at them.
        let seats = |of: usize| (0..MAX_RANKS).map(move |r| OF_RANK * (r % ranks) + of);
        let addresses: Vec<usize> = (0..3).flat_map(seats).collect();
        let mut table = Buffer::new(8 * 3 * MAX_RANKS as u64, Fill::Addresses(addresses));
        table.place = Place::Gpu(rank);
        buffers.push(table);
    }
    let round = || {
        (0..ranks)
            .zip(0u32..)
            .map(|(rank, number)| {
                let peers = (OF_RANK * ranks + rank, 0);
                let out = (OF_RANK * rank + 3, 0);
                let step = launch::all_reduce(c.ranks, number, c.bytes, peers, out);
                (rank, Step::Kernel(step))
            })
            .collect()
    };
    let rounds = if target.single { 1 } else { SHORT_ROUNDS };
    Program {
        buffers,
        rounds: (0..rounds).map(|_| round()).collect(),
        mode: Mode::Graph,
        output: Some(3),
    }
}
