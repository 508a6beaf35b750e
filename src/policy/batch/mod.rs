//! Batch policies: the contract and the registry.

mod decode_first;
mod prefill_first;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

/// Which batch policy a pool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// Whole prompts first; decodes stall behind them (Orca, vLLM V0). The rule of prefill pools, which have no decodes, and of
    /// decode pools, whose only prompts are sequences to recompute after a preemption.
    PrefillFirst,
    /// Decodes first, prompts cut into chunks that fill the rest of the step's tokens (Sarathi-Serve, vLLM V1).
    DecodeFirst,
}

impl BatchRule {
    /// Makes the policy. Adding one: a file beside this one, a variant and a line here.
    #[must_use]
    pub fn build(self) -> Box<dyn BatchPolicy> {
        match self {
            Self::PrefillFirst => Box::new(prefill_first::PrefillFirst),
            Self::DecodeFirst => Box::new(decode_first::DecodeFirst),
        }
    }
}

/// Limits on one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// Most tokens in a step: prompt tokens for `prefill_first`, prompt chunks and decodes together for `decode_first`.
    /// A single longer prompt still goes, alone, where prompts are not chunked.
    pub max_step_tokens: u32,
    /// Most prompts in a step.
    pub max_step_prompts: u32,
    /// Most sequences admitted on the instance at a time (prefilling and decoding).
    pub max_seqs: u32,
    /// Most context tokens (each sequence's context plus the new token) in a decode step; sequences beyond it
    /// take turns, first in first out. `None`: no cap.
    pub max_decode_context: Option<u64>,
}

/// A prompt as a batch policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptView {
    /// Tokens still to compute.
    pub remaining: u32,
    /// KV blocks it needs to be admitted (0 once it is).
    pub blocks: u64,
}

/// Prompts in queue order, looked at by position so that a plan costs what it takes, not what waits.
pub trait PromptQueue {
    /// The `i`-th prompt, `None` past the end.
    fn get(&self, i: usize) -> Option<PromptView>;
}

/// What a batch policy sees of an instance whose first pipeline stage is idle.
#[expect(
    missing_debug_implementations,
    reason = "borrows trait objects for the length of one plan"
)]
pub struct InstanceView<'a> {
    /// Prompts not admitted yet (new ones and preempted ones, which stand in front).
    pub waiting: &'a dyn PromptQueue,
    /// Admitted prompts with tokens still to compute.
    pub partial: &'a dyn PromptQueue,
    /// Sequences ready to decode.
    pub decodes: u32,
    /// KV blocks those sequences need for their next token.
    pub decode_blocks: u64,
    /// Free KV blocks (`u64::MAX` when unlimited).
    pub free_blocks: u64,
    /// Blocks that admissions leave free.
    pub watermark_blocks: u64,
    /// Sequences admitted.
    pub seqs: u32,
    /// Limits on the step.
    pub limits: StepLimits,
}

/// A prompt (or a piece of it) chosen for a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// `tokens` of the `index`-th admitted prompt.
    Partial {
        /// Position in the view's `partial`.
        index: usize,
        /// Tokens to compute, at least 1.
        tokens: u32,
    },
    /// The next waiting prompt (in queue order), admitted with its first `tokens`.
    Waiting {
        /// Tokens to compute, at least 1.
        tokens: u32,
    },
}

/// The step a policy wants.
#[derive(Debug, Clone, Default)]
pub struct StepPlan {
    /// Prompt work, partial prompts before waiting ones.
    pub picks: Vec<Pick>,
    /// Whether the ready sequences decode in this step.
    pub decode: bool,
}

/// Forms the steps of one instance.
///
/// Called whenever the first stage is idle and something changed. Contract: a pure function of the view; picks from the queue's front
/// without gaps; admits no waiting prompt when `decode` is set and `decode_blocks > free_blocks` (the instance then
/// preempts, latest first); leaves no runnable work unpicked when it picks nothing (law L6). While a decode-only batch stays as it is,
/// free blocks only shrink and the plan must stay decode-only: this is what lets a run of steps be evaluated at once.
pub trait BatchPolicy: Debug + Send {
    /// Writes the next step into `plan`, which comes in empty.
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan);
}
