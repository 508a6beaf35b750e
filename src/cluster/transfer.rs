//! KV caches on their way.
//!
//! ```text
//! (copy to host) ─ link queue ─ posting (base + blocks × c) ─ bytes flow (own link, or a share of the network) ─ (copy from host) ─ arrived
//! ```
//!
//! Who pushes posts on the prefill instance, who pulls on the decode instance: there is the queue, and there the transfers in flight
//! are counted. Copies are made where transfers are staged through host memory as a whole.

use super::host::Host;
use super::journey::{Journey, TransferFact};
use super::observer::Observer;
use super::spec::TransferMode;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};
use crate::net::Shipment;
use crate::units::{SimDuration, SimTime};

impl Cluster {
    /// Sends the KV cache of a request on its way; `ahead` tokens of it have been sent.
    pub(super) fn send<H: Host>(&mut self, slot: SlotId, ahead: u64, host: &mut H) {
        let (per_token, held) = (self.sent_per_token(slot), self.held_tokens(slot));
        let travels = u64::from(self.table[slot].computed) - held;
        let tokens = travels - ahead;
        if self.journeys.len() <= slot.index() {
            self.journeys.resize(slot.index() + 1, Journey::NONE);
        }
        self.journeys[slot.index()] = Journey {
            queued: host.now(),
            departed: host.now(),
            bytes: travels * per_token,
            early: ahead * per_token,
            tokens,
            held,
            ..Journey::NONE
        };
        if self.transfer.staging.is_some() {
            self.copy_out(slot, tokens * per_token, host);
        } else {
            self.post(slot, host);
        }
    }

    /// Bytes per token of what travels.
    pub(super) fn sent_per_token(&self, slot: SlotId) -> u64 {
        let from = &self.instances[self.table[slot].prefill_on.index()];
        self.pools[from.pool.index()].kv.bytes_per_token
    }

    fn poster(&self, slot: SlotId) -> InstanceId {
        let live = &self.table[slot];
        match self.transfer.mode {
            TransferMode::Push => live.prefill_on,
            TransferMode::Pull => live.decode_on,
        }
    }

    /// Queues a transfer on its poster's link.
    pub(super) fn post<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let poster = self.poster(slot);
        let journey = &mut self.journeys[slot.index()];
        journey.ready = host.now();
        let (tokens, bytes) = (journey.tokens, journey.late());
        let live = &self.table[slot];
        // A descriptor moves no more than a block of either side.
        let [from, to] = [live.prefill_on, live.decode_on].map(|id| &self.instances[id.index()].kv);
        let blocks = from.blocks_for(tokens).max(to.blocks_for(tokens));
        let posting = self.transfer.per_block.as_ps().saturating_mul(blocks);
        self.instances[poster.index()].link.push(Shipment {
            slot,
            bytes,
            posting: SimDuration::from_ps(self.transfer.base.as_ps().saturating_add(posting)),
        });
        self.start_transfers(poster, host);
    }

    /// A KV cache begins to move.
    pub(super) fn depart<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let live = &mut self.table[slot];
        let record = &mut live.record;
        // A sequence that was preempted and computed again may travel again; its history keeps what was before its first token.
        if record.transfer_start == SimTime::NEVER && record.decode_start == SimTime::NEVER {
            record.transfer_start = now;
        }
        let (from, to) = (live.prefill_on, live.decode_on);
        let bytes = self.journeys[slot.index()].bytes;
        host.observer().transfer_started(now, from, to, bytes);
    }

    /// Starts what the link of `poster` may start; transfers that take no time end at once.
    fn start_transfers<H: Host>(&mut self, poster: InstanceId, host: &mut H) {
        let now = host.now();
        let shares = self.fabric.is_some();
        while let Some(next) = self.instances[poster.index()].link.start_next() {
            if self.transfer.staging.is_none() {
                self.depart(next.slot, host);
            }
            let link = &self.instances[poster.index()].link;
            let wire = if shares {
                SimDuration::ZERO
            } else {
                link.wire(next.bytes)
            };
            let journey = &mut self.journeys[next.slot.index()];
            journey.turn = now;
            journey.wire = now.saturating_add(next.posting);
            let end = journey.wire.saturating_add(wire);
            if end > now {
                host.schedule(self.instances[poster.index()].link_lane, end);
                return;
            }
            self.leave_link(poster, host);
        }
    }

    /// The link of `poster` is done with what it did: start the next.
    pub(super) fn end_on_link<H: Host>(&mut self, poster: InstanceId, host: &mut H) {
        self.leave_link(poster, host);
        self.start_transfers(poster, host);
    }

    /// What was on the link has landed or, where a network is shared, was posted.
    fn leave_link<H: Host>(&mut self, poster: InstanceId, host: &mut H) {
        let now = host.now();
        let link = &mut self.instances[poster.index()].link;
        if let Some(fabric) = &mut self.fabric {
            let Shipment { slot, bytes, .. } = link.launch();
            let live = &self.table[slot];
            fabric.start(now, slot, live.prefill_on, live.decode_on, bytes);
            self.watch_network(host);
        } else {
            let slot = link.end().slot;
            self.land(slot, host);
        }
    }

    /// Bytes have ended flowing in the network, or an early part begins to.
    #[inline(never)]
    pub(super) fn end_in_fabric<H: Host>(&mut self, host: &mut H) {
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let ended = fabric.end_due(host.now());
        self.watch_network(host);
        for slot in ended {
            let poster = self.poster(slot);
            self.instances[poster.index()].link.land();
            self.land(slot, host);
            self.start_transfers(poster, host);
        }
    }

    /// Sets the network's next event.
    pub(super) fn watch_network<H: Host>(&self, host: &mut H) {
        let next = self.fabric.as_ref().map(crate::net::Fabric::next_event);
        match next {
            None | Some(SimTime::NEVER) => host.cancel(self.fabric_lane),
            Some(at) => host.schedule(self.fabric_lane, at),
        }
    }

    /// The last byte has left the link or the network.
    fn land<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let journey = &mut self.journeys[slot.index()];
        (journey.landed, journey.up) = (host.now(), host.now());
        if self.transfer.staging.is_some() {
            self.copy_in(slot, host);
        } else {
            self.arrive_at_decode(slot, host);
        }
    }

    /// The KV cache has arrived: the source's blocks are free, the sequence may decode.
    pub(super) fn arrive_at_decode<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let poster = self.poster(slot);
        let journey = self.journeys[slot.index()];
        let live = &mut self.table[slot];
        let (from, to) = (live.prefill_on, live.decode_on);
        let tokens = u64::from(live.computed);
        let record = &mut live.record;
        if record.transfer_start != SimTime::NEVER && record.transfer_end == SimTime::NEVER {
            record.transfer_end = now;
        }
        let source = &mut self.instances[from.index()];
        source.handing_off -= 1;
        // Where sequences decode beside prompts: the level before blocks go is the one that stepping would have reached, and who
        // waits for blocks may find them at the next step.
        source.report_ended(host);
        source.cut_run(host);
        source.give_up(slot, tokens, &mut self.table, host);
        self.table[slot].hands_off = false;
        self.mark_dirty(from);
        host.observer().transfer_ended(now, from, to, journey.bytes);
        host.observer().transferred(&TransferFact {
            from,
            to,
            poster,
            queued: journey.queued,
            departed: journey.departed,
            ready: journey.ready,
            turn: journey.turn,
            wire: journey.wire,
            landed: journey.landed,
            up: journey.up,
            ended: now,
            bytes: journey.bytes,
            early_bytes: journey.early,
            held_tokens: journey.held,
        });
        let target = &mut self.instances[to.index()];
        target.cache_arrival(slot, &mut self.table, host);
        target.add_joiner(slot, host);
        self.mark_dirty(to);
    }
}
