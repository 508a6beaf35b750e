//! Prefill attention of the chunks of a step, from tables.
//!
//! Kernels that time chunks by uniform batches of prompts are asked for those once, on a grid over their number and length,
//! a row per number and only when a step needs it. Between knots times are linear; knots cut every octave into equal parts, so
//! that the place of a number among them is in the bits of its floating-point form.
//!
//! Where times are powers between 0 and 1 of the number and between 0 and 2 of the length this errs by at most 0.1 %.

use std::sync::OnceLock;

use super::super::Chunk;
use super::super::chunks::chunked;
use super::super::kernels::{HeadLayout, Kernels, LatentLayout, Timed};

/// Knots per octave of the length, as a power of two.
const LENGTH_BITS: u32 = 5;

/// Octaves of lengths: up to 131,072 tokens of work.
const LENGTH_OCTAVES: usize = 17;

/// Knots per octave of the number of prompts, as a power of two.
const NUMBER_BITS: u32 = 3;

/// Octaves of numbers. Twice as many prompts as the most, 1,024, take twice as long.
const NUMBER_OCTAVES: usize = 10;

/// Knots.
const LENGTHS: usize = (LENGTH_OCTAVES << LENGTH_BITS) + 1;
const NUMBERS: usize = (NUMBER_OCTAVES << NUMBER_BITS) + 1;

/// The attention of one kind of layer on one rank.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heads {
    Grouped(HeadLayout),
    Latent(LatentLayout),
}

impl Heads {
    fn pairs(&self, chunk: Chunk) -> f64 {
        match self {
            Self::Grouped(layout) => layout.pairs(chunk),
            Self::Latent(_) => LatentLayout::pairs(chunk),
        }
    }

    /// A uniform batch of prompts, where that is what chunks are timed by.
    fn prompts(&self, kernels: &impl Kernels, number: f64, length: f64) -> Option<Timed> {
        match self {
            Self::Grouped(layout) => kernels.prompts(layout, number, length),
            Self::Latent(layout) => kernels.latent_prompts(layout, number, length),
        }
    }

    /// What `seconds` put together from batches of prompts are here.
    fn slowed(&self, kernels: &impl Kernels, chunks: &[Chunk], seconds: f64) -> f64 {
        match self {
            Self::Grouped(layout) => kernels.prompts_slowed(layout, chunks, seconds),
            Self::Latent(layout) => kernels.latent_prompts_slowed(layout, chunks, seconds),
        }
    }

    /// Chunks of one step, straight from the kernels.
    pub(super) fn prefill(&self, kernels: &impl Kernels, chunks: &[Chunk]) -> Timed {
        match self {
            Self::Grouped(layout) => kernels.prefill_attention(layout, chunks),
            Self::Latent(layout) => kernels.latent_prefill(layout, chunks),
        }
    }

    /// Operations of those.
    pub(super) fn prefill_flops(&self, chunks: &[Chunk]) -> f64 {
        let flops = |&chunk: &Chunk| match self {
            Self::Grouped(layout) => layout.prefill_flops(chunk),
            Self::Latent(layout) => layout.prefill_flops(chunk),
        };
        chunks.iter().map(flops).sum()
    }

    /// Cache bytes that those read or write.
    pub(super) fn prefill_cache_bytes(&self, chunks: &[Chunk]) -> f64 {
        let bytes = |chunk: &Chunk| match self {
            Self::Grouped(layout) => {
                f64::from(chunk.new + chunk.past) * layout.kv_bytes_per_token()
            }
            Self::Latent(layout) => layout.decode_bytes(chunk.new, f64::from(chunk.past)),
        };
        chunks.iter().map(bytes).sum()
    }

    /// A decode batch holding `context` tokens.
    pub(super) fn decode(&self, kernels: &impl Kernels, batch: u32, context: f64) -> Timed {
        match self {
            Self::Grouped(layout) => kernels.decode_attention(layout, batch, context),
            Self::Latent(layout) => kernels.latent_decode(layout, batch, context),
        }
    }

    /// Operations and bytes of that.
    pub(super) fn decode_work(&self, batch: u32, context: f64) -> (f64, f64) {
        match self {
            Self::Grouped(layout) => (
                layout.decode_flops(batch, context),
                layout.decode_bytes(batch, context),
            ),
            Self::Latent(layout) => (
                layout.decode_flops(batch, context),
                layout.decode_bytes(batch, context),
            ),
        }
    }
}

/// One kind of layer and the times of its prompts.
#[derive(Debug)]
pub(super) struct Prompts {
    pub(super) heads: Heads,
    /// Seconds by length for each number of prompts; none where kernels do not time chunks so.
    rows: Option<Box<[Row]>>,
}

/// Seconds by length, filled when first asked for.
type Row = OnceLock<Box<[f64; LENGTHS]>>;

/// The knot below a length and the share of the way to the next.
struct Place {
    column: usize,
    right: f64,
}

impl Prompts {
    pub(super) fn new(heads: Heads, kernels: &impl Kernels) -> Self {
        let known = heads.prompts(kernels, 1.0, 1.0).is_some();
        Self {
            heads,
            rows: known.then(|| (0..NUMBERS).map(|_| OnceLock::new()).collect()),
        }
    }

    /// Seconds of the chunks of one step.
    pub(super) fn seconds(&self, kernels: &impl Kernels, chunks: &[Chunk]) -> f64 {
        let tabulated = self.rows.as_deref().and_then(|rows| {
            let pairs = |chunk: Chunk| self.heads.pairs(chunk);
            let read = |number: f64, place: &Place| Some(self.read(rows, kernels, number, place));
            chunked(chunks, pairs, find, read)
        });
        match tabulated {
            Some(timed) => self.heads.slowed(kernels, chunks, timed.seconds),
            None => self.heads.prefill(kernels, chunks).seconds,
        }
    }

    /// `number` prompts of a length.
    #[inline]
    fn read(&self, rows: &[Row], kernels: &impl Kernels, number: f64, at: &Place) -> Timed {
        const MOST: f64 = (1u32 << NUMBER_OCTAVES) as f64;
        let (row, up) = place(number.min(MOST), NUMBER_BITS);
        let along = |row: usize| {
            let row = rows[row].get_or_init(|| self.row(kernels, row));
            let (a, b) = (row[at.column], row[at.column + 1]);
            a + (b - a) * at.right
        };
        let mut seconds = along(row);
        if up > 0.0 {
            seconds += (along(row + 1) - seconds) * up;
        }
        Timed::unmeasured(seconds * (number * (1.0 / MOST)).max(1.0))
    }

    /// The times of one number of prompts.
    #[cold]
    fn row(&self, kernels: &impl Kernels, row: usize) -> Box<[f64; LENGTHS]> {
        let number = knot(row, NUMBER_BITS);
        let mut times = Box::new([0.0; LENGTHS]);
        for (i, time) in times.iter_mut().enumerate() {
            let timed = self.heads.prompts(kernels, number, knot(i, LENGTH_BITS));
            *time = timed
                .expect("kernels that tell one prompt tell any")
                .seconds;
        }
        times
    }
}

/// The place of a length; none beyond the last knot.
#[inline]
fn find(length: f64) -> Option<Place> {
    let (column, right) = place(length, LENGTH_BITS);
    (column + 1 < LENGTHS).then_some(Place { column, right })
}

/// The `index`-th of the knots from 1 that cut each octave into 2^`bits` equal parts.
fn knot(index: usize, bits: u32) -> f64 {
    f64::from_bits(1f64.to_bits() + ((index as u64) << (f64::MANTISSA_DIGITS - 1 - bits)))
}

/// The last of those knots that is at most `x` (below 1: the first), and the share of the way to the next.
#[inline]
fn place(x: f64, bits: u32) -> (usize, f64) {
    let rest = f64::MANTISSA_DIGITS - 1 - bits;
    let from_one = x.max(1.0).to_bits() - 1f64.to_bits();
    let part = from_one & ((1 << rest) - 1);
    #[expect(clippy::cast_possible_truncation, reason = "exponents have 11 bits")]
    let index = (from_one >> rest) as usize;
    (index, part as f64 / (1u64 << rest) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_their_place_among_the_knots() {
        for bits in [NUMBER_BITS, LENGTH_BITS] {
            for index in [0, 1, 7, 8, 9, 100, 543] {
                let (low, high) = (knot(index, bits), knot(index + 1, bits));
                assert_eq!(place(low, bits), (index, 0.0));
                let (found, share) = place(low + 0.25 * (high - low), bits);
                assert_eq!((found, share.to_bits()), (index, 0.25f64.to_bits()));
            }
        }
        assert_eq!(place(0.5, LENGTH_BITS), (0, 0.0));
        assert_eq!(
            knot(LENGTHS - 1, LENGTH_BITS).to_bits(),
            131_072f64.to_bits()
        );
        assert_eq!(knot(NUMBERS - 1, NUMBER_BITS).to_bits(), 1024f64.to_bits());
        assert!(find(131_071.9).is_some() && find(131_072.0).is_none());
    }
}
