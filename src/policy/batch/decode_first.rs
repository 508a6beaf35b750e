//! Decodes first, prompts in chunks: stall-free batching of Sarathi-Serve (OSDI '24, algorithm 3) and vLLM V1.

use super::{BatchPolicy, InstanceView, LongCap, Pick, StepPlan};

/// Gives each ready sequence its token, then fills the step's token budget with prompt chunks, first come first served.
#[derive(Debug)]
pub(super) struct DecodeFirst;

impl BatchPolicy for DecodeFirst {
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan) {
        let limits = view.limits;
        plan.decodes = view.decodes;
        let mut tokens = limits.max_step_tokens.saturating_sub(view.decodes);
        let mut prompts = limits.max_step_prompts;
        let mut index = 0;
        while tokens > 0
            && prompts > 0
            && let Some(prompt) = view.partial.get(index)
        {
            let chunk = prompt.remaining.min(tokens);
            plan.picks.push(Pick::Partial {
                index,
                tokens: chunk,
            });
            tokens -= chunk;
            prompts -= 1;
            index += 1;
        }
        // Decodes that do not find their blocks preempt; nothing is admitted in the same step.
        let Some(free) = view.free_blocks.checked_sub(view.decode_blocks) else {
            return;
        };
        let mut free = free.saturating_sub(view.watermark_blocks);
        let mut seats = limits.max_seqs.saturating_sub(view.seqs);
        let mut long = LongCap::new(view);
        let mut index = 0;
        while tokens > 0
            && prompts > 0
            && seats > 0
            && let Some(prompt) = view.waiting.get(index)
        {
            if long.bars(&prompt) {
                index += 1;
                continue;
            }
            if prompt.blocks > free {
                break;
            }
            let chunk = prompt.remaining.min(tokens);
            plan.picks.push(Pick::Waiting {
                index,
                tokens: chunk,
            });
            long.count(&prompt);
            tokens -= chunk;
            free -= prompt.blocks;
            prompts -= 1;
            seats -= 1;
            index += 1;
        }
    }
}
