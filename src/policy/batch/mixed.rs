//! Whole prompts and decodes in one step: selective batching of Orca (OSDI '22, section 3.2), mixed batches of Splitwise.

use super::prefill_first::PrefillFirst;
use super::{BatchPolicy, InstanceView, Pick, StepPlan};

/// Takes whole prompts as [`PrefillFirst`] does and lets the ready sequences decode in the same step, if prompt tokens and decodes
/// together keep to the step's tokens; if not, the prompts go alone.
#[derive(Debug)]
pub(super) struct Mixed;

impl BatchPolicy for Mixed {
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan) {
        // Decodes that do not find their blocks preempt; nothing is admitted in the same step.
        if let Some(free_blocks) = view.free_blocks.checked_sub(view.decode_blocks) {
            let beside_decodes = InstanceView {
                free_blocks,
                ..*view
            };
            PrefillFirst.plan(&beside_decodes, plan);
        }
        let tokens = plan.picks.iter().map(|pick| match *pick {
            Pick::Partial { tokens, .. } | Pick::Waiting { tokens, .. } => u64::from(tokens),
        });
        let all = tokens.sum::<u64>() + u64::from(view.decodes);
        plan.decode = plan.picks.is_empty() || all <= u64::from(view.limits.max_step_tokens);
    }
}
