//! Launch geometry: grid, threads, shared memory and arguments of every kernel.

use super::kernels::{Tile, Variant};
use super::work::{Decode, PAGE, Prefill};
use crate::model::KvDtype;

/// A kernel argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// Address of a buffer plus bytes.
    Address(usize, u64),
    /// A 32-bit number.
    U32(u32),
    /// A 64-bit number.
    U64(u64),
    /// A float.
    F32(f32),
}

/// One launch of one kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Where the kernel is compiled.
    pub variant: Variant,
    /// Its name.
    pub function: &'static str,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
}

/// A buffer and where in it an operand starts, in bytes.
pub type At = (usize, u64);

fn address((buffer, offset): At) -> Argument {
    Argument::Address(buffer, offset)
}

/// Threads of the elementwise and memory kernels.
const THREADS: u32 = 256;
/// Threads of the all-reduce kernels.
const COLLECTIVE_THREADS: u32 = 512;
/// Warps of the attention kernels.
const WARPS: u32 = 4;
/// Query rows of a block of prefill attention.
const QUERIES: u32 = 128;
/// Keys of a tile of prefill attention.
const KEYS: u32 = 64;

/// The factor on scores: 1/√d, times log₂ e since the kernels raise 2.
#[must_use]
pub fn scale_log2(head_dim: u32) -> f32 {
    std::f32::consts::LOG2_E / (head_dim as f32).sqrt()
}

/// Blocks the context of each sequence is split over: enough to occupy every multiprocessor, never so many that a
/// split has less than 64 tokens.
#[must_use]
pub fn splits(decode: &Decode, multiprocessors: u32) -> u32 {
    // Three blocks share a multiprocessor; two waves even out their ends.
    let wanted = (6 * multiprocessors).div_ceil(decode.batch * decode.kv_heads);
    wanted.clamp(1, (decode.pages() / 4).max(1))
}

/// Operands of decode attention.
#[derive(Debug, Clone, Copy)]
pub struct DecodeOperands {
    /// Queries `[batch][heads][head_dim]`, bf16.
    pub q: At,
    /// Key cache.
    pub k: At,
    /// Value cache.
    pub v: At,
    /// Block table `[batch][pages]`.
    pub table: At,
    /// Contexts `[batch]`.
    pub contexts: At,
    /// Output like the queries.
    pub out: At,
    /// Outputs of the splits, floats.
    pub partial: At,
    /// Their logarithms of sums.
    pub partial_lse: At,
}

/// Decode attention, and the join of its splits where there are several.
#[must_use]
pub fn decode(d: &Decode, splits: u32, at: &DecodeOperands) -> Vec<Launch> {
    let variant = Variant::Decode {
        head_dim: d.head_dim,
        kv: d.kv_dtype,
    };
    let element = if d.kv_dtype == KvDtype::Bf16 { 2 } else { 1 };
    let stages = WARPS * 2 * 2 * PAGE * d.head_dim * element;
    let meeting = (2 * WARPS * 16 + WARPS * 16 * d.head_dim) * 4;
    let mut launches = vec![Launch {
        variant,
        function: "decode_attention",
        grid: [splits, d.kv_heads, d.batch],
        threads: WARPS * 32,
        shared: stages.max(meeting),
        arguments: vec![
            address(at.q),
            address(at.k),
            address(at.v),
            address(at.table),
            address(at.contexts),
            address(at.out),
            address(at.partial),
            address(at.partial_lse),
            Argument::U32(d.heads),
            Argument::U32(d.kv_heads),
            Argument::U32(d.pages()),
            Argument::U32(splits),
            Argument::F32(scale_log2(d.head_dim)),
        ],
    }];
    if splits > 1 {
        launches.push(Launch {
            variant,
            function: "decode_attention_join",
            grid: [d.heads, d.batch, 1],
            threads: d.head_dim,
            shared: 0,
            arguments: vec![
                address(at.partial),
                address(at.partial_lse),
                address(at.out),
                Argument::U32(d.heads),
                Argument::U32(splits),
            ],
        });
    }
    launches
}

/// Prefill attention of operands q, k, v, table, out.
#[must_use]
pub fn prefill(p: &Prefill, at: [At; 5]) -> Launch {
    let [q, k, v, table, out] = at;
    Launch {
        variant: Variant::Prefill {
            head_dim: p.head_dim,
        },
        function: "prefill_attention",
        grid: [p.new_tokens.div_ceil(QUERIES), p.heads, p.batch],
        threads: WARPS * 32,
        shared: (QUERIES + 2 * KEYS) * p.head_dim * 2,
        arguments: vec![
            address(q),
            address(k),
            address(v),
            address(table),
            address(out),
            Argument::U32(p.new_tokens),
            Argument::U32(p.past_tokens),
            Argument::U32(p.heads),
            Argument::U32(p.kv_heads),
            Argument::U32((p.new_tokens + p.past_tokens).div_ceil(PAGE)),
            Argument::F32(scale_log2(p.head_dim)),
        ],
    }
}

/// The tile that suits `m` rows.
#[must_use]
pub const fn tile(m: u32) -> Tile {
    if m <= 32 { Tile::Small } else { Tile::Large }
}

/// Our own matrix product of operands a, w, c.
#[must_use]
pub fn matmul(tile: Tile, [m, n, k]: [u32; 3], [a, w, c]: [At; 3]) -> Launch {
    let (rows, columns) = tile.size();
    let (warp_rows, warp_columns, stages) = tile.layout();
    Launch {
        variant: Variant::Matmul(tile),
        function: "matmul",
        grid: [n.div_ceil(columns), m.div_ceil(rows), 1],
        threads: warp_rows * warp_columns * 32,
        shared: stages * (rows + columns) * 64 * 2,
        arguments: vec![
            address(a),
            address(w),
            address(c),
            Argument::U32(m),
            Argument::U32(n),
            Argument::U32(k),
        ],
    }
}

fn elementwise(function: &'static str, rows: u32, shared: u32, arguments: Vec<Argument>) -> Launch {
    Launch {
        variant: Variant::Elementwise,
        function,
        grid: [rows, 1, 1],
        threads: THREADS,
        shared,
        arguments,
    }
}

/// Residual addition and RMS norm of operands x, residual, weight, out.
#[must_use]
pub fn rms_norm(rows: u32, columns: u32, at: [At; 4]) -> Launch {
    let mut arguments: Vec<Argument> = at.into_iter().map(address).collect();
    arguments.extend([Argument::U32(columns), Argument::F32(1e-5)]);
    elementwise("rms_norm", rows, THREADS / 32 * 4, arguments)
}

/// Gated activation of operands x, out.
#[must_use]
pub fn silu_mul(rows: u32, columns: u32, at: [At; 2]) -> Launch {
    let mut arguments: Vec<Argument> = at.into_iter().map(address).collect();
    arguments.push(Argument::U32(columns));
    elementwise("silu_mul", rows, 0, arguments)
}

/// Rotary positions of operands x, angles, positions; `half` is half a head.
#[must_use]
pub fn rotary(rows: u32, heads: u32, half: u32, at: [At; 3]) -> Launch {
    let mut arguments: Vec<Argument> = at.into_iter().map(address).collect();
    arguments.extend([Argument::U32(heads), Argument::U32(half)]);
    elementwise("rotary", rows, 0, arguments)
}

fn memory(function: &'static str, blocks: u32, arguments: Vec<Argument>) -> Launch {
    Launch {
        variant: Variant::Memory,
        function,
        grid: [blocks, 1, 1],
        threads: THREADS,
        shared: 0,
        arguments,
    }
}

/// Words that [`stream_read`] writes with so many blocks.
#[must_use]
pub fn stream_words(blocks: u32) -> u64 {
    u64::from(blocks) * u64::from(THREADS)
}

/// Reads `bytes` (a multiple of 16) of `data`; `out` takes a word per thread.
#[must_use]
pub fn stream_read(blocks: u32, data: At, out: At, bytes: u64) -> Launch {
    let arguments = vec![address(data), address(out), Argument::U64(bytes / 16)];
    memory("stream_read", blocks, arguments)
}

/// An empty kernel.
#[must_use]
pub fn nothing() -> Launch {
    Launch {
        variant: Variant::Memory,
        function: "nothing",
        grid: [1, 1, 1],
        threads: 32,
        shared: 0,
        arguments: Vec::new(),
    }
}

/// Fills `count` bf16 with random numbers of at most `scale`.
#[must_use]
pub fn fill_bf16(data: At, count: u64, seed: u32, scale: f32) -> Launch {
    let arguments = vec![
        address(data),
        Argument::U64(count),
        Argument::U32(seed),
        Argument::F32(scale),
    ];
    memory("fill_bf16", fill_blocks(count), arguments)
}

/// Fills `count` bytes with random e4m3.
#[must_use]
pub fn fill_e4m3(data: At, count: u64, seed: u32) -> Launch {
    let arguments = vec![address(data), Argument::U64(count), Argument::U32(seed)];
    memory("fill_e4m3", fill_blocks(count), arguments)
}

fn fill_blocks(count: u64) -> u32 {
    blocks_of(count.div_ceil(u64::from(THREADS)), 4096)
}

/// At least one block, at most `most`.
fn blocks_of(wanted: u64, most: u32) -> u32 {
    u32::try_from(wanted).map_or(most, |w| w.clamp(1, most))
}

/// Longest message that every rank sums for itself, in bytes; beyond it the two-shot kernel moves less.
pub const ONE_SHOT_BYTES: u64 = 256 * 1024;

/// Blocks of an all-reduce: few, since every one of them waits for its twins on the other GPUs.
#[must_use]
pub fn collective_blocks(bytes: u64) -> u32 {
    let words = bytes / 16;
    blocks_of(words.div_ceil(u64::from(COLLECTIVE_THREADS)), 36)
}

/// One rank's part of an all-reduce: table of peers, output.
#[must_use]
pub fn all_reduce(ranks: u32, rank: u32, bytes: u64, peers: At, out: At) -> Launch {
    Launch {
        variant: Variant::Collective,
        function: if bytes <= ONE_SHOT_BYTES {
            "all_reduce_one_shot"
        } else {
            "all_reduce_two_shot"
        },
        grid: [collective_blocks(bytes), 1, 1],
        threads: COLLECTIVE_THREADS,
        shared: 0,
        arguments: vec![
            address(peers),
            address(out),
            Argument::U32(rank),
            Argument::U32(ranks),
            Argument::U64(bytes / 16),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(batch: u32, context_tokens: u32, kv_heads: u32) -> Decode {
        Decode {
            kv_dtype: KvDtype::Bf16,
            batch,
            context_tokens,
            heads: kv_heads * 4,
            kv_heads,
            head_dim: 128,
        }
    }

    #[test]
    fn splits_fill_the_gpu_but_never_fall_below_64_tokens() {
        for batch in [1, 3, 64, 512] {
            for context in [1, 16, 64, 65, 1000, 131_072] {
                for kv_heads in [1, 8] {
                    let d = point(batch, context, kv_heads);
                    let s = splits(&d, 132);
                    assert!(s >= 1);
                    let pages = d.pages().div_ceil(s);
                    assert!(s == 1 || pages >= 4, "{batch} {context} {kv_heads}: {s}");
                    assert!(s == 1 || s * batch * kv_heads < 6 * 132 + batch * kv_heads);
                }
            }
        }
        assert_eq!(splits(&point(1, 131_072, 8), 132), 99);
        assert_eq!(splits(&point(256, 4096, 8), 132), 1);
    }

    #[test]
    fn shared_memory_of_every_kernel_fits_the_smallest_gpu_it_runs_on() {
        // 99 KiB per block on sm_86, sm_89 and sm_120 (CUDA programming guide, technical specifications).
        let at = (0, 0);
        let ops = DecodeOperands {
            q: at,
            k: at,
            v: at,
            table: at,
            contexts: at,
            out: at,
            partial: at,
            partial_lse: at,
        };
        let mut all = decode(&point(1, 4096, 8), 4, &ops);
        let p = Prefill {
            batch: 1,
            new_tokens: 512,
            past_tokens: 0,
            heads: 32,
            kv_heads: 8,
            head_dim: 128,
        };
        all.push(prefill(&p, [at; 5]));
        all.push(matmul(Tile::Large, [512, 512, 512], [at; 3]));
        all.push(matmul(Tile::Small, [8, 512, 512], [at; 3]));
        for launch in all {
            assert!(
                launch.shared <= 99 * 1024,
                "{}: {}",
                launch.function,
                launch.shared
            );
        }
    }
}
