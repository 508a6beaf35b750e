//! Attention: what depends on contexts.

use super::super::Chunk;
use super::super::kernels::Kernels;
use super::operators::{Operator, Operators, total};
use super::prompts::{Heads, Prompts};
use crate::model::Attention;

/// Context per sequence up to which decode curves have knots; beyond, the last piece goes on.
const FURTHEST: u32 = 1 << 20;

/// Chunks and ranks up to which finding the fullest rank needs no memory of its own.
const FEW: usize = 64;

impl<K: Kernels> Operators<K> {
    /// The kinds of layers of the model: full (or latent) and windowed.
    pub(super) fn tabulate_prompts(&mut self) {
        let kernels = &self.kernels;
        self.prompts = match &self.model.attention {
            Attention::Grouped(a) => [false, true].map(|windowed| {
                let layout = self.layout(a, windowed);
                let used = !windowed || layout.window.is_some();
                used.then(|| Prompts::new(Heads::Grouped(layout), kernels))
            }),
            Attention::Latent(a) => {
                let heads = Heads::Latent(self.latent_layout(a));
                [Some(Prompts::new(heads, kernels)), None]
            }
        };
    }

    /// Kinds of layers of a stage with the number of its layers that are such.
    fn kinds(&self, index: u32) -> impl Iterator<Item = (&Prompts, f64)> {
        let c = self.layers[index as usize];
        self.prompts
            .iter()
            .zip([c.full, c.windowed])
            .filter_map(|(prompts, count)| Some((prompts.as_ref()?, count)))
            .filter(|(_, count)| *count > 0.0)
    }

    /// Prefill attention of all layers of a stage.
    pub(super) fn prefill(&self, chunks: &[Chunk], index: u32) -> Vec<Operator> {
        if chunks.is_empty() {
            return Vec::new();
        }
        let of_kind = |chunks: &[Chunk], (prompts, count): (&Prompts, f64)| Operator {
            name: "prefill attention",
            count,
            each: prompts.heads.prefill(&self.kernels, chunks),
            flops: prompts.heads.prefill_flops(chunks),
            bytes: prompts.heads.prefill_cache_bytes(chunks),
        };
        self.on_rank(chunks, |chunks| {
            self.kinds(index)
                .map(|kind| of_kind(chunks, kind))
                .collect()
        })
    }

    /// Seconds of [`Operators::prefill`] from the tables.
    pub(super) fn prefill_seconds(&self, chunks: &[Chunk], index: u32) -> f64 {
        if chunks.is_empty() {
            return 0.0;
        }
        self.on_rank(chunks, |chunks| {
            self.kinds(index)
                .map(|(prompts, count)| count * prompts.seconds(&self.kernels, chunks))
                .sum()
        })
    }

    /// Applies `f` to the chunks one attention data-parallel rank computes: those of the most loaded rank when chunks go,
    /// largest first, to the rank with the fewest tokens.
    pub(super) fn on_rank<T>(&self, chunks: &[Chunk], f: impl FnOnce(&[Chunk]) -> T) -> T {
        let ranks = self.p.dp as usize;
        if ranks == 1 {
            return f(chunks);
        }
        let nothing = Chunk {
            new: 0,
            past: 0,
            last: false,
        };
        let (mut few, mut many) = ([nothing; FEW], Vec::new());
        let sorted = if chunks.len() <= FEW && ranks <= FEW {
            &mut few[..chunks.len()]
        } else {
            many.resize(chunks.len(), nothing);
            &mut many[..]
        };
        sorted.copy_from_slice(chunks);
        f(fullest(sorted, ranks))
    }

    /// Decode attention of all layers of a stage.
    pub(super) fn decode(&self, batch: u32, context: f64, index: u32) -> Vec<Operator> {
        let rank_batch = batch.div_ceil(self.p.dp);
        let rank_context = context * f64::from(rank_batch) / f64::from(batch);
        let of_kind = |(prompts, count): (&Prompts, f64)| {
            let heads = prompts.heads;
            let (flops, bytes) = heads.decode_work(rank_batch, rank_context);
            Operator {
                name: "decode attention",
                count,
                each: heads.decode(&self.kernels, rank_batch, rank_context),
                flops,
                bytes,
            }
        };
        self.kinds(index).map(of_kind).collect()
    }

    /// Seconds of [`Operators::decode`].
    pub(super) fn decode_seconds(&self, batch: u32, context: f64, index: u32) -> f64 {
        total(&self.decode(batch, context, index))
    }

    /// Total contexts between which the decode time of `batch` sequences is taken as linear.
    pub(super) fn decode_knots(&self, batch: u32) -> Vec<u64> {
        let n = u64::from(batch);
        let mut knots: Vec<u64> = self
            .kernels
            .context_knots()
            .iter()
            .map(|&each| u64::from(each) * n)
            .collect();
        if let Attention::Grouped(a) = &self.model.attention
            && let Some(window) = a.window
        {
            // The step's own token is inside the window too.
            knots.push(u64::from(window.tokens - 1) * n);
        }
        knots.extend([0, n, u64::from(FURTHEST) * n]);
        knots.sort_unstable();
        knots.dedup();
        knots
    }
}

/// Deals `chunks`, largest first, each to the rank with the fewest tokens, and returns those of the rank with the most.
fn fullest(chunks: &mut [Chunk], ranks: usize) -> &[Chunk] {
    chunks.sort_unstable_by_key(|c| std::cmp::Reverse((c.new, c.past)));
    if chunks.len() <= ranks {
        return &chunks[..chunks.len().min(1)];
    }
    let (mut few, mut many) = ([0u64; FEW], Vec::new());
    let loads = if ranks <= FEW {
        &mut few[..ranks]
    } else {
        many.resize(ranks, 0);
        &mut many[..]
    };
    let deal = |loads: &mut [u64], chunk: &Chunk| {
        let rank = (0..loads.len()).min_by_key(|&rank| loads[rank])?;
        loads[rank] += u64::from(chunk.new);
        Some(rank)
    };
    for chunk in &*chunks {
        deal(loads, chunk);
    }
    let most = (0..ranks).max_by_key(|&rank| (loads[rank], std::cmp::Reverse(rank)));
    // Dealt once more: the same, so that the rank of each is known without a list of them.
    loads.fill(0);
    let mut kept = 0;
    for i in 0..chunks.len() {
        if deal(loads, &chunks[i]) == most {
            chunks.swap(kept, i);
            kept += 1;
        }
    }
    &chunks[..kept]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_rank_has_what_greedy_dealing_gives_it() {
        let of = |tokens: &[u32], ranks| {
            let chunk = |&new: &u32| Chunk {
                new,
                past: 0,
                last: true,
            };
            let mut chunks: Vec<Chunk> = tokens.iter().map(chunk).collect();
            fullest(&mut chunks, ranks)
                .iter()
                .map(|c| c.new)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&[5, 9, 7], 4), [9]);
        assert_eq!(of(&[5, 9, 7], 2), [7, 5]);
        assert_eq!(of(&[3, 3, 2, 2, 2], 2), [3, 2, 2]);
        assert_eq!(of(&[1; 7], 3), [1; 3]);
        assert!(of(&[], 3).is_empty());
        let many: Vec<u32> = (1..=200).collect();
        let of_many = of(&many, 100);
        assert_eq!(of_many.iter().sum::<u32>(), 201);
    }
}
