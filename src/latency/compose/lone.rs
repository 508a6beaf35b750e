//! Prefill attention of a step with one chunk, tabulated: the usual step of an engine that chunks prompts.

use super::super::Chunk;
use super::super::kernels::{HeadLayout, LatentLayout};

/// Prompts up to this length are tabulated.
const LONGEST: u32 = 8192;

/// A layout that can say how much work a chunk is.
pub(super) trait Work {
    /// Floating-point operations of a chunk.
    fn work(&self, chunk: Chunk) -> f64;
}

impl Work for HeadLayout {
    fn work(&self, chunk: Chunk) -> f64 {
        self.prefill_flops(chunk)
    }
}

impl Work for LatentLayout {
    fn work(&self, chunk: Chunk) -> f64 {
        self.prefill_flops(chunk)
    }
}

/// Seconds of one prompt in one layer by its length.
#[derive(Debug)]
pub(super) struct LonePrompts(Box<[f64]>);

impl LonePrompts {
    /// Tabulates `seconds`, which may not know.
    pub(super) fn new(seconds: impl Fn(f64) -> Option<f64>) -> Option<Self> {
        let known = (1..=LONGEST).map(|length| seconds(f64::from(length)));
        let mut table = Vec::with_capacity(LONGEST as usize + 1);
        // No chunk, no time; a length below one token does not occur.
        table.push(0.0);
        for seconds in known {
            table.push(seconds?);
        }
        Some(Self(table.into()))
    }

    /// Seconds of a chunk: those of a whole prompt of the same work. `None` where that is too long for the table.
    pub(super) fn seconds(&self, layout: &impl Work, chunk: Chunk) -> Option<f64> {
        if chunk.past == 0 {
            return self.0.get(chunk.new as usize).copied();
        }
        let without_past = Chunk { past: 0, ..chunk };
        let ratio = layout.work(chunk) / layout.work(without_past);
        let length = f64::from(chunk.new) * ratio.sqrt();
        if length >= f64::from(LONGEST) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive number below the size of the table"
        )]
        let low = length as usize;
        let (a, b) = (self.0[low], self.0[low + 1]);
        Some(a + (b - a) * (length - low as f64))
    }
}
