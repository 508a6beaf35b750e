//! Routing of one phase: the router and what it may choose from.

use super::instance::Instance;
use super::table::Table;
use super::views::{Candidates, Phase};
use crate::ids::{InstanceId, SlotId};
use crate::policy::router::{RequestView, Router, RouterRule};
use crate::rng::stream;
use crate::tournament::Tournament;
use crate::units::SimTime;

/// Where the requests of a phase may go, and who decides.
#[derive(Debug)]
pub(super) struct Routing {
    phase: Phase,
    ids: Vec<InstanceId>,
    router: Box<dyn Router>,
    /// Queue lengths by position, kept for the router that asks for the shortest.
    shortest: Option<Tournament<u64>>,
    /// Whether the router asks what prefix caches hold.
    looks_into_caches: bool,
}

impl Routing {
    /// `ids` in ascending order; every queue is empty. `seed` is the run's.
    pub(super) fn new(phase: Phase, ids: Vec<InstanceId>, rule: RouterRule, seed: u64) -> Self {
        let shortest = (rule == RouterRule::LeastQueued).then(|| {
            let mut tree = Tournament::new(ids.len(), u64::MAX);
            (0..ids.len()).for_each(|i| tree.set(i, 0));
            tree
        });
        let purpose = match phase {
            Phase::Prefill => "prefill routing",
            Phase::Decode => "decode routing",
        };
        Self {
            phase,
            ids,
            router: rule.build(stream(seed, purpose)),
            shortest,
            looks_into_caches: rule.looks_into_caches(),
        }
    }

    /// Whether there is anything to choose from.
    pub(super) fn is_used(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Chooses an instance.
    pub(super) fn choose(
        &mut self,
        table: &Table,
        slot: SlotId,
        instances: &mut [Instance],
        now: SimTime,
    ) -> InstanceId {
        if self.looks_into_caches {
            for id in &self.ids {
                instances[id.index()].trim_prefix_at(now);
            }
        }
        let live = &table[slot];
        let request = RequestView {
            input_tokens: live.record.input_tokens,
            max_output: live.max_output,
            class: live.record.class,
            session: live.session,
        };
        let view = Candidates {
            now,
            ids: &self.ids,
            instances,
            table,
            slot,
            phase: self.phase,
            shortest: self.shortest.as_ref(),
        };
        self.ids[self.router.route(&request, &view)]
    }

    /// Takes note that the queue of `instance` may have changed. To be called before the next choice.
    pub(super) fn refresh(&mut self, instance: &Instance) {
        if let Some(tree) = &mut self.shortest
            && let Ok(position) = self.ids.binary_search(&instance.id)
        {
            tree.set(position, instance.queued(self.phase));
        }
    }
}
