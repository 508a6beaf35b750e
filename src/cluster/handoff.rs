//! The hand-off of a request from its prefill to its decode instance.
//!
//! ```text
//! prompt done ─ route ─ inbound queue ─ blocks reserved ─ link queue ─ transfer ─ ready to decode
//!               (KV blocks stay pinned on the prefill instance up to here ──────┘)
//! ```

use super::host::Host;
use super::spec::Overlap;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};
use crate::units::SimDuration;

impl Cluster {
    /// Chooses decode instances for the prompts that are done.
    pub(super) fn route_handoffs<H: Host>(&mut self, host: &mut H) {
        for i in 0..self.handoffs.len() {
            let slot = self.handoffs[i];
            if self.table[slot].early {
                self.send_reserved(slot, host);
                continue;
            }
            if self.table[slot].assigned {
                self.queue_assigned(slot);
            } else {
                self.queue_for_decode(slot, host);
            }
            let live = &mut self.table[slot];
            live.record.decode_instance.get_or_insert(live.decode_on);
            live.to_compute = live.handed_over(self.first_token);
        }
        self.handoffs.clear();
    }

    /// Chooses the decode instance of a request, which waits there for blocks: when its prompt is done or, with an early
    /// reservation, before it begins.
    pub(super) fn queue_for_decode<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let chosen = self
            .decode
            .choose(&self.table, slot, &mut self.instances, now);
        let live = &mut self.table[slot];
        live.decode_on = chosen;
        let instance = &mut self.instances[chosen.index()];
        instance.inbound.push_back(slot);
        instance.early += u64::from(live.early);
        instance.expected += 1;
        instance.pending_tokens += u64::from(live.handed_over(self.first_token));
        self.decode.refresh(instance);
        self.mark_dirty(chosen);
    }

    /// Reserves blocks for the sequences routed to `id`, in order, while they fit, and sends their KV caches.
    ///
    /// Preempted sequences go first: nothing is reserved while one waits.
    pub(super) fn admit_inbound<H: Host>(&mut self, id: InstanceId, host: &mut H) {
        let now = host.now();
        loop {
            let instance = &mut self.instances[id.index()];
            let pool = &self.pools[instance.pool.index()];
            let Some(&slot) = instance.inbound.front() else {
                return;
            };
            if !instance.waiting.is_empty()
                || !instance.swapped.is_empty()
                || instance.seqs >= pool.limits.max_seqs
            {
                return;
            }
            let live = &self.table[slot];
            let (early, context) = if live.early {
                (true, live.handed_over(self.first_token))
            } else {
                (false, live.to_compute)
            };
            let found = instance.find_there(slot, u64::from(context), &self.table, now);
            let blocks = found.blocks;
            let watermark = if instance.seqs == 0 {
                0
            } else {
                pool.kv.watermark_blocks
            };
            if instance.kv.is_limited() && blocks + watermark > instance.kv.free() {
                if blocks + watermark > instance.free_before(now) {
                    return;
                }
                // The run in progress holds blocks for steps that have not started.
                instance.cut_run(host);
            }
            instance.inbound.pop_front();
            instance.seqs += 1;
            instance.hold_there(slot, found, &mut self.table, host);
            if early {
                instance.early -= 1;
                self.reserved.push(slot);
            } else {
                self.send(slot, (0, SimDuration::ZERO), host);
            }
        }
    }

    /// Sends the KV cache of a request whose blocks were reserved early.
    fn send_reserved<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let live = &mut self.table[slot];
        live.early = false;
        live.record.decode_instance.get_or_insert(live.decode_on);
        live.to_compute = live.handed_over(self.first_token);
        let ahead = self.sent_ahead(slot, host.now());
        if self.fabric.is_some() && self.transfer.overlap != Overlap::None {
            self.watch_network(host);
        }
        self.send(slot, ahead, host);
    }
}
