//! Whole prompts first: continuous batching as in Orca (OSDI '22, section 3) and vLLM V0.

use super::{BatchPolicy, InstanceView, LongCap, Pick, StepPlan};

/// Takes whole prompts, first come first served, while they fit; decodes only when none can be taken.
#[derive(Debug)]
pub(super) struct PrefillFirst;

impl BatchPolicy for PrefillFirst {
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan) {
        let limits = view.limits;
        let mut tokens = limits.max_step_tokens;
        let mut free = view.free_blocks.saturating_sub(view.watermark_blocks);
        let mut seats = limits
            .max_seqs
            .saturating_sub(view.seqs)
            .min(limits.max_step_prompts);
        let mut long = LongCap::new(view);
        let mut index = 0;
        while seats > 0
            && let Some(prompt) = view.waiting.get(index)
        {
            if long.bars(&prompt) {
                index += 1;
                continue;
            }
            // A prompt longer than the budget would wait for ever: it goes alone.
            let fits = prompt.remaining <= tokens || plan.picks.is_empty();
            if !fits || prompt.blocks > free {
                break;
            }
            plan.picks.push(Pick::Waiting {
                index,
                tokens: prompt.remaining,
            });
            long.count(&prompt);
            index += 1;
            tokens = tokens.saturating_sub(prompt.remaining);
            free -= prompt.blocks;
            seats -= 1;
        }
        if plan.picks.is_empty() {
            plan.decodes = view.decodes;
        }
    }
}
