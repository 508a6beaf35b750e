//! Step times that are constants: for queueing theory, tests and thought experiments.

use super::{DecodeCurve, LatencyModel, Stage, StepShape};
use crate::units::{FINE_BITS, Fine, SimDuration};

/// A step takes `prefill` if it has prompts, plus `prefill_per_token` per prompt token, plus `decode` if it has
/// decodes, plus `decode_per_sequence` per sequence. Stages share the time evenly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fixed {
    /// Once per step with prompts.
    pub prefill: SimDuration,
    /// Per prompt token computed.
    pub prefill_per_token: SimDuration,
    /// Once per step with decodes.
    pub decode: SimDuration,
    /// Per decoding sequence.
    pub decode_per_sequence: SimDuration,
}

impl Fixed {
    fn decode_total(&self, batch: u32) -> SimDuration {
        if batch == 0 {
            return SimDuration::ZERO;
        }
        self.decode + self.decode_per_sequence * u64::from(batch)
    }
}

impl LatencyModel for Fixed {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        let mut total = self.decode_total(shape.decodes);
        if !shape.chunks.is_empty() {
            total += self.prefill + self.prefill_per_token * shape.prefill_tokens();
        }
        SimDuration::from_ps(total.as_ps().div_ceil(u64::from(stage.of)))
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        let ps = self
            .decode_total(batch)
            .as_ps()
            .div_ceil(u64::from(stage.of));
        DecodeCurve::linear(Fine(ps.saturating_mul(1 << FINE_BITS)), Fine(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Chunk;

    const MODEL: Fixed = Fixed {
        prefill: SimDuration::from_ms(10),
        prefill_per_token: SimDuration::from_ms(1),
        decode: SimDuration::from_ms(5),
        decode_per_sequence: SimDuration::from_ms(2),
    };

    #[test]
    fn parts_add_up() {
        let chunks = [Chunk {
            new: 3,
            past: 9,
            last: false,
        }];
        let shape = StepShape {
            chunks: &chunks,
            decodes: 4,
            context: 1000,
        };
        assert_eq!(
            MODEL.step_time(&shape, Stage::ONLY),
            SimDuration::from_ms(10 + 3 + 5 + 8)
        );
    }

    #[test]
    fn a_decode_step_is_its_curve() {
        for of in 1..4 {
            let stage = Stage { index: 0, of };
            let shape = StepShape {
                chunks: &[],
                decodes: 3,
                context: 77,
            };
            assert_eq!(
                MODEL.step_time(&shape, stage),
                MODEL.decode_curve(3, stage).at(77).ceil()
            );
        }
    }
}
