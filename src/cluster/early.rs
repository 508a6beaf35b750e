//! Early reservation: the decode instance is chosen, and its blocks are taken, before a prompt may enter a queue.
//!
//! ```text
//! arrival ─ route (decode) ─ inbound queue ─ blocks reserved ─ route (prefill) ─ prompt ─ link queue ─ transfer ─ ready
//! ```

use super::host::Host;
use super::state::Cluster;
use crate::ids::SlotId;

impl Cluster {
    /// Sends what has just arrived to decode instances, to wait for blocks there.
    pub(super) fn queue_early<H: Host>(&mut self, host: &mut H) {
        for slot in std::mem::take(&mut self.arrivals) {
            if self.is_short(slot) {
                self.route_arrival(slot, host);
                continue;
            }
            let now = host.now();
            let chosen = self
                .decode
                .choose(&self.table, slot, &mut self.instances, now);
            let live = &mut self.table[slot];
            live.decode_on = chosen;
            live.early = true;
            let tokens = u64::from(live.handed_over(self.first_token));
            let instance = &mut self.instances[chosen.index()];
            instance.inbound.push_back(slot);
            instance.early += 1;
            instance.expected += 1;
            instance.pending_tokens += tokens;
            self.decode.refresh(instance);
            self.mark_dirty(chosen);
        }
    }

    /// Lets the requests that got their blocks at this instant enter prefill queues, in order of arrival.
    pub(super) fn route_reserved<H: Host>(&mut self, host: &mut H) {
        let mut slots = std::mem::take(&mut self.reserved);
        slots.sort_unstable_by_key(|slot: &SlotId| self.table[*slot].record.id);
        for slot in slots.drain(..) {
            self.route_arrival(slot, host);
        }
        self.reserved = slots;
    }

    /// Gives back what was reserved for a request that has ended on its prefill instance.
    pub(super) fn cancel_early<H: Host>(&mut self, host: &mut H) {
        while let Some(live) = self.cancelled.pop() {
            if live.placed {
                self.withdraw_of(&live);
                continue;
            }
            let tokens = u64::from(live.handed_over(self.first_token));
            let id = live.decode_on;
            let instance = &mut self.instances[id.index()];
            let blocks = instance.blocks_of(&live, tokens);
            instance.seqs -= 1;
            instance.expected -= 1;
            instance.pending_tokens -= tokens;
            // The level before blocks go is the one that stepping would have reached, and who waits for them may find them at the next
            // step.
            instance.report_ended(host);
            instance.cut_run(host);
            instance.give_blocks(blocks, host);
            self.mark_dirty(id);
        }
    }
}
