//! Points of the attention kernels.

use std::collections::BTreeMap;

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

impl Heads {
    /// Distance of two layouts: doublings of heads and of groups; other head sizes are far.
    fn distance(self, other: Self) -> f64 {
        let doublings = |a: u32, b: u32| (f64::from(a) / f64::from(b)).log2().powi(2);
        let group = |h: Self| h.heads / h.kv_heads;
        doublings(self.kv_heads, other.kv_heads)
            + doublings(group(self), group(other))
            + 4.0 * doublings(self.head_dim, other.head_dim)
    }
}

/// Head layouts of the models at every degree that the kernels take, in the order of their use: by turns the one that
/// most models have, and the one farthest from all before it, so that both the usual and the extremes come early.
fn layouts(models: &[ModelSpec]) -> Vec<Heads> {
    let mut uses: BTreeMap<Heads, usize> = BTreeMap::new();
    for model in models {
        let Attention::Grouped(a) = &model.attention else {
            continue;
        };
        for tp in DEGREES {
            let (heads, kv_heads) = (a.heads / tp, a.kv_heads_per_rank(tp));
            let whole = a.heads.is_multiple_of(tp)
                && heads.is_multiple_of(kv_heads)
                && heads / kv_heads <= 16;
            if whole && [64, 128].contains(&a.head_dim) {
                let layout = Heads {
                    head_dim: a.head_dim,
                    kv_heads,
                    heads,
                };
                *uses.entry(layout).or_default() += 1;
            }
        }
    }
    let mut rest: Vec<(Heads, usize)> = uses.into_iter().collect();
    let mut order: Vec<Heads> = Vec::new();
    while !rest.is_empty() {
        let gap = |h: Heads| {
            let gaps = order.iter().map(|o| o.distance(h));
            gaps.fold(f64::INFINITY, f64::min)
        };
        let by_use = order.len().is_multiple_of(2);
        let rank = |(h, n): (Heads, usize)| if by_use { n as f64 } else { gap(h) };
        // The first of equals, so that the order does not depend on how a maximum is sought.
        let mut best = 0;
        for i in 1..rest.len() {
            if rank(rest[i]) > rank(rest[best]) {
                best = i;
            }
        }
        order.push(rest.remove(best).0);
    }
    order
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
    let layouts = first_layouts(models, if options.quick { 6 } else { 16 });
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
    let layouts = first_layouts(models, if options.quick { 4 } else { 12 });
    let past: &[u32] = if options.quick {
        &[0, 4096]
    } else {
        &[0, 512, 2048, 8192, 32_768]
    };
    let chunks = pairs(&powers(5, 15, 1), &coarse_first(past));
    let shapes = pairs(&chunks, &[1, 4]);
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
