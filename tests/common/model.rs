//! A step-time model with many linear pieces per batch size, fractions of a picosecond in its slopes, and jumps.

use pdsim::latency::{DecodeCurve, LatencyModel, Segment, Stage, StepShape};
use pdsim::units::{Fine, SimDuration};

/// Pieces of `knot` tokens; the slope of piece `i` and the jump between pieces come from small integer hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Tokens per piece.
    pub(crate) knot: u64,
    /// How many pieces.
    pub(crate) pieces: u64,
    /// A decode step of no context, per sequence, in 2⁻¹⁶ ps.
    pub(crate) base: u64,
    /// Largest slope in 2⁻¹⁶ ps per token.
    pub(crate) slope: u64,
    /// Time per prompt token.
    pub(crate) per_token: SimDuration,
}

impl LatencyModel for Pieces {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        let decode = if shape.decodes > 0 {
            self.decode_curve(shape.decodes, stage)
                .at(shape.context)
                .ceil()
        } else {
            SimDuration::ZERO
        };
        let past: u64 = shape.chunks.iter().map(|chunk| u64::from(chunk.past)).sum();
        let prompts = self.per_token * shape.prefill_tokens() + SimDuration::from_ps(past * 7);
        decode + prompts
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        let n = u64::from(batch);
        let mut base = self.base * (3 + n) / u64::from(stage.of);
        let mut segments = Vec::new();
        for i in 0..self.pieces {
            let slope = (i * 2_654_435_761 + n * 40_503) % (self.slope + 1);
            segments.push(Segment {
                from: i * self.knot,
                base: Fine(base),
                slope: Fine(slope),
            });
            base += slope * self.knot + (i % 3) * self.base / 5;
        }
        DecodeCurve::from_segments(segments)
    }
}
