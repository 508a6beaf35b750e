//! Which share of a run's kernel time rests on measurements.
//!
//! Steps are counted by their shape, coarsely: decode steps by batch (four cells per octave) and context per sequence (octaves), steps
//! with prompts by tokens, prompts, decodes (octaves) and whether a chunk has past context. When the books are closed, the mean shape of each cell stands
//! for its steps and the step-time model is asked what of it was measured. An estimate, therefore: marks change at the edges of measured ranges, which
//! run through cells. It counts the whole run, warm-up included.
//!
//! Counts are integers and a decode run is split over the cells it passes in closed form, so that stepping every token comes to the
//! same figure. Not told apart: two streams on one GPU, whose steps are asked of the model of the whole GPU.

use std::sync::Arc;

use crate::cluster::{PoolSpec, StepFact};
use crate::latency::{Chunk, LatencyModel, StepShape, kernel_seconds};

/// Octaves of contexts per sequence.
const CONTEXTS: usize = 32;
/// Quarters of octaves of batches.
const BATCHES: usize = 4 * OCTAVES;
/// Octaves of prompt tokens and of sequences.
const OCTAVES: usize = 20;
/// Octaves of prompts.
const PROMPTS: usize = 12;
/// Cells of steps without prompts, which come first.
const DECODES: usize = BATCHES * CONTEXTS;

/// Counts the steps of a pool by shape.
#[derive(Debug)]
pub(super) struct Grounds {
    model: Arc<dyn LatencyModel>,
    stages: u32,
    /// Place of each cell in `cells`, plus one; 0 for cells without steps.
    places: Vec<u16>,
    cells: Vec<Cell>,
}

/// The steps of a cell and the sums of their shapes.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    steps: u64,
    prompts: u64,
    new: u64,
    past: u64,
    decodes: u64,
    context: u128,
}

impl Grounds {
    /// For the steps of a pool whose model is composed of kernels; `None` for another.
    pub(super) fn new(spec: &PoolSpec) -> Option<Self> {
        let one = StepShape {
            chunks: &[],
            decodes: 1,
            context: 1,
        };
        kernel_seconds(&*spec.latency, &one, spec.pp)?;
        Some(Self {
            model: Arc::clone(&spec.latency),
            stages: spec.pp,
            places: vec![0; DECODES + OCTAVES * PROMPTS * OCTAVES * 2],
            cells: Vec::new(),
        })
    }

    /// Books the steps of a fact of the first stage.
    pub(super) fn book(&mut self, fact: &StepFact) {
        if fact.prompts == 0 {
            self.book_decodes(fact);
            return;
        }
        let index = octave(fact.prefill_tokens, OCTAVES);
        let index = index * PROMPTS + octave(u64::from(fact.prompts), PROMPTS);
        let index = index * OCTAVES + octave(u64::from(fact.decodes) + 1, OCTAVES);
        let index = index * 2 + usize::from(fact.past_tokens > 0);
        let cell = self.cell(DECODES + index);
        cell.steps += fact.steps;
        cell.prompts += fact.steps * u64::from(fact.prompts);
        cell.new += fact.steps * fact.prefill_tokens;
        cell.past += fact.steps * fact.past_tokens;
        cell.decodes += fact.steps * u64::from(fact.decodes);
        cell.context += u128::from(fact.steps) * u128::from(fact.context);
    }

    /// Books a run of decode steps: one more token for each sequence from step to step.
    fn book_decodes(&mut self, fact: &StepFact) {
        let n = u64::from(fact.decodes);
        if n == 0 {
            return;
        }
        let row = quarter(n, BATCHES) * CONTEXTS;
        let (mut each, mut context, mut left) = (fact.context / n + 1, fact.context, fact.steps);
        while left > 0 {
            let column = octave(each, CONTEXTS);
            let end = if column + 1 < CONTEXTS {
                2u64 << column
            } else {
                u64::MAX
            };
            let steps = left.min(end - each);
            let (j, sequences) = (u128::from(steps), u128::from(n));
            let cell = self.cell(row + column);
            cell.steps += steps;
            cell.decodes += steps * n;
            cell.context += j * u128::from(context) + sequences * (j * (j - 1) / 2);
            (each, context, left) = (each + steps, context + n * steps, left - steps);
        }
    }

    fn cell(&mut self, index: usize) -> &mut Cell {
        let place = &mut self.places[index];
        if *place == 0 {
            self.cells.push(Cell::default());
            *place = u16::try_from(self.cells.len()).expect("there are fewer cells than that");
        }
        &mut self.cells[usize::from(*place) - 1]
    }

    /// Seconds of all kernels inside measured ranges, and of all.
    pub(super) fn seconds(&self) -> (f64, f64) {
        let (mut measured, mut all) = (0.0, 0.0);
        // By index: cells come into being in another order when every token is stepped.
        for &place in self.places.iter().filter(|&&place| place > 0) {
            let cell = &self.cells[usize::from(place) - 1];
            if let Some((inside, seconds)) = cell.seconds(&*self.model, self.stages) {
                measured += inside * cell.steps as f64;
                all += seconds * cell.steps as f64;
            }
        }
        (measured, all)
    }
}

impl Cell {
    /// Kernel seconds of the mean shape: measured ones, and all.
    fn seconds(&self, model: &dyn LatencyModel, stages: u32) -> Option<(f64, f64)> {
        let mean = |sum: u64, of: u64| u32::try_from((sum + of / 2) / of).unwrap_or(u32::MAX);
        let chunks = if self.prompts == 0 {
            Vec::new()
        } else {
            let chunk = Chunk {
                new: mean(self.new, self.prompts).max(1),
                past: mean(self.past, self.prompts),
                last: true,
            };
            vec![chunk; mean(self.prompts, self.steps).max(1) as usize]
        };
        let shape = StepShape {
            chunks: &chunks,
            decodes: mean(self.decodes, self.steps),
            context: u64::try_from(self.context / u128::from(self.steps)).unwrap_or(u64::MAX),
        };
        kernel_seconds(model, &shape, stages)
    }
}

/// The octave of a number (0 as 1), at most the last of `octaves`.
fn octave(number: u64, octaves: usize) -> usize {
    (number.max(1).ilog2() as usize).min(octaves - 1)
}

/// The quarter of an octave of a number above zero, at most the last of `quarters`.
fn quarter(number: u64, quarters: usize) -> usize {
    let octave = number.ilog2();
    // The two bits below the highest one.
    let part = (number << 2 >> octave) & 3;
    (octave as usize * 4 + usize::try_from(part).unwrap_or(0)).min(quarters - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::profile;
    use crate::ids::InstanceId;
    use crate::latency::calibrated::{Calibrated, calibrated};
    use crate::latency::compose::{Formats, Overhead};
    use crate::latency::measured_share;
    use crate::metrics::testing;
    use crate::model::{Parallelism, model};
    use crate::units::SimTime;

    fn spec() -> PoolSpec {
        let kernels = Calibrated::new(&profile("h100-sxm").unwrap(), "h100-sxm").unwrap();
        let llama = model("llama-3.1-8b").unwrap();
        let one = Parallelism::SINGLE;
        let made = calibrated(&llama, kernels, one, Formats::BF16, Overhead::NONE).unwrap();
        PoolSpec {
            latency: Arc::new(made),
            ..testing::system().pools[0].clone()
        }
    }

    fn decodes(n: u32, context: u64, steps: u64) -> StepFact {
        StepFact {
            instance: InstanceId::new(0),
            stage: 0,
            start: SimTime::ZERO,
            end: SimTime::ZERO,
            steps,
            prompts: 0,
            prefill_tokens: 0,
            past_tokens: 0,
            decodes: n,
            context,
            run: None,
        }
    }

    #[test]
    fn a_run_counts_as_its_steps_one_by_one_in_any_order() {
        let (mut whole, mut single) = (
            Grounds::new(&spec()).unwrap(),
            Grounds::new(&spec()).unwrap(),
        );
        let runs = [
            (7, 900, 5000),
            (64, 64_000, 300),
            (1, 0, 70_000),
            (7, 63, 1),
        ];
        for &(n, context, steps) in &runs {
            whole.book(&decodes(n, context, steps));
        }
        for &(n, context, steps) in runs.iter().rev() {
            for step in (0..steps).rev() {
                single.book(&decodes(n, context + step * u64::from(n), 1));
            }
        }
        let (a, b) = (whole.seconds(), single.seconds());
        assert_eq!(
            (a.0.to_bits(), a.1.to_bits()),
            (b.0.to_bits(), b.1.to_bits())
        );
        assert!(a.0 > 0.0 && a.0 < a.1, "{a:?}");
    }

    #[test]
    fn a_cell_of_equal_steps_has_their_share() {
        let spec = spec();
        let mut grounds = Grounds::new(&spec).unwrap();
        let shape = StepFact {
            prompts: 2,
            prefill_tokens: 1000,
            past_tokens: 600,
            ..decodes(40, 50_000, 1)
        };
        for _ in 0..10 {
            grounds.book(&shape);
        }
        let (measured, all) = grounds.seconds();
        let chunk = Chunk {
            new: 500,
            past: 300,
            last: true,
        };
        let step = StepShape {
            chunks: &[chunk, chunk],
            decodes: 40,
            context: 50_000,
        };
        let share = measured_share(&*spec.latency, &step, 1).unwrap();
        assert!((measured / all - share).abs() < 1e-12 && share < 1.0);
    }

    #[test]
    fn models_without_kernels_have_no_grounds() {
        assert!(Grounds::new(&testing::system().pools[0]).is_none());
    }

    #[test]
    fn numbers_fall_into_their_octaves_and_quarters() {
        assert_eq!(
            [1, 2, 3, 4, 1 << 40].map(|n| octave(n, OCTAVES)),
            [0, 1, 1, 2, 19]
        );
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|n| quarter(n, BATCHES)),
            [0, 4, 6, 8, 9, 10, 11, 12, 12, 13]
        );
    }
}
