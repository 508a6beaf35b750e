//! Programs of the attention kernels: a paged KV cache whose blocks lie in no order.

use rand::seq::SliceRandom;

use super::{Target, aligned, random};
use crate::calibrate::device::DeviceError;
use crate::calibrate::launch::{self, DecodeOperands};
use crate::calibrate::program::{Buffer, Fill, Mode, Program, Step};
use crate::calibrate::work::{Decode, PAGE, Prefill, Work};
use crate::model::KvDtype;
use crate::rng;

/// Block tables of `sets` rounds over one pool of blocks: every entry another block, in random order, as after a long
/// run of an engine.
fn tables(sets: u64, entries: u64) -> Vec<u8> {
    let count = u32::try_from(sets * entries).expect("a KV pool has fewer than 2^32 blocks");
    let mut pages: Vec<u32> = (0..count).collect();
    pages.shuffle(&mut rng::stream(1, "block tables"));
    pages.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Sets of a cache whose keys (or values) take `kv_bytes` per round, beside `rest` bytes per round.
fn sets(target: &Target, kv_bytes: u64, rest: u64) -> Result<u64, DeviceError> {
    target.sets(2 * kv_bytes + aligned(rest))
}

pub(super) fn decode(work: &Work, d: &Decode, target: &Target) -> Result<Program, DeviceError> {
    let entries = u64::from(d.batch) * u64::from(d.pages());
    let kv_bytes = entries * d.page_bytes();
    let rows = u64::from(d.batch) * u64::from(d.heads);
    let row = u64::from(d.head_dim);
    let splits = launch::splits(d, target.multiprocessors);
    let partial = rows * u64::from(splits) * row * 4;
    let sets = sets(target, kv_bytes, 2 * rows * row * 2 + partial)?;
    let kv_fill = || match d.kv_dtype {
        KvDtype::Bf16 => random(),
        KvDtype::Fp8 | KvDtype::Int8 => Fill::RandomE4m3,
    };
    let contexts = std::iter::repeat_n(d.context_tokens, d.batch as usize);
    let buffers = vec![
        Buffer::new(2 * rows * row, random()),
        Buffer::new(kv_bytes * sets, kv_fill()),
        Buffer::new(kv_bytes * sets, kv_fill()),
        Buffer::of(tables(sets, entries)),
        Buffer::of(contexts.flat_map(u32::to_le_bytes).collect()),
        Buffer::new(2 * rows * row, Fill::Nothing),
        Buffer::new(partial.max(16), Fill::Nothing),
        Buffer::new((4 * rows * u64::from(splits)).max(16), Fill::Nothing),
    ];
    let rounds = (0..target.rounds(sets, work)).map(|r| {
        let at = DecodeOperands {
            q: (0, 0),
            k: (1, 0),
            v: (2, 0),
            table: (3, r % sets * entries * 4),
            contexts: (4, 0),
            out: (5, 0),
            partial: (6, 0),
            partial_lse: (7, 0),
        };
        let launches = launch::decode(d, splits, &at);
        launches.into_iter().map(|l| (0, Step::Kernel(l))).collect()
    });
    Ok(Program {
        rounds: rounds.collect(),
        buffers,
        mode: Mode::Graph,
        output: Some(5),
    })
}

pub(super) fn prefill(work: &Work, p: &Prefill, target: &Target) -> Result<Program, DeviceError> {
    let context = p.new_tokens + p.past_tokens;
    let entries = u64::from(p.batch) * u64::from(context.div_ceil(PAGE));
    let kv_bytes = entries * u64::from(PAGE * p.kv_heads * p.head_dim) * 2;
    let rows = u64::from(p.batch) * u64::from(p.new_tokens) * u64::from(p.heads);
    let q_bytes = 2 * rows * u64::from(p.head_dim);
    let sets = sets(target, kv_bytes, 2 * q_bytes)?;
    let buffers = vec![
        Buffer::new(q_bytes, random()),
        Buffer::new(kv_bytes * sets, random()),
        Buffer::new(kv_bytes * sets, random()),
        Buffer::of(tables(sets, entries)),
        Buffer::new(q_bytes, Fill::Nothing),
    ];
    let rounds = (0..target.rounds(sets, work)).map(|r| {
        let table = (3, r % sets * entries * 4);
        let step = launch::prefill(p, [(0, 0), (1, 0), (2, 0), table, (4, 0)]);
        vec![(0, Step::Kernel(step))]
    });
    Ok(Program {
        rounds: rounds.collect(),
        buffers,
        mode: Mode::Graph,
        output: Some(4),
    })
}
