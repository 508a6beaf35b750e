//! What depends on token counts alone, tabulated per pipeline stage.

use super::super::kernels::Kernels;
use super::operators::{Operators, total};
use super::{CURVES, TABLE};

/// Kernel times of one stage without attention, by number of tokens and of sampled rows.
#[derive(Debug, Clone)]
pub(super) struct StageCost {
    index: u32,
    /// Layers, embedding and the way to the next stage, by tokens.
    tokens: Box<[f64]>,
    /// LM head by rows.
    head: Box<[f64]>,
}

impl StageCost {
    /// Tabulates stage `index`.
    pub(super) fn new<K: Kernels>(operators: &Operators<K>, index: u32) -> Self {
        Self {
            index,
            tokens: (0..=TABLE as u64)
                .map(|m| by_tokens(operators, m, index))
                .collect(),
            head: (0..=CURVES as u64)
                .map(|r| total(&operators.head(r, index)))
                .collect(),
        }
    }

    /// Seconds of the stage's kernels, attention excepted, for `tokens` tokens and `rows` sampled rows.
    pub(super) fn seconds<K: Kernels>(
        &self,
        operators: &Operators<K>,
        tokens: u64,
        rows: u64,
    ) -> f64 {
        let look_up =
            |table: &[f64], i: u64| usize::try_from(i).ok().and_then(|i| table.get(i)).copied();
        let body = look_up(&self.tokens, tokens)
            .unwrap_or_else(|| by_tokens(operators, tokens, self.index));
        let head =
            look_up(&self.head, rows).unwrap_or_else(|| total(&operators.head(rows, self.index)));
        body + head
    }
}

fn by_tokens<K: Kernels>(operators: &Operators<K>, tokens: u64, index: u32) -> f64 {
    total(&operators.token_part(tokens, index)) + total(&operators.ends(tokens, index))
}
