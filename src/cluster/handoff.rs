//! The hand-off of a request from its prefill to its decode instance.
//!
//! ```text
//! prompt done ─ route ─ inbound queue ─ blocks reserved ─ link queue ─ transfer ─ ready to decode
//!               (KV blocks stay pinned on the prefill instance up to here ──────┘)
//! ```

use super::finish::emit;
use super::host::Host;
use super::instance::Instance;
use super::spec::{FirstToken, Overlap, Role};
use super::state::Cluster;
use super::table::Table;
use crate::ids::{InstanceId, SlotId};
use crate::units::SimTime;

impl Cluster {
    /// Chooses decode instances for the prompts that are done.
    pub(super) fn route_handoffs<H: Host>(&mut self, host: &mut H) {
        for i in 0..self.handoffs.len() {
            let slot = self.handoffs[i];
            if self.table[slot].early {
                self.send_reserved(slot, host);
                continue;
            }
            if self.table[slot].placed {
                self.hand_to_placed(slot, host);
                continue;
            }
            if self.table[slot].assigned {
                self.queue_assigned(slot);
            } else {
                self.queue_for_decode(slot, host);
            }
            self.leave_prefill(slot);
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
        self.queue_inbound(slot, chosen);
    }

    /// Lets a request wait on `chosen` for blocks to decode there.
    fn queue_inbound(&mut self, slot: SlotId, chosen: InstanceId) {
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

    /// Notes that a sequence whose prompt is done is to decode on another instance.
    fn leave_prefill(&mut self, slot: SlotId) {
        let live = &mut self.table[slot];
        live.record.decode_instance.get_or_insert(live.decode_on);
        live.to_compute = live.handed_over(self.first_token);
    }

    /// Hands a sequence to the decode instance that a role rule chose at its arrival.
    ///
    /// Where instances do both, two of them could each be full of prompts that wait for the other's memory. Therefore such an
    /// instance gives a prompt the blocks to decode, and a sequence whose decode instance has no room at this instant stays. What was
    /// queued before the instance joined the mixed pool must leave; it waits only for instances that joined earlier.
    #[inline(never)]
    fn hand_to_placed<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let live = &self.table[slot];
        let (from, to, tokens) = (live.prefill_on, live.decode_on, live.to_compute);
        if live.hands_off {
            self.queue_inbound(slot, to);
            self.leave_prefill(slot);
        } else if self.has_room(slot, host.now()) {
            self.instances[from.index()].see_off(u64::from(tokens));
            self.queue_inbound(slot, to);
            self.leave_prefill(slot);
            self.admit_inbound(to, host);
        } else {
            self.stay(slot, host);
        }
    }

    /// Whether the decode instance of a sequence can take it at `now`.
    fn has_room(&self, slot: SlotId, now: SimTime) -> bool {
        let live = &self.table[slot];
        let instance = &self.instances[live.decode_on.index()];
        let pool = &self.pools[instance.pool.index()];
        let tokens = u64::from(live.handed_over(self.first_token));
        let wanted = instance.blocks_of(live, tokens) + pool.kv.watermark_blocks;
        instance.inbound.is_empty()
            && instance.takes_inbound(&self.table)
            && instance.seqs < pool.limits.max_seqs
            && (!instance.kv.is_limited() || wanted <= instance.free_before(now))
    }

    /// Lets a sequence decode where its prompt was computed, after all.
    fn stay<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        self.unplace(slot);
        let live = &mut self.table[slot];
        live.decode_on = live.prefill_on;
        let id = live.decode_on;
        if self.first_token == FirstToken::Decode {
            emit(live, host);
        }
        let tokens = u64::from(live.to_compute);
        let done = live.emitted == live.record.output_tokens;
        let instance = &mut self.instances[id.index()];
        instance.placed += 1;
        if done {
            instance.pending_tokens -= tokens;
            instance.release(slot, tokens, &mut self.table, host);
        } else {
            instance.keep(slot, &mut self.table, host.now());
        }
        self.mark_dirty(id);
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
            if !instance.takes_inbound(&self.table) || instance.seqs >= pool.limits.max_seqs {
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
            if live.placed {
                instance.promised -= instance.blocks_of(live, u64::from(context));
            }
            instance.hold_there(slot, found, &mut self.table, host);
            if early {
                instance.early -= 1;
                self.reserved.push(slot);
            } else {
                self.send(slot, 0, host);
            }
        }
    }

    /// Sends the KV cache of a request whose blocks were reserved early.
    #[inline(never)]
    fn send_reserved<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        self.table[slot].early = false;
        self.leave_prefill(slot);
        let mut ahead = 0;
        if self.transfer.overlap != Overlap::None {
            ahead = self.withdraw(slot, host.now());
            self.watch_network(host);
        }
        self.send(slot, ahead, host);
    }
}

impl Instance {
    /// Whether sequences from elsewhere may be admitted: preempted ones go first. Prompts that wait on an instance with both roles
    /// do not hold them back.
    fn takes_inbound(&self, table: &Table) -> bool {
        let held_back = match self.role {
            Role::Both => {
                let first = self.waiting.front();
                first.is_some_and(|&slot| table[slot].record.preemptions > 0)
            }
            Role::Prefill | Role::Decode => !self.waiting.is_empty(),
        };
        !held_back && self.swapped.is_empty()
    }
}
