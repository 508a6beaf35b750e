//! How an instance uses its prefix cache.
//!
//! A prompt that is admitted holds the cached blocks it starts with and takes blocks for the rest; when it is done, its own whole
//! blocks join the cache. Held blocks are shared, so they are counted once; idle ones count as free and are dropped when
//! memory is taken. Decode instances of a disaggregated system have none: what travels to them is private.

use super::host::Host;
use super::instance::Instance;
use super::spec::KvReserve;
use super::table::Table;
use crate::ids::SlotId;
use crate::kv::{BlockPool, PrefixCache};
use crate::policy::batch::Pick;
use crate::units::SimTime;

/// What a prompt finds when it asks for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Prompt blocks in the cache, a leading run.
    pub(super) hits: usize,
    /// Tokens that need not be computed.
    pub(super) cached_tokens: u32,
    /// KV blocks it takes from the free ones.
    pub(super) blocks: u64,
}

/// Looks a prompt up. At least one token is left to compute, or no token would be sampled.
pub(super) fn look_up(
    cache: Option<&PrefixCache>,
    kv: &BlockPool,
    reserve: KvReserve,
    table: &Table,
    slot: SlotId,
) -> Found {
    let live = &table[slot];
    let to_compute = live.to_compute;
    let total = if kv.is_limited() {
        kv.blocks_for(live.prompt_tokens(reserve, u64::from(to_compute)))
    } else {
        0
    };
    let (Some(cache), Some(prefixes)) = (cache, table.prefixes()) else {
        return Found {
            hits: 0,
            cached_tokens: 0,
            blocks: total,
        };
    };
    let ids = table.prefix_ids(slot);
    let hits = cache.hits(ids);
    let block_tokens = prefixes.block_tokens();
    let cached = u64::from(block_tokens) * hits as u64;
    let unit = kv.blocks_for(u64::from(block_tokens));
    let shared = (hits as u64 - cache.idle_among(&ids[..hits])) * unit;
    Found {
        hits,
        cached_tokens: u32::try_from(cached)
            .unwrap_or(u32::MAX)
            .min(to_compute - 1),
        blocks: total.saturating_sub(shared),
    }
}

impl Instance {
    /// Holds the cached blocks that the waiting prompts of a plan start with, before any of them takes new blocks, which could drop
    /// what another was promised.
    pub(super) fn hold_prefixes<H: Host>(
        &mut self,
        picks: &[Pick],
        table: &mut Table,
        host: &mut H,
    ) {
        for pick in picks {
            let Pick::Waiting { index, .. } = *pick else {
                continue;
            };
            let slot = self.waiting[index];
            let found = look_up(self.prefix.as_ref(), &self.kv, self.reserve, table, slot);
            let Some(cache) = &mut self.prefix else {
                return;
            };
            let were_idle = cache.hold(&table.prefix_ids(slot)[..found.hits]);
            let live = &mut table[slot];
            live.held = found.hits;
            live.computed = found.cached_tokens;
            if live.record.prefill_start == SimTime::NEVER {
                live.record.cached_tokens = found.cached_tokens;
            }
            self.take_blocks(were_idle * self.prefix_unit, host);
        }
    }

    /// A prompt is done: its whole blocks join the cache. Where another prompt has cached the same block meanwhile, this one's
    /// copy is given up.
    pub(super) fn cache_prompt<H: Host>(&mut self, slot: SlotId, table: &mut Table, host: &mut H) {
        let Some(cache) = &mut self.prefix else {
            return;
        };
        let ids = table.prefix_ids(slot);
        let held = table[slot].held;
        let duplicates = cache.insert(&ids[held..]);
        let all = ids.len();
        table[slot].held = all;
        self.give_blocks(duplicates * self.prefix_unit, host);
    }

    /// Gives back the blocks of a request that held `context` tokens here; its cached blocks stay until memory is needed.
    pub(super) fn give_up<H: Host>(
        &mut self,
        slot: SlotId,
        context: u64,
        table: &mut Table,
        host: &mut H,
    ) {
        let mut blocks = self.prompt_blocks(&table[slot], context);
        if let Some(cache) = &mut self.prefix {
            let held = std::mem::take(&mut table[slot].held);
            let idle = cache.release(&table.prefix_ids(slot)[..held]);
            blocks -= (held as u64 - idle) * self.prefix_unit;
        }
        self.give_blocks(blocks, host);
    }

    /// Drops idle cached blocks whose memory is in use, with `free` blocks not in use.
    pub(super) fn trim_prefix(&mut self, free: u64) {
        if let Some(cache) = &mut self.prefix
            && self.kv.is_limited()
        {
            cache.trim(free / self.prefix_unit);
        }
    }

    /// Brings the cache to `now` for a router that looks into it: steps of the run in progress that have ended have
    /// dropped what they needed.
    pub(super) fn trim_prefix_at(&mut self, now: SimTime) {
        if self.prefix.is_some() {
            let free = self.free_after_ended(now);
            self.trim_prefix(free);
        }
    }
}
