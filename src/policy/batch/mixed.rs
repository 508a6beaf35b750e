//! Whole prompts and decodes in one step: selective batching of Orca (OSDI '22, section 3.2), mixed batches of Splitwise.

use super::prefill_first::PrefillFirst;
use super::{BatchPolicy, InstanceView, Pick, StepPlan};

/// Takes whole prompts as [`PrefillFirst`] does and lets as many of the ready sequences decode in the same step as the step's
/// tokens allow: those first that have waited longest.
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
        let left = u64::from(view.limits.max_step_tokens).saturating_sub(tokens.sum());
        plan.decodes = if plan.picks.is_empty() {
            view.decodes
        } else {
            view.decodes.min(u32::try_from(left).unwrap_or(u32::MAX))
        };
    }
}
