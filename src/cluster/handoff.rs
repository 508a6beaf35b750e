//! The hand-off of a request from its prefill to its decode instance.
//!
//! ```text
//! prompt done ─ route ─ inbound queue ─ blocks reserved ─ link queue ─ transfer ─ ready to decode
//!               (KV blocks stay pinned on the prefill instance up to here ──────┘)
//! ```

use super::host::Host;
use super::observer::Observer;
use super::spec::FirstToken;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};

impl Cluster {
    /// Chooses decode instances for the prompts that are done.
    pub(super) fn route_handoffs<H: Host>(&mut self, host: &H) {
        for i in 0..self.handoffs.len() {
            let slot = self.handoffs[i];
            let chosen = self
                .decode
                .choose(&self.table, slot, &mut self.instances, host.now());
            let first_token = self.first_token;
            let live = &mut self.table[slot];
            live.decode_on = chosen;
            live.record.decode_instance = Some(chosen);
            // A decode instance that emits the first token computes the prompt's last token itself.
            live.to_compute = match first_token {
                FirstToken::Prefill => live.record.input_tokens,
                FirstToken::Decode => live.record.input_tokens - 1,
            };
            let tokens = u64::from(live.to_compute);
            let instance = &mut self.instances[chosen.index()];
            instance.inbound.push_back(slot);
            instance.expected += 1;
            instance.pending_tokens += tokens;
            self.decode.refresh(instance);
            self.mark_dirty(chosen);
        }
        self.handoffs.clear();
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
            if !instance.waiting.is_empty() || instance.seqs >= pool.limits.max_seqs {
                return;
            }
            let context = u64::from(self.table[slot].to_compute);
            let blocks = instance.kv.blocks_for(context);
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
            instance.take_blocks(blocks, host);
            self.send(slot, host);
        }
    }

    /// Queues the transfer of a request's KV cache on its prefill instance's link.
    fn send<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let live = &self.table[slot];
        let from = live
            .record
            .prefill_instance
            .expect("its prompt was computed somewhere");
        let instance = &mut self.instances[from.index()];
        let per_token = self.pools[instance.pool.index()].kv.bytes_per_token;
        instance
            .link
            .push(slot, u64::from(live.record.input_tokens) * per_token);
        self.start_transfers(from, host);
    }

    /// Starts the next transfer on the link of `from` if it is idle; transfers that take no time end at once.
    fn start_transfers<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        let now = host.now();
        while let Some((slot, bytes, time)) = self.instances[from.index()].link.start_next() {
            self.table[slot].record.transfer_start = now;
            let to = self.table[slot].decode_on;
            host.observer().transfer_started(now, from, to, bytes);
            let end = now.saturating_add(time);
            if end > now {
                host.schedule(self.instances[from.index()].link_lane, end);
                return;
            }
            self.finish_transfer(from, host);
        }
    }

    /// Ends the transfer in progress on the link of `from` and starts the next.
    pub(super) fn end_transfer<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        self.finish_transfer(from, host);
        self.start_transfers(from, host);
    }

    /// The KV cache has arrived: the source's blocks are free, the sequence may decode.
    fn finish_transfer<H: Host>(&mut self, from: InstanceId, host: &mut H) {
        let now = host.now();
        let source = &mut self.instances[from.index()];
        let (slot, bytes) = source.link.end();
        source.handing_off -= 1;
        let pinned = u64::from(self.table[slot].record.input_tokens);
        source.give_up(slot, pinned, &mut self.table, host);
        self.mark_dirty(from);
        let live = &mut self.table[slot];
        live.record.transfer_end = now;
        let to = live.decode_on;
        host.observer().transfer_ended(now, from, to, bytes);
        self.instances[to.index()].add_joiner(slot, host);
        self.mark_dirty(to);
    }
}
