//! A batch runs until its last sequence is done: request-level scheduling, as in `FasterTransformer`.

use super::prefill_first::PrefillFirst;
use super::{BatchPolicy, InstanceView, StepPlan};

/// Takes whole prompts only when nothing is admitted; the places of sequences that end early stay empty until all have ended
/// (what Orca, OSDI '22 section 3.1, calls request-level scheduling). Tokens are delivered as they come.
#[derive(Debug)]
pub(super) struct RunToCompletion;

impl BatchPolicy for RunToCompletion {
    fn plan(&mut self, view: &InstanceView<'_>, plan: &mut StepPlan) {
        if view.seqs == 0 {
            PrefillFirst.plan(view, plan);
        } else {
            plan.decodes = view.decodes;
        }
    }
}
