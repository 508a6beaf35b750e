//! Preemption by swapping: KV caches move to host memory and come back.
//!
//! Copies go in line with the steps of the instance, as in vLLM V0: they lengthen the next step. Host memory is not limited.

use super::host::Host;
use super::instance::Instance;
use super::observer::Observer;
use super::spec::Preemption;
use super::step::Shop;
use super::table::Table;
use crate::ids::SlotId;
use crate::units::SimDuration;

impl Instance {
    /// Moves the KV cache of a sequence that has left its group to the host.
    pub(super) fn swap_out<H: Host>(
        &mut self,
        slot: SlotId,
        context: u64,
        bytes: u64,
        bytes_per_sec: f64,
        table: &mut Table,
        host: &mut H,
    ) {
        let live = &mut table[slot];
        live.fresh = false;
        live.to_compute = u32::try_from(context).expect("a KV cache holds prompt and output");
        live.computed = live.to_compute;
        live.record.preemptions = live.record.preemptions.saturating_add(1);
        self.pending_tokens += context;
        self.seqs -= 1;
        self.give_up(slot, context, table, host);
        self.swapped.push_front(slot);
        self.add_swap_time(bytes, bytes_per_sec);
        let (now, id) = (host.now(), table[slot].record.id);
        host.observer().preempted(now, self.id, id);
    }

    /// Brings sequences back, in order, while their blocks and those of the next step fit.
    ///
    /// While the same sequences decode, free blocks only shrink and this answers the same: runs of steps may be evaluated at once.
    #[inline(never)]
    pub(super) fn swap_in<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        let Preemption::Swap { bytes_per_sec } = shop.pool.kv.preemption else {
            return;
        };
        while let Some(&slot) = self.swapped.front() {
            let context = u64::from(shop.table[slot].to_compute);
            let blocks = self.blocks_of(&shop.table[slot], context);
            // It must find the block of its first step, too, or it would have to leave again at once.
            let wanted = self.blocks_of(&shop.table[slot], context + 1);
            let spare = if self.seqs == 0 {
                0
            } else {
                shop.pool.kv.watermark_blocks + self.stages[0].wait.blocks_for_step()
            };
            if self.seqs >= shop.pool.limits.max_seqs || wanted + spare > self.kv.free() {
                return;
            }
            self.swapped.pop_front();
            // Once nobody is swapped out, sequences from elsewhere may be admitted at the next step boundary.
            shop.fast_forward = false;
            self.take_blocks(blocks, host);
            self.seqs += 1;
            self.expected += 1;
            self.joiners.push((slot, host.now()));
            self.add_swap_time(context * shop.pool.kv.bytes_per_token, bytes_per_sec);
        }
    }

    fn add_swap_time(&mut self, bytes: u64, bytes_per_sec: f64) {
        let time = SimDuration::from_secs_f64(bytes as f64 / bytes_per_sec)
            .unwrap_or(SimDuration::from_ps(u64::MAX / 4));
        let sum = self.swap_time.as_ps().saturating_add(time.as_ps());
        self.swap_time = SimDuration::from_ps(sum.min(u64::MAX / 4));
    }
}
