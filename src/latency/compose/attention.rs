//! Attention: what depends on contexts.

use super::super::Chunk;
use super::super::kernels::Kernels;
use super::operators::{Operator, Operators, total};
use super::prompts::{Heads, Prompts};
use crate::model::Attention;

/// Context per sequence up to which decode curves have knots; beyond, the last piece goes on.
const FURTHEST: u32 = 1 << 20;

/// Chunks up to which finding the fullest rank needs no memory of its own.
const FEW: usize = 256;

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

    /// Prefill attention of all layers of a stage, on the slowest rank.
    pub(super) fn prefill(&self, chunks: &[Chunk], index: u32) -> Vec<Operator> {
        let of_kind = |chunks: &[Chunk], (prompts, count): (&Prompts, f64)| Operator {
            name: "prefill attention",
            count,
            each: prompts.heads.prefill(&self.kernels, chunks),
            flops: prompts.heads.prefill_flops(chunks),
            bytes: prompts.heads.prefill_cache_bytes(chunks),
        };
        let of_all = |chunks: &[Chunk]| -> Vec<Operator> {
            self.kinds(index)
                .map(|kind| of_kind(chunks, kind))
                .collect()
        };
        if chunks.is_empty() {
            return Vec::new();
        }
        if self.p.dp == 1 {
            return of_all(chunks);
        }
        let alone = chunks
            .iter()
            .map(|chunk| of_all(std::slice::from_ref(chunk)));
        let mut of_rank = self.slowest(alone.collect());
        if chunks.len() <= self.p.dp as usize {
            return of_rank;
        }
        let at_once = of_all(chunks);
        if total(&at_once) < total(&of_rank) {
            for (op, whole) in of_rank.iter_mut().zip(at_once) {
                op.each = whole.each;
            }
        }
        of_rank
    }

    /// The sums of the operators of the chunks on the rank that takes longest, from those of each chunk.
    fn slowest(&self, mut chunks: Vec<Vec<Operator>>) -> Vec<Operator> {
        chunks.sort_by(|a, b| total(b).total_cmp(&total(a)));
        let mut loads = vec![0.0; self.p.dp as usize];
        let mut sums = vec![Vec::new(); loads.len()];
        for chunk in chunks {
            let sum: &mut Vec<Operator> = &mut sums[deal(&mut loads, total(&chunk))];
            if sum.is_empty() {
                *sum = chunk;
                continue;
            }
            for (sum, op) in sum.iter_mut().zip(chunk) {
                sum.each.measured &= op.each.measured;
                sum.each.seconds += op.each.seconds;
                sum.flops += op.flops;
                sum.bytes += op.bytes;
            }
        }
        let longest = (0..loads.len()).max_by(|&a, &b| loads[a].total_cmp(&loads[b]));
        longest.map_or_else(Vec::new, |rank| sums.swap_remove(rank))
    }

    /// Seconds of [`Operators::prefill`] from the tables.
    ///
    /// Of several ranks the slowest counts. Each takes its chunks one after another, but never longer than it would take
    /// all chunks of the step at once: both grow with every chunk, which the batches of a rank do not as chunks change
    /// places.
    pub(super) fn prefill_seconds(&self, chunks: &[Chunk], index: u32) -> f64 {
        if chunks.is_empty() {
            return 0.0;
        }
        let seconds = |chunks: &[Chunk]| -> f64 {
            self.kinds(index)
                .map(|(prompts, count)| count * prompts.seconds(&self.kernels, chunks))
                .sum()
        };
        if self.p.dp == 1 || chunks.len() == 1 {
            return seconds(chunks);
        }
        let slowest = self.on_fullest(chunks, |chunk| seconds(&[chunk]));
        if chunks.len() <= self.p.dp as usize {
            return slowest;
        }
        slowest.min(seconds(chunks))
    }

    /// The load of the fullest attention data-parallel rank when chunks go, largest first, to the rank with the least.
    ///
    /// Never falls as a load grows: sorted, loads that are no smaller make ranks that are no emptier.
    pub(super) fn on_fullest(&self, chunks: &[Chunk], load: impl Fn(Chunk) -> f64) -> f64 {
        let ranks = self.p.dp as usize;
        if ranks == 1 {
            return chunks.iter().map(|&chunk| load(chunk)).sum();
        }
        if chunks.len() <= ranks {
            return chunks.iter().map(|&chunk| load(chunk)).fold(0.0, f64::max);
        }
        let (mut few, mut many) = ([0.0; FEW], Vec::new());
        let loads = if chunks.len() <= FEW {
            &mut few[..chunks.len()]
        } else {
            many.resize(chunks.len(), 0.0);
            &mut many[..]
        };
        for (place, &chunk) in loads.iter_mut().zip(chunks) {
            *place = load(chunk);
        }
        fullest(loads, ranks)
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

/// Deals `loads`, largest first, each to the emptiest of fewer `ranks`, and returns what the fullest then has.
fn fullest(loads: &mut [f64], ranks: usize) -> f64 {
    loads.sort_unstable_by(|a, b| b.total_cmp(a));
    // Each rank's first is in its place already.
    let (held, rest) = loads.split_at_mut(ranks);
    for &mut load in rest {
        deal(held, load);
    }
    held.iter().copied().fold(0.0, f64::max)
}

/// Gives `load` to the emptiest rank, which it returns.
fn deal(ranks: &mut [f64], load: f64) -> usize {
    let emptiest = (1..ranks.len()).fold(0, |a, b| if ranks[b] < ranks[a] { b } else { a });
    ranks[emptiest] += load;
    emptiest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_rank_has_what_greedy_dealing_gives_it() {
        let of = |loads: &[u32], ranks| {
            let mut loads: Vec<f64> = loads.iter().copied().map(f64::from).collect();
            format!("{}", fullest(&mut loads, ranks))
        };
        assert_eq!(of(&[5, 9, 7], 3), "9");
        assert_eq!(of(&[5, 9, 7], 2), "12");
        assert_eq!(of(&[3, 3, 2, 2, 2], 2), "7");
        assert_eq!(of(&[1; 7], 3), "3");
        let many: Vec<u32> = (1..=200).collect();
        assert_eq!(of(&many, 100), "201");
    }
}
