//! Attention: what depends on contexts.

use super::super::Chunk;
use super::super::kernels::{HeadLayout, Kernels};
use super::lone::LonePrompts;
use super::operators::{Operator, Operators, total};
use crate::model::Attention;

/// Context per sequence up to which decode curves have knots; beyond, the last piece goes on.
const FURTHEST: u32 = 1 << 20;

impl<K: Kernels> Operators<K> {
    /// Tables of the layouts' lone prompts, full and windowed, where the kernels have them.
    pub(super) fn tabulate_lone(&mut self) {
        self.lone = match &self.model.attention {
            Attention::Grouped(a) => [false, true].map(|windowed| {
                let layout = self.layout(a, windowed);
                let used = !windowed || layout.window.is_some();
                let seconds = |n| Some(self.kernels.lone_prompt(&layout, n)?.seconds);
                used.then(|| LonePrompts::new(seconds))?
            }),
            Attention::Latent(a) => {
                let layout = self.latent_layout(a);
                let seconds = |n| Some(self.kernels.lone_latent_prompt(&layout, n)?.seconds);
                [LonePrompts::new(seconds), None]
            }
        };
    }

    /// Layouts of grouped attention with the number of layers that have them.
    fn layouts(&self, index: u32) -> impl Iterator<Item = (HeadLayout, f64)> {
        let c = self.layers[index as usize];
        let (full, windowed) = match &self.model.attention {
            Attention::Grouped(a) => (
                Some((self.layout(a, false), c.full)),
                Some((self.layout(a, true), c.windowed)),
            ),
            Attention::Latent(_) => (None, None),
        };
        [full, windowed]
            .into_iter()
            .flatten()
            .filter(|(_, n)| *n > 0.0)
    }

    /// Prefill attention of all layers of a stage.
    pub(super) fn prefill(&self, chunks: &[Chunk], index: u32) -> Vec<Operator> {
        if chunks.is_empty() {
            return Vec::new();
        }
        let chunks = &self.rank_chunks(chunks)[..];
        let mut ops: Vec<Operator> = self
            .layouts(index)
            .map(|(layout, count)| Operator {
                name: "prefill attention",
                count,
                each: self.kernels.prefill_attention(&layout, chunks),
                flops: chunks.iter().map(|&c| layout.prefill_flops(c)).sum(),
                bytes: chunks
                    .iter()
                    .map(|c| f64::from(c.new + c.past) * layout.kv_bytes_per_token())
                    .sum(),
            })
            .collect();
        if let Attention::Latent(a) = &self.model.attention {
            let layout = self.latent_layout(a);
            let c = self.layers[index as usize];
            ops.push(Operator {
                name: "prefill attention",
                count: c.dense + c.moe,
                each: self.kernels.latent_prefill(&layout, chunks),
                flops: chunks.iter().map(|&c| layout.prefill_flops(c)).sum(),
                bytes: chunks
                    .iter()
                    .map(|c| layout.decode_bytes(c.new, f64::from(c.past)))
                    .sum(),
            });
        }
        ops
    }

    /// Seconds of [`Operators::prefill`].
    pub(super) fn prefill_seconds(&self, chunks: &[Chunk], index: u32) -> f64 {
        match chunks {
            [] => 0.0,
            &[chunk] => self
                .lone_seconds(chunk, index)
                .unwrap_or_else(|| total(&self.prefill(chunks, index))),
            _ => total(&self.prefill(chunks, index)),
        }
    }

    /// Seconds of a step's only chunk from the tables.
    fn lone_seconds(&self, chunk: Chunk, index: u32) -> Option<f64> {
        let c = self.layers[index as usize];
        let part = |table: &Option<LonePrompts>, layout: HeadLayout, count: f64| {
            if count > 0.0 {
                Some(count * table.as_ref()?.seconds(&layout, chunk)?)
            } else {
                Some(0.0)
            }
        };
        match &self.model.attention {
            Attention::Grouped(a) => {
                let full = part(&self.lone[0], self.layout(a, false), c.full)?;
                Some(full + part(&self.lone[1], self.layout(a, true), c.windowed)?)
            }
            Attention::Latent(a) => {
                let table = self.lone[0].as_ref()?;
                Some((c.dense + c.moe) * table.seconds(&self.latent_layout(a), chunk)?)
            }
        }
    }

    /// The chunks one attention data-parallel rank computes: those of the most loaded rank when chunks go, largest
    /// first, to the rank with the fewest tokens.
    fn rank_chunks<'a>(&self, chunks: &'a [Chunk]) -> std::borrow::Cow<'a, [Chunk]> {
        if self.p.dp == 1 {
            return chunks.into();
        }
        let mut sorted = chunks.to_vec();
        sorted.sort_by_key(|c| std::cmp::Reverse((c.new, c.past)));
        let mut ranks: Vec<(u64, Vec<Chunk>)> = vec![(0, Vec::new()); self.p.dp as usize];
        for chunk in sorted {
            if let Some(rank) = ranks.iter_mut().min_by_key(|r| r.0) {
                rank.0 += u64::from(chunk.new);
                rank.1.push(chunk);
            }
        }
        let most = ranks.into_iter().max_by_key(|r| r.0);
        most.map_or_else(Vec::new, |r| r.1).into()
    }

    /// Decode attention of all layers of a stage.
    pub(super) fn decode(&self, batch: u32, context: f64, index: u32) -> Vec<Operator> {
        let rank_batch = batch.div_ceil(self.p.dp);
        let rank_context = context * f64::from(rank_batch) / f64::from(batch);
        let mut ops: Vec<Operator> = self
            .layouts(index)
            .map(|(layout, count)| Operator {
                name: "decode attention",
                count,
                each: self
                    .kernels
                    .decode_attention(&layout, rank_batch, rank_context),
                flops: layout.decode_flops(rank_batch, rank_context),
                bytes: layout.decode_bytes(rank_batch, rank_context),
            })
            .collect();
        if let Attention::Latent(a) = &self.model.attention {
            let layout = self.latent_layout(a);
            let c = self.layers[index as usize];
            ops.push(Operator {
                name: "decode attention",
                count: c.dense + c.moe,
                each: self
                    .kernels
                    .latent_decode(&layout, rank_batch, rank_context),
                flops: layout.decode_flops(rank_batch, rank_context),
                bytes: layout.decode_bytes(rank_batch, rank_context),
            });
        }
        ops
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
