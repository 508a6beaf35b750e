//! Routing of one phase: the router and what it may choose from.

use super::instance::Instance;
use super::table::Table;
use super::views::{Candidates, Phase, position};
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
        let shortest = (rule == RouterRule::LeastQueued).then(|| tree(ids.len(), |_| 0));
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

    /// Lets requests go to `id`, or no longer.
    pub(super) fn set_open(&mut self, id: InstanceId, open: bool, instances: &[Instance]) {
        match (self.ids.binary_search(&id), open) {
            (Err(at), true) => self.ids.insert(at, id),
            (Ok(at), false) => {
                self.ids.remove(at);
            }
            _ => return,
        }
        if let Some(shortest) = &mut self.shortest {
            let (ids, phase) = (&self.ids, self.phase);
            *shortest = tree(ids.len(), |i| instances[ids[i].index()].queued(phase));
        }
    }

    /// Whether the router asks for the shortest queue.
    pub(super) const fn keeps_queues(&self) -> bool {
        self.shortest.is_some()
    }

    /// Takes note that the queue of `instance` may have changed. To be called before the next choice.
    #[inline]
    pub(super) fn refresh(&mut self, instance: &Instance) {
        if self.keeps_queues() {
            self.note_queue(instance);
        }
    }

    fn note_queue(&mut self, instance: &Instance) {
        if let Some(tree) = &mut self.shortest
            && let Some(position) = position(&self.ids, instance.id)
        {
            tree.set(position, instance.queued(self.phase));
        }
    }
}

/// Queue lengths by position.
fn tree(len: usize, queued: impl Fn(usize) -> u64) -> Tournament<u64> {
    let mut tree = Tournament::new(len, u64::MAX);
    (0..len).for_each(|i| tree.set(i, queued(i)));
    tree
}
