//! Prompts and decodes in steps of their own at the same time: Semi-PD (arXiv 2504.19867), Nexus (arXiv 2507.06608), and the two phases
//! of a model in `MuxServe` (arXiv 2404.02015).

use super::decode_first::DecodeFirst;
use super::prefill_first::PrefillFirst;
use super::{BatchPolicy, InstanceView, StepPlan};

/// The prefill stream takes prompts, first come first served, while there are blocks beyond those that the ready sequences need for
/// their next token; the decode stream takes all of these.
///
/// What the view shows is what the idle streams may take: no prompts while a prefill step is in progress, no decodes while a
/// decode step is. The picks are the next prefill step, `decodes` start the next decode step.
#[derive(Debug)]
pub(super) struct SharedSm {
    /// Prompts are cut into chunks of a step's tokens.
    pub(super) chunks: bool,
}

impl BatchPolicy for SharedSm {
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan) {
        let left = view.free_blocks.checked_sub(view.decode_blocks);
        let prompts = InstanceView {
            decodes: 0,
            decode_blocks: 0,
            free_blocks: left.unwrap_or(0),
            // Decodes that do not find their blocks preempt; nobody is admitted meanwhile.
            seqs: left.map_or(view.limits.max_seqs, |_| view.seqs),
            ..*view
        };
        if self.chunks {
            DecodeFirst.plan(&prompts, plan);
        } else {
            PrefillFirst.plan(&prompts, plan);
        }
        plan.decodes = view.decodes;
    }
}
