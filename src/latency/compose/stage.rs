//! What depends on token counts alone, tabulated per pipeline stage.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::kernels::Kernels;
use super::operators::{Operators, total};
use super::{CURVES, TABLE};

/// Kernel times of one stage without attention, by number of tokens and of sampled rows.
#[derive(Debug)]
pub(super) struct StageCost {
    index: u32,
    /// Layers, embedding and the way to the next stage, by tokens of a rank.
    tokens: Table,
    /// Routed experts by tokens of all ranks; with the rest where there is one rank.
    experts: Option<Table>,
    /// LM head by rows.
    head: Table,
}

/// Seconds by a whole number, each asked for once: a short run sees a few of thousands.
#[derive(Debug)]
struct Table(Box<[AtomicU64]>);

/// The bits of a number that no time is.
const UNKNOWN: u64 = f64::NAN.to_bits();

impl Table {
    fn new(most: usize) -> Self {
        Self((0..=most).map(|_| AtomicU64::new(UNKNOWN)).collect())
    }

    /// The seconds of `i`, from `seconds` where they are not here.
    #[inline]
    fn get(&self, i: u64, seconds: impl Fn(u64) -> f64) -> f64 {
        let Some(place) = usize::try_from(i).ok().and_then(|at| self.0.get(at)) else {
            return seconds(i);
        };
        // Whoever is first: times are pure, so that two threads write the same.
        let known = place.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return f64::from_bits(known);
        }
        let seconds = seconds(i);
        place.store(seconds.to_bits(), Ordering::Relaxed);
        seconds
    }
}

impl StageCost {
    /// Makes room for the times of stage `index`; `ranked`: whether ranks have tokens of their own.
    pub(super) fn new(index: u32, ranked: bool) -> Self {
        Self {
            index,
            tokens: Table::new(TABLE),
            experts: ranked.then(|| Table::new(TABLE)),
            head: Table::new(CURVES),
        }
    }

    /// Seconds of the stage's kernels, attention excepted, for `tokens` tokens, of which the fullest rank has `on_rank`, and `rows`
    /// sampled rows.
    pub(super) fn seconds<K: Kernels>(
        &self,
        operators: &Operators<K>,
        (tokens, on_rank): (u64, u64),
        rows: u64,
    ) -> f64 {
        let index = self.index;
        let head = |rows| total(&operators.head(rows, index));
        let experts = |m| experts(operators, m, index);
        let rest = |m| by_tokens(operators, m, index);
        let body = match &self.experts {
            None => self.tokens.get(tokens, |m| rest(m) + experts(m)),
            Some(table) => self.tokens.get(on_rank, rest) + table.get(tokens, experts),
        };
        body + self.head.get(rows, head)
    }
}

#[cold]
fn by_tokens<K: Kernels>(operators: &Operators<K>, tokens: u64, index: u32) -> f64 {
    total(&operators.token_part(tokens, index)) + total(&operators.ends(tokens, index))
}

#[cold]
fn experts<K: Kernels>(operators: &Operators<K>, tokens: u64, index: u32) -> f64 {
    operators
        .experts_part(tokens, index)
        .map_or(0.0, |op| op.seconds())
}
