//! Early reservation: the decode instance is chosen, and its blocks are taken, before a prompt may enter a queue; or only chosen.
//!
//! ```text
//! arrival ─ route (decode) ─ inbound queue ─ blocks reserved ─ route (prefill) ─ prompt ─ link queue ─ transfer ─ ready
//! ```

use super::host::Host;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};

impl Cluster {
    /// Sends what has just arrived to decode instances, to wait for blocks there.
    #[inline(never)]
    pub(super) fn queue_early<H: Host>(&mut self, host: &mut H) {
        for slot in std::mem::take(&mut self.arrivals) {
            if self.is_short(slot) {
                self.route_arrival(slot, host);
                continue;
            }
            self.table[slot].early = true;
            self.queue_for_decode(slot, host);
        }
    }

    /// Lets the requests that got their blocks at this instant enter prefill queues, in order of arrival.
    pub(super) fn route_reserved<H: Host>(&mut self, host: &mut H) {
        if !self.reserved.is_empty() {
            self.route_all_reserved(host);
        }
    }

    #[inline(never)]
    fn route_all_reserved<H: Host>(&mut self, host: &mut H) {
        let mut slots = std::mem::take(&mut self.reserved);
        slots.sort_unstable_by_key(|slot: &SlotId| self.table[*slot].record.id);
        for slot in slots.drain(..) {
            self.route_arrival(slot, host);
        }
        self.reserved = slots;
    }

    /// Notes where a request is to decode once its prompt is done.
    #[inline(never)]
    pub(super) fn assign(&mut self, slot: SlotId, id: InstanceId) {
        let live = &mut self.table[slot];
        live.decode_on = id;
        live.assigned = true;
        let tokens = u64::from(live.handed_over(self.first_token));
        let instance = &mut self.instances[id.index()];
        instance.assigned += 1;
        instance.expected += 1;
        instance.pending_tokens += tokens;
        self.decode.refresh(instance);
    }

    /// Lets a request whose decode instance was chosen at arrival wait there for blocks: its prompt is done.
    #[inline(never)]
    pub(super) fn queue_assigned(&mut self, slot: SlotId) {
        let live = &mut self.table[slot];
        live.assigned = false;
        let id = live.decode_on;
        let instance = &mut self.instances[id.index()];
        instance.assigned -= 1;
        instance.inbound.push_back(slot);
        self.decode.refresh(instance);
        self.mark_dirty(id);
    }

    /// Gives back what was reserved for a request that has ended on its prefill instance.
    pub(super) fn cancel_early<H: Host>(&mut self, host: &mut H) {
        if !self.cancelled.is_empty() {
            self.cancel_all(host);
        }
    }

    #[inline(never)]
    fn cancel_all<H: Host>(&mut self, host: &mut H) {
        while let Some((slot, live)) = self.cancelled.pop() {
            if live.placed {
                self.unplace_ended(&live);
                continue;
            }
            let tokens = u64::from(live.handed_over(self.first_token));
            let id = live.decode_on;
            if let (Some(fabric), true) = (&mut self.fabric, live.fed > 0) {
                // What it has sent early was sent for nothing.
                let _unsent = fabric.withdraw(host.now(), slot);
                self.watch_network(host);
            }
            let instance = &mut self.instances[id.index()];
            instance.expected -= 1;
            instance.pending_tokens -= tokens;
            if live.assigned {
                instance.assigned -= 1;
                self.decode.refresh(instance);
                continue;
            }
            let mut blocks = instance.blocks_of(&live, tokens);
            instance.seqs -= 1;
            // The level before blocks go is the one that stepping would have reached, and who waits for them may find them at the next
            // step.
            instance.report_ended(host);
            instance.cut_run(host);
            blocks -= instance.let_go_there(&live, &self.table);
            instance.give_blocks(blocks, host);
            self.mark_dirty(id);
        }
    }
}
