//! Sequences counted by residue class of their context modulo the block size.

use super::in_blocks;

/// How many sequences of a batch have which `phase`: `(context − step counter) mod block`, constant while they decode.
///
/// At step counter `s`, the sequences that need a new block are those of phase `−s mod block`.
#[derive(Debug, Clone)]
pub struct Residues {
    counts: Vec<u32>,
    total: u32,
}

impl Residues {
    /// No sequences, for blocks of `block_tokens`.
    #[must_use]
    pub fn new(block_tokens: u32) -> Self {
        Self {
            counts: vec![0; block_tokens as usize],
            total: 0,
        }
    }

    /// The phase of a sequence that holds `context` tokens at step counter `steps`.
    ///
    /// # Panics
    /// Never: a remainder of the block size, which is a `u32`, fits one.
    #[must_use]
    pub fn phase(&self, context: u64, steps: u64) -> u32 {
        let block = self.counts.len() as u64;
        let (_, into) = in_blocks(steps, block);
        let (_, phase) = in_blocks(context + block - into, block);
        u32::try_from(phase).expect("below the block size, a u32")
    }

    /// Counts a sequence in.
    pub fn add(&mut self, phase: u32) {
        self.counts[phase as usize] += 1;
        self.total += 1;
    }

    /// Counts a sequence out.
    pub fn remove(&mut self, phase: u32) {
        self.counts[phase as usize] -= 1;
        self.total -= 1;
    }

    /// Blocks needed by the one step that starts at step counter `steps`.
    #[must_use]
    pub fn need_at(&self, steps: u64) -> u64 {
        u64::from(self.counts[self.class_at(steps)])
    }

    /// Blocks needed by the `count` steps that start at step counters `steps`, `steps + 1`, ….
    #[must_use]
    pub fn need(&self, steps: u64, count: u64) -> u64 {
        let (cycles, over) = in_blocks(count, self.counts.len() as u64);
        let rest = self.sum_from(self.class_at(steps), index(over));
        cycles * u64::from(self.total) + u64::from(rest)
    }

    /// Sequences in `classes` classes from `first` on downwards; behind the lowest comes the highest.
    fn sum_from(&self, first: usize, classes: usize) -> u32 {
        let block = self.counts.len();
        if block > MASKED || !block.is_power_of_two() {
            let below = (first + 1).saturating_sub(classes);
            let top = block - (classes - (first + 1 - below));
            let sum = |counts: &[u32]| counts.iter().sum::<u32>();
            return sum(&self.counts[below..=first]) + sum(&self.counts[top..]);
        }
        let narrow = |n: usize| u32::try_from(n).expect("at most 64");
        let (first, classes, mask) = (narrow(first), narrow(classes), narrow(block) - 1);
        let mut sum = 0;
        for (class, &n) in (0u32..).zip(&self.counts) {
            let taken = first.wrapping_sub(class) & mask < classes;
            sum += n & u32::from(taken).wrapping_neg();
        }
        sum
    }

    /// The phase of the sequences that need a block for the step that starts at step counter `steps`.
    fn class_at(&self, steps: u64) -> usize {
        let block = self.counts.len();
        let (_, into) = in_blocks(steps, block as u64);
        if into == 0 { 0 } else { block - index(into) }
    }

    /// Blocks needed by the steps from step counter `steps` on, for one cycle: the classes run downwards.
    fn classes_from(&self, steps: u64) -> impl Iterator<Item = u64> {
        let (below, above) = self.counts.split_at(self.class_at(steps) + 1);
        let order = below.iter().rev().chain(above.iter().rev());
        order.map(|&sequences| u64::from(sequences))
    }

    /// How many steps from step counter `steps`, at most `limit`, find their blocks among `free`.
    #[must_use]
    pub fn steps_within(&self, steps: u64, limit: u64, free: u64) -> u64 {
        let block = self.counts.len() as u64;
        let total = u64::from(self.total);
        // Any `block` steps in a row take one block per sequence; where a cycle more than needed does not fit, the count below tells.
        if total == 0
            || in_blocks(limit, block)
                .0
                .saturating_add(1)
                .saturating_mul(total)
                <= free
        {
            return limit;
        }
        let cycles = free / total;
        let mut left = free - cycles * total;
        let mut fits = cycles * block;
        for need in self.classes_from(steps + fits) {
            if fits >= limit || need > left {
                break;
            }
            left -= need;
            fits += 1;
        }
        fits.min(limit)
    }
}

/// Up to so many classes are summed all, under a mask: how many of them count is nothing that a processor could guess, and a wrong guess costs
/// more than looking at all. With 16 classes that took 5 to 10 % off whole simulations (`docs/performance.md`).
const MASKED: usize = 64;

/// A number of classes, or what is left over of one.
fn index(number: u64) -> usize {
    usize::try_from(number).expect("at most the block size, a u32")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof, proptest};

    fn contexts() -> impl Strategy<Value = (u32, u64, Vec<u64>)> {
        (
            // Few and many classes, powers of two and others.
            prop_oneof![1u32..20, Just(64), Just(100), Just(128)],
            0u64..100,
            proptest::collection::vec(0u64..200, 1..12),
        )
    }

    proptest! {
        #[test]
        fn closed_form_counts_as_stepping_does((block, steps, contexts) in contexts(), limit in 1u64..200, free in 0u64..120) {
            let mut residues = Residues::new(block);
            for &context in &contexts {
                residues.add(residues.phase(context, steps));
            }
            let step_need = |i: u64| contexts.iter().filter(|&&c| (c + i).is_multiple_of(u64::from(block))).count() as u64;
            let (mut fits, mut left) = (0, free);
            while fits < limit && step_need(fits) <= left {
                left -= step_need(fits);
                fits += 1;
            }
            prop_assert_eq!(residues.steps_within(steps, limit, free), fits);
            // Also when the sequences have moved on: classes stay, the counter does not.
            for i in 0..2 * u64::from(block) {
                prop_assert_eq!(residues.need_at(steps + i), step_need(i));
                prop_assert_eq!(residues.need(steps + i, limit), (i..i + limit).map(step_need).sum::<u64>());
            }
            prop_assert_eq!(residues.steps_within(steps, u64::MAX, u64::MAX), u64::MAX);
        }
    }
}
