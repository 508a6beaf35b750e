//! KV caches on their way.
//!
//! ```text
//! link queue ─ posting (base + blocks × c) ─ bytes flow (link of its own, or a share of the network) ─ arrived
//! ```

use super::host::Host;
use super::observer::Observer;
use super::spec::Overlap;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};
use crate::net::Shipment;
use crate::units::{SimDuration, SimTime};

impl Cluster {
    /// Queues the transfer of a request's KV cache on its prefill instance's link; `ahead` tokens of it have been sent.
    pub(super) fn send<H: Host>(&mut self, slot: SlotId, ahead: u64, host: &mut H) {
        let live = &self.table[slot];
        let from = live.prefill_on;
        let instance = &mut self.instances[from.index()];
        let per_token = self.pools[instance.pool.index()].kv.bytes_per_token;
        let tokens = u64::from(live.computed);
        let blocks = instance.kv.blocks_for(tokens - ahead);
        let posting = self.transfer.per_block.as_ps().saturating_mul(blocks);
        instance.link.push(Shipment {
            slot,
            bytes: tokens * per_token,
            left: (tokens - ahead) * per_token,
            posting: SimDuration::from_ps(self.transfer.base.as_ps().saturating_add(posting)),
        });
        self.start_transfers(from, host);
    }

    /// Whole tokens of a prompt's KV cache that its idle link has sent while the rest was being computed.
    pub(super) fn sent_ahead(&mut self, slot: SlotId, prompt: u32, now: SimTime) -> u64 {
        let live = &self.table[slot];
        let kept = match self.transfer.overlap {
            Overlap::None => return 0,
            Overlap::Chunk => live.last_chunk,
            Overlap::Layerwise { layers } => live.last_chunk.div_ceil(layers),
        };
        let instance = &mut self.instances[live.prefill_on.index()];
        let per_token = self.pools[instance.pool.index()].kv.bytes_per_token;
        let most = u64::from(prompt - kept) * per_token;
        instance
            .link
            .send_ahead(live.kv_since, now, most)
            .checked_div(per_token)
            .unwrap_or(0)
    }

    /// Starts what the link of `from` may start; transfers that take no time end at once.
    fn start_transfers<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        let now = host.now();
        let shares = self.fabric.is_some();
        while let Some(next) = self.instances[from.index()].link.start_next() {
            let record = &mut self.table[next.slot].record;
            // A sequence that was preempted and computed again may travel again; its history keeps what was before its first token.
            if record.transfer_start == SimTime::NEVER && record.decode_start == SimTime::NEVER {
                record.transfer_start = now;
            }
            let to = self.table[next.slot].decode_on;
            host.observer().transfer_started(now, from, to, next.bytes);
            let link = &self.instances[from.index()].link;
            let wire = if shares {
                SimDuration::ZERO
            } else {
                link.wire(next.left)
            };
            let end = now.saturating_add(next.posting).saturating_add(wire);
            if end > now {
                host.schedule(self.instances[from.index()].link_lane, end);
                return;
            }
            self.leave_link(from, host);
        }
    }

    /// The link of `from` is done with what it did: start the next.
    pub(super) fn end_on_link<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        self.leave_link(from, host);
        self.start_transfers(from, host);
    }

    /// What was on the link has arrived or, where a network is shared, was posted.
    fn leave_link<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        let now = host.now();
        let link = &mut self.instances[from.index()].link;
        if let Some(fabric) = &mut self.fabric {
            let Shipment { slot, left, .. } = link.launch();
            fabric.start(now, slot, from, self.table[slot].decode_on, left);
            host.schedule(self.fabric_lane, fabric.next_end());
        } else {
            let slot = link.end(now).slot;
            self.arrive_at_decode(slot, host);
        }
    }

    /// Bytes have ended flowing in the network.
    pub(super) fn end_in_fabric<H: Host>(&mut self, host: &mut H) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let ended = fabric.end_due(host.now());
        let next = fabric.next_end();
        if next != SimTime::NEVER {
            host.schedule(self.fabric_lane, next);
        }
        for slot in ended {
            let from = self.table[slot].prefill_on;
            self.instances[from.index()].link.land();
            self.arrive_at_decode(slot, host);
            self.start_transfers(from, host);
        }
    }

    /// The KV cache has arrived: the source's blocks are free, the sequence may decode.
    fn arrive_at_decode<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let live = &mut self.table[slot];
        let (from, to) = (live.prefill_on, live.decode_on);
        let tokens = u64::from(live.computed);
        let record = &mut live.record;
        if record.transfer_start != SimTime::NEVER && record.transfer_end == SimTime::NEVER {
            record.transfer_end = now;
        }
        let source = &mut self.instances[from.index()];
        let bytes = tokens * self.pools[source.pool.index()].kv.bytes_per_token;
        source.handing_off -= 1;
        // Where sequences decode beside prompts: the level before blocks go is the one that stepping would have reached, and who
        // waits for blocks may find them at the next step.
        source.report_ended(host);
        source.cut_run(host);
        source.give_up(slot, tokens, &mut self.table, host);
        self.table[slot].hands_off = false;
        self.mark_dirty(from);
        host.observer().transfer_ended(now, from, to, bytes);
        self.instances[to.index()].add_joiner(slot, host);
        self.mark_dirty(to);
    }
}
