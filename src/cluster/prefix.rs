//! How an instance uses its prefix cache.
//!
//! A prompt that is admitted holds the cached blocks it starts with and takes blocks for the rest; when it is done, its own whole
//! blocks join the cache. Held blocks are shared, so they are counted once; idle ones count as free and are dropped when
//! memory is taken, to the CPU tier where there is one. What a prompt finds there is loaded, in line with the steps: it lengthens the
//! step that the prompt starts in.
//!
//! A decode instance with a cache is *there* for a request that has not reached it: cached blocks are held when its blocks are
//! reserved and do not travel; what has travelled joins the cache on arrival.

use super::host::Host;
use super::instance::Instance;
use super::observer::Observer;
use super::spec::KvReserve;
use super::state::Cluster;
use super::table::{Live, Table};
use crate::ids::SlotId;
use crate::kv::{BlockPool, PrefixCache};
use crate::policy::batch::Pick;
use crate::units::{SimDuration, SimTime};

/// What a prompt finds when it asks for admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// Prompt blocks in the cache, a leading run.
    pub(super) hits: usize,
    /// Prompt blocks behind them in the CPU tier.
    pub(super) cpu_hits: usize,
    /// Tokens that need not be computed.
    pub(super) cached_tokens: u32,
    /// KV blocks it takes from the free ones.
    pub(super) blocks: u64,
}

impl Found {
    /// Nothing is cached: all `blocks` are taken from the free ones.
    const fn nothing(blocks: u64) -> Self {
        Self {
            hits: 0,
            cpu_hits: 0,
            cached_tokens: 0,
            blocks,
        }
    }
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
        return Found::nothing(total);
    };
    let ids = table.prefix_ids(slot);
    let hits = cache.hits(ids);
    let cpu_hits = cache.cpu_hits(&ids[hits..]);
    let block_tokens = prefixes.block_tokens();
    let cached = u64::from(block_tokens) * (hits + cpu_hits) as u64;
    let unit = kv.blocks_for(u64::from(block_tokens));
    let shared = (hits as u64 - cache.idle_among(&ids[..hits])) * unit;
    Found {
        hits,
        cpu_hits,
        cached_tokens: u32::try_from(cached)
            .unwrap_or(u32::MAX)
            .min(to_compute - 1),
        blocks: total.saturating_sub(shared),
    }
}

/// The ids of the prompt blocks that lie wholly within the first `context` tokens.
fn whole_blocks(table: &Table, slot: SlotId, context: u64) -> &[u32] {
    let ids = table.prefix_ids(slot);
    let whole = context.checked_div(table.prompt_block()).unwrap_or(0);
    &ids[..ids.len().min(usize::try_from(whole).unwrap_or(usize::MAX))]
}

impl Cluster {
    /// Tokens of a prompt that the decode instance holds already, before it gets there.
    pub(super) fn held_tokens(&self, slot: SlotId) -> u64 {
        u64::from(self.table[slot].held_there) * self.table.prompt_block()
    }
}

impl Instance {
    /// Holds the cached blocks that the waiting prompts of a plan start with, before any of them takes new blocks, which could drop
    /// what another was promised.
    #[inline(never)]
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
            let ids = table.prefix_ids(slot);
            let were_idle = cache.hold(&ids[..found.hits]);
            if found.cpu_hits > 0 {
                cache.load(&ids[found.hits..found.hits + found.cpu_hits]);
                let loads = found.cpu_hits as u64;
                let load = self.cpu_load.as_ps().saturating_mul(loads);
                let sum = self.load_time.as_ps().saturating_add(load);
                self.load_time = SimDuration::from_ps(sum.min(u64::MAX / 4));
            }
            let live = &mut table[slot];
            live.held = found.hits;
            live.computed = found.cached_tokens;
            if live.record.prefill_start == SimTime::NEVER {
                live.record.cached_tokens = found.cached_tokens;
                let from_gpu = self.prompt_block.saturating_mul(found.hits as u64);
                let from_gpu = u32::try_from(from_gpu).unwrap_or(u32::MAX);
                let from_cpu = found.cached_tokens.saturating_sub(from_gpu);
                host.observer()
                    .prefix_looked_up(self.id, &live.record, from_cpu);
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

    /// What a request that is to come here finds, when its KV cache will hold `context` tokens.
    pub(super) fn find_there(
        &mut self,
        slot: SlotId,
        context: u64,
        table: &Table,
        now: SimTime,
    ) -> Found {
        let all = self.blocks_of(&table[slot], context);
        self.trim_prefix_at(now);
        let Some(cache) = &self.prefix else {
            return Found::nothing(all);
        };
        let ids = whole_blocks(table, slot, context);
        let hits = cache.hits(ids);
        let shared = hits as u64 - cache.idle_among(&ids[..hits]);
        Found {
            hits,
            cpu_hits: 0,
            cached_tokens: 0,
            blocks: all - shared * self.prefix_unit,
        }
    }

    /// Holds what a request that is to come here has found, and takes the rest of its blocks.
    pub(super) fn hold_there<H: Host>(
        &mut self,
        slot: SlotId,
        found: Found,
        table: &mut Table,
        host: &mut H,
    ) {
        if let Some(cache) = &mut self.prefix {
            cache.hold(&table.prefix_ids(slot)[..found.hits]);
            table[slot].held_there =
                u32::try_from(found.hits).expect("fewer prompt blocks than tokens");
        }
        self.take_blocks(found.blocks, host);
        self.trim_prefix_at(host.now());
    }

    /// Lets go of what a request held here that will not come; says how many of its blocks others hold or are no longer counted.
    pub(super) fn let_go_there(&mut self, live: &Live, table: &Table) -> u64 {
        let Some(cache) = &mut self.prefix else {
            return 0;
        };
        let ids = table.prefix_ids_of(live.record.id);
        let idle = cache.release(&ids[..live.held_there as usize]);
        (u64::from(live.held_there) - idle) * self.prefix_unit
    }

    /// A KV cache has arrived: its whole prompt blocks join the cache. Where another has brought the same block meanwhile, this one's
    /// copy is given up.
    pub(super) fn cache_arrival<H: Host>(&mut self, slot: SlotId, table: &mut Table, host: &mut H) {
        if self.prefix.is_none() {
            return;
        }
        self.trim_prefix_at(host.now());
        let context = u64::from(table[slot].to_compute);
        let held = std::mem::take(&mut table[slot].held_there) as usize;
        let ids = whole_blocks(table, slot, context);
        let Some(cache) = &mut self.prefix else {
            return;
        };
        let duplicates = cache.insert(&ids[held..]);
        let all = ids.len();
        table[slot].held = all;
        // The level before blocks go is the one that stepping would have reached.
        self.report_ended(host);
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

    /// Prompt tokens of the request in `slot` that would have to be computed here.
    #[inline(never)]
    pub(super) fn uncached(&mut self, table: &Table, slot: SlotId, now: SimTime) -> u32 {
        self.trim_prefix_at(now);
        let found = look_up(self.prefix.as_ref(), &self.kv, self.reserve, table, slot);
        table[slot].to_compute - found.cached_tokens
    }

    /// Brings the cache to `now` for a router that looks into it: steps of the run in progress that have ended have
    /// dropped what they needed.
    #[inline]
    pub(super) fn trim_prefix_at(&mut self, now: SimTime) {
        if self.prefix.is_some() {
            let free = self.free_after_ended(now);
            self.trim_prefix(free);
        }
    }
}
