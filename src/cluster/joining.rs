//! How sequences whose prompt is done join those that decode.

use super::host::Host;
use super::instance::Instance;
use super::spec::KvReserve;
use super::step::Shop;
use super::table::Table;
use crate::ids::SlotId;
use crate::units::SimTime;

impl Instance {
    /// Puts sequences that are ready into the group that waits for the first stage, and sees to it that those without blocks for their
    /// replies do not wait for ever.
    pub(super) fn seat<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        self.seat_joiners(shop.table, SimTime::NEVER, host);
        if !self.joiners.is_empty() {
            self.free_a_reply(shop, host);
        }
    }

    /// Puts sequences that were ready before `until` into the group that waits for the first stage, up to the first whose reply finds
    /// no blocks; says how many.
    pub(super) fn seat_joiners<H: Host>(
        &mut self,
        table: &mut Table,
        until: SimTime,
        host: &mut H,
    ) -> u32 {
        let mut seated = 0;
        while let Some(&(slot, since)) = self.joiners.get(seated)
            && since < until
            && self.take_reply(slot, table, host)
        {
            let live = &table[slot];
            let context = u64::from(live.to_compute);
            let remaining = u64::from(live.record.output_tokens - live.emitted);
            self.pending_tokens -= context;
            self.expected -= 1;
            self.stages[0].wait.join(table, slot, context, remaining);
            seated += 1;
        }
        self.joiners.drain(..seated);
        u32::try_from(seated).expect("fewer sequences than requests")
    }

    /// Whether sequences whose prompt is done may have to wait for the blocks of their replies, which go before those of prompts.
    pub(super) fn awaits_reply(&self) -> bool {
        self.reserve == KvReserve::OracleAtDecode && !self.joiners.is_empty()
    }

    /// Takes the blocks of a reply where that is done before its first decode step; says whether they were there.
    fn take_reply<H: Host>(&mut self, slot: SlotId, table: &mut Table, host: &mut H) -> bool {
        if self.reserve != KvReserve::OracleAtDecode || table[slot].whole {
            return true;
        }
        let context = u64::from(table[slot].to_compute);
        let held = self.blocks_of(&table[slot], context);
        table[slot].whole = true;
        let more = self.blocks_of(&table[slot], context) - held;
        if more > self.kv.free() {
            table[slot].whole = false;
            return false;
        }
        self.take_blocks(more, host);
        true
    }

    /// With nothing under way that could free blocks, prompts would wait for each other's for ever: the latest is computed again.
    #[inline(never)]
    fn free_a_reply<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        let under_way = |stage: &super::instance::PipelineStage| {
            stage.busy || stage.wait.n > 0 || !stage.units.is_empty()
        };
        while self.joiners.len() > 1
            && self.partial.is_empty()
            && self.handing_off == 0
            && !self.stages.iter().any(under_way)
        {
            let (slot, _) = self.joiners.pop().expect("there are two");
            let context = u64::from(shop.table[slot].to_compute);
            self.pending_tokens -= context;
            self.expected -= 1;
            self.preempt(slot, context, shop.table, host);
            self.count_waiting(&shop.table[slot]);
            self.waiting.push_front(slot);
            self.seat_joiners(shop.table, SimTime::NEVER, host);
        }
    }
}
