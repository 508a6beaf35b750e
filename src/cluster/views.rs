//! Read-only views that the cluster lends to policies.

use super::instance::Instance;
use super::prefix::look_up;
use super::spec::KvReserve;
use super::table::Table;
use crate::ids::{InstanceId, SlotId};
use crate::kv::{BlockPool, PrefixCache};
use crate::policy::batch::{PromptQueue, PromptView};
use crate::policy::router::{ClusterView, least, least_bounded};
use crate::tournament::Tournament;
use crate::units::SimTime;

/// Prompts that wait for admission.
pub(super) struct Waiting<'a> {
    pub(super) queue: &'a std::collections::VecDeque<SlotId>,
    pub(super) table: &'a Table,
    pub(super) kv: &'a BlockPool,
    pub(super) reserve: KvReserve,
    /// Whether nobody is admitted at present.
    pub(super) closed: bool,
    pub(super) prefix: Option<&'a PrefixCache>,
}

impl PromptQueue for Waiting<'_> {
    fn get(&self, i: usize) -> Option<PromptView> {
        if self.closed {
            return None;
        }
        let slot = *self.queue.get(i)?;
        let found = look_up(self.prefix, self.kv, self.reserve, self.table, slot);
        let live = &self.table[slot];
        Some(PromptView {
            length: live.to_compute,
            remaining: live.to_compute - found.cached_tokens,
            blocks: found.blocks,
        })
    }
}

/// Admitted prompts that are not complete.
pub(super) struct Partial<'a> {
    pub(super) queue: &'a [SlotId],
    pub(super) table: &'a Table,
}

impl PromptQueue for Partial<'_> {
    fn get(&self, i: usize) -> Option<PromptView> {
        let live = &self.table[*self.queue.get(i)?];
        Some(PromptView {
            length: live.to_compute,
            remaining: live.to_compute - live.computed,
            blocks: 0,
        })
    }
}

/// The instances a router may choose from, at one instant.
pub(super) struct Candidates<'a> {
    pub(super) now: SimTime,
    pub(super) ids: &'a [InstanceId],
    pub(super) instances: &'a [Instance],
    pub(super) table: &'a Table,
    /// The request to route.
    pub(super) slot: SlotId,
    pub(super) phase: Phase,
    /// Queue lengths by position, if the router asks for the shortest.
    pub(super) shortest: Option<&'a Tournament<u64>>,
}

/// Where `id` stands in `ids`, which ascend: nearly always without a gap.
pub(super) fn position(ids: &[InstanceId], id: InstanceId) -> Option<usize> {
    let guess = id.index().checked_sub(ids.first()?.index())?;
    if ids.get(guess) == Some(&id) {
        return Some(guess);
    }
    ids.binary_search(&id).ok()
}

/// Which phase is being routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Prefill,
    Decode,
}

impl ClusterView for Candidates<'_> {
    fn len(&self) -> usize {
        self.ids.len()
    }

    fn id(&self, i: usize) -> InstanceId {
        self.ids[i]
    }

    fn position(&self, id: InstanceId) -> Option<usize> {
        position(self.ids, id)
    }

    fn queued(&self, i: usize) -> u64 {
        self.instances[self.ids[i].index()].queued(self.phase)
    }

    fn least_queued(&self) -> usize {
        match self.shortest {
            Some(tree) => {
                let (_, shortest) = tree.least();
                debug_assert_eq!(
                    shortest,
                    least(self.len(), |i| self.queued(i)),
                    "a queue changed and the tree was not told"
                );
                shortest
            }
            None => least(self.len(), |i| self.queued(i)),
        }
    }

    fn tokens(&self, i: usize) -> u64 {
        self.instances[self.ids[i].index()].tokens_at(self.now)
    }

    fn least_tokens(&self) -> usize {
        // Where a run in progress stands takes a square root.
        let at_least = |i: usize| self.instances[self.ids[i].index()].tokens_before_runs();
        least_bounded(self.len(), at_least, |i| self.tokens(i))
    }

    fn requests(&self, i: usize) -> u64 {
        self.instances[self.ids[i].index()].requests()
    }

    fn kv_share(&self, i: usize) -> u64 {
        self.instances[self.ids[i].index()].kv_share_before(self.now)
    }

    fn prompt_tokens(&self, i: usize) -> u64 {
        self.instances[self.ids[i].index()].pending_tokens
    }

    fn cached_tokens(&self, i: usize) -> u64 {
        let instance = &self.instances[self.ids[i].index()];
        let found = look_up(
            instance.prefix.as_ref(),
            &instance.kv,
            instance.reserve,
            self.table,
            self.slot,
        );
        u64::from(found.cached_tokens)
    }

    fn cached_blocks(&self, i: usize) -> u64 {
        let instance = &self.instances[self.ids[i].index()];
        instance.prefix.as_ref().map_or(0, PrefixCache::cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_with_and_without_gaps() {
        let ids = [3, 4, 6, 9].map(InstanceId::new);
        let at = |id: usize| position(&ids, InstanceId::new(id));
        let all: Vec<_> = (2..=10).map(at).collect();
        assert_eq!(
            all,
            [
                None,
                Some(0),
                Some(1),
                None,
                Some(2),
                None,
                None,
                Some(3),
                None
            ]
        );
        assert_eq!(position(&[], InstanceId::new(0)), None);
    }
}
