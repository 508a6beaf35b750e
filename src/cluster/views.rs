//! Read-only views that the cluster lends to policies.

use super::instance::Instance;
use super::prefix::look_up;
use super::routing::position;
use super::spec::KvReserve;
use super::table::Table;
use crate::ids::{InstanceId, SlotId};
use crate::kv::{BlockPool, PrefixCache};
use crate::policy::batch::{PromptQueue, PromptView};
use crate::policy::router::{ClusterView, least};
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
        let at_least = |i: usize| self.instances[self.ids[i].index()].tokens_before_runs();
        let first = least(self.len(), at_least);
        let mut fewest = (self.tokens(first), first);
        // Where a run in progress stands takes a square root, so it is asked only of those that may have fewer.
        for i in 0..self.len() {
            if i != first && (at_least(i), i) < fewest {
                fewest = fewest.min((self.tokens(i), i));
            }
        }
        debug_assert_eq!(
            fewest.1,
            least(self.len(), |i| self.tokens(i)),
            "one that was not asked has fewer"
        );
        fewest.1
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
