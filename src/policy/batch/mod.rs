//! Batch policies: the contract and the registry.

mod decode_first;
mod mixed;
mod prefill_first;
mod run_to_completion;
mod shared_sm;
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
    /// Whole prompts first, decodes beside them while the step's tokens last (Orca, Splitwise).
    Mixed,
    /// A batch runs to completion before the next one starts (`FasterTransformer`).
    RunToCompletion,
    /// Prompts and decodes at the same time, in two streams that share the GPU (Semi-PD, Nexus, `MuxServe`). For pools that are
    /// multiplexed, and the only rule for those.
    SharedSm {
        /// Whether prompts are cut into chunks.
        chunks: bool,
    },
}

impl BatchRule {
    /// Whether a plan may name fewer decodes than are ready. Their order is kept only then.
    #[must_use]
    pub const fn leaves_decodes_out(self) -> bool {
        matches!(self, Self::Mixed)
    }

    /// Makes the policy. Adding one: a file beside this one, a variant and a line here.
    #[must_use]
    pub fn build(self) -> Box<dyn BatchPolicy> {
        match self {
            Self::PrefillFirst => Box::new(prefill_first::PrefillFirst),
            Self::DecodeFirst => Box::new(decode_first::DecodeFirst),
            Self::Mixed => Box::new(mixed::Mixed),
            Self::RunToCompletion => Box::new(run_to_completion::RunToCompletion),
            Self::SharedSm { chunks } => Box::new(shared_sm::SharedSm { chunks }),
        }
    }
}

/// Limits on one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepLimits {
    /// Most tokens in a step: prompt tokens for `prefill_first`, prompts and decodes together for `decode_first` and `mixed`.
    /// A single longer prompt still goes, alone, where prompts are not chunked.
    pub max_step_tokens: u32,
    /// Most prompts in a step.
    pub max_step_prompts: u32,
    /// Most sequences admitted on the instance at a time (prefilling and decoding).
    pub max_seqs: u32,
    /// Most context tokens (each sequence's context plus the new token) in a decode step; sequences beyond it
    /// take turns, first in first out. `None`: no cap.
    pub max_decode_context: Option<u64>,
    /// Cap of long prompts in progress; `None`: no cap.
    pub long_prompts: Option<LongPrompts>,
}

/// How many long prompts may be in progress at a time, so that shorter ones pass them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrompts {
    /// A prompt of more tokens is long.
    pub above: u32,
    /// Most of them in a step, at least 1.
    pub most: u32,
    /// Whether one that will decode elsewhere may interrupt decodes by itself. If not, decodes go on while nothing but such prompts
    /// waits, until their batch changes: a sequence ends or joins, or another prompt comes. On instances of one pipeline
    /// stage; of others, each step is another batch.
    pub interrupts: bool,
}

/// Counts the long prompts of a step against their cap.
struct LongCap(Option<(u32, u32)>);

impl LongCap {
    fn new(view: &InstanceView<'_>) -> Self {
        let mut cap = Self(view.limits.long_prompts.map(|long| (long.above, long.most)));
        if cap.0.is_some() {
            let mut index = 0;
            while let Some(prompt) = view.partial.get(index) {
                cap.count(&prompt);
                index += 1;
            }
        }
        cap
    }

    /// Whether this prompt is one too many.
    fn bars(&self, prompt: &PromptView) -> bool {
        matches!(self.0, Some((above, 0)) if prompt.length > above)
    }

    /// Takes note that this prompt is in progress.
    fn count(&mut self, prompt: &PromptView) {
        if let Some((above, left)) = &mut self.0
            && prompt.length > *above
        {
            *left = left.saturating_sub(1);
        }
    }
}

/// A prompt as a batch policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptView {
    /// Tokens in all.
    pub length: u32,
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
    /// The `index`-th waiting prompt, admitted with its first `tokens`.
    Waiting {
        /// Position in the view's `waiting`, larger than that of the pick before.
        index: usize,
        /// Tokens to compute, at least 1.
        tokens: u32,
    },
}

/// The step a policy wants.
#[derive(Debug, Clone, Default)]
pub struct StepPlan {
    /// Prompt work, partial prompts before waiting ones.
    pub picks: Vec<Pick>,
    /// How many of the ready sequences decode in this step, first in first out; the others wait and keep their KV blocks. Fewer
    /// than there are only if [`BatchRule::leaves_decodes_out`] says so.
    pub decodes: u32,
}

/// Forms the steps of one instance.
///
/// Called when the first stage, or one of two streams, is idle and something changed; not necessarily where no prompt waits or is in
/// progress and no sequence is ready. Contract: a pure function of the view; picks from the queue's front without gaps (but for long
/// prompts above their cap); admits no waiting prompt when sequences decode and `decode_blocks > free_blocks` (the instance then preempts,
/// latest first); leaves no runnable work unpicked when it picks nothing (law L6). While a decode-only batch stays as it is, free blocks only
/// shrink and the plan must stay decode-only: this is what lets a run of steps be evaluated at once.
pub trait BatchPolicy: Debug + Send {
    /// Writes the next step into `plan`, which comes in empty.
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan);
}
