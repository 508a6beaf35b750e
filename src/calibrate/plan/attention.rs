//! Points of the attention kernels.

use super::sites::DEGREES;
use super::{Options, coarse_first, pairs};
use crate::calibrate::work::{Decode, Prefill, Work};
use crate::model::{Attention, KvDtype, ModelSpec};

/// Heads of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Heads {
    head_dim: u32,
    kv_heads: u32,
    heads: u32,
}

/// Head layouts of the models at every degree that the kernels take, small and large ends first.
fn layouts(models: &[ModelSpec]) -> Vec<Heads> {
    let mut layouts = Vec::new();
    for model in models {
        let Attention::Grouped(a) = &model.attention else {
            continue;
        };
        for tp in DEGREES {
            let (heads, kv_heads) = (a.heads / tp, a.kv_heads_per_rank(tp));
            let whole = a.heads % tp == 0 && heads % kv_heads == 0 && heads / kv_heads <= 16;
            if whole && [64, 128].contains(&a.head_dim) {
                layouts.push(Heads {
                    head_dim: a.head_dim,
                    kv_heads,
                    heads,
                });
            }
        }
    }
    layouts.sort_unstable();
    layouts.dedup();
    coarse_first(&layouts)
}

fn first_layouts(models: &[ModelSpec], most: usize) -> Vec<Heads> {
    let mut all = layouts(models);
    all.truncate(most);
    all
}

fn powers(from: u32, to: u32, step: usize) -> Vec<u32> {
    coarse_first(
        &(from..=to)
            .step_by(step)
            .map(|p| 1 << p)
            .collect::<Vec<u32>>(),
    )
}

pub(super) fn decode(models: &[ModelSpec], options: &Options, kv_dtype: KvDtype) -> Vec<Work> {
    let layouts = first_layouts(models, if options.quick { 6 } else { 12 });
    let step = if options.quick { 2 } else { 1 };
    let shapes = pairs(&powers(0, 9, step), &powers(5, 17, step));
    pairs(&shapes, &layouts)
        .into_iter()
        // A pool of that many tokens is more than one GPU holds of any shipped model.
        .filter(|((batch, context), _)| u64::from(*batch) * u64::from(*context) <= 1 << 21)
        .map(|((batch, context_tokens), h)| Decode {
            kv_dtype,
            batch,
            context_tokens,
            heads: h.heads,
            kv_heads: h.kv_heads,
            head_dim: h.head_dim,
        })
        .map(Work::Decode)
        .filter(|w| w.bytes() < 30e9)
        .collect()
}

pub(super) fn prefill(models: &[ModelSpec], options: &Options) -> Vec<Work> {
    let layouts = first_layouts(models, if options.quick { 4 } else { 10 });
    let past: &[u32] = if options.quick {
        &[0, 4096]
    } else {
        &[0, 512, 2048, 8192, 32_768]
    };
    let step = if options.quick { 2 } else { 1 };
    let chunks = pairs(&powers(5, 15, step), &coarse_first(past));
    let batches: &[u32] = if options.quick { &[1] } else { &[1, 4] };
    let shapes = pairs(&chunks, batches);
    pairs(&shapes, &layouts)
        .into_iter()
        .filter(|(((_, past), batch), _)| *batch == 1 || *past == 0)
        .map(|(((new_tokens, past_tokens), batch), h)| Prefill {
            batch,
            new_tokens,
            past_tokens,
            heads: h.heads,
            kv_heads: h.kv_heads,
            head_dim: h.head_dim,
        })
        .map(Work::Prefill)
        // A tenth of a second at half of an H100's peak.
        .filter(|w| w.flops() < 5e13)
        .collect()
}
