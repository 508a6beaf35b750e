//! Why nothing moves: which requests hold KV memory, and which wait for what.

use std::fmt;

use super::group::Group;
use super::instance::Instance;
use super::prefix::look_up;
use super::state::Cluster;
use crate::ids::{InstanceId, RequestId, SlotId};

/// How many of each kind are written out.
const SHOWN: usize = 4;

/// A request in a queue that does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Which request.
    pub id: RequestId,
    /// Where it waits.
    pub instance: InstanceId,
    /// KV blocks it wants there; `None` where memory is unlimited.
    pub blocks: Option<u64>,
}

/// A request that holds KV memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Which request.
    pub id: RequestId,
    /// Where.
    pub instance: InstanceId,
    /// How many KV blocks.
    pub blocks: u64,
}

/// An instance on which requests wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Which instance.
    pub instance: InstanceId,
    /// Name of its pool.
    pub pool: String,
    /// KV blocks not in use; `None` when unlimited.
    pub free: Option<u64>,
    /// Sequences admitted.
    pub seqs: u32,
    /// Most that may be.
    pub max_seqs: u32,
}

/// A cluster in which nothing moves any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stall {
    /// The requests that wait, by instance, in the order of the queues.
    pub waits: Vec<Wait>,
    /// The requests that hold KV memory, in order of their ids.
    pub holds: Vec<Hold>,
    /// The instances on which requests wait.
    pub places: Vec<Place>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for place in self.places.iter().take(SHOWN) {
            let free = place.free.map_or_else(
                || "unlimited KV memory".to_owned(),
                |n| format!("{n} KV blocks free"),
            );
            parts.push(format!(
                "instance {} of pool `{}` has {free} and {} of {} sequences",
                place.instance, place.pool, place.seqs, place.max_seqs
            ));
        }
        let waits = self.waits.iter().take(SHOWN).map(|wait| {
            let what = wait.blocks.map_or_else(
                || "a place".to_owned(),
                |blocks| format!("{blocks} KV blocks"),
            );
            format!(
                "request {} waits for {what} on instance {}",
                wait.id, wait.instance
            )
        });
        parts.extend(waits);
        let holds = self.holds.iter().take(SHOWN).map(|hold| {
            format!(
                "request {} holds {} KV blocks on instance {}",
                hold.id, hold.blocks, hold.instance
            )
        });
        parts.extend(holds);
        let more = self.waits.len().saturating_sub(SHOWN) + self.holds.len().saturating_sub(SHOWN);
        if more > 0 {
            parts.push(format!("and {more} more"));
        }
        f.write_str(&parts.join("; "))
    }
}

impl Cluster {
    /// Requests that are in the cluster and can only move when an event comes: with no event pending they are stuck.
    #[must_use]
    pub fn stuck(&self) -> Vec<RequestId> {
        self.table
            .live_by_id()
            .into_iter()
            .map(|slot| self.table[slot].record.id)
            .collect()
    }

    /// Who holds KV memory, and who waits for it.
    #[must_use]
    pub fn stall(&self) -> Stall {
        let mut stall = Stall::default();
        for instance in &self.instances {
            let before = stall.waits.len();
            self.queues_of(instance, &mut stall);
            self.holders_of(instance, &mut stall);
            if stall.waits.len() > before {
                let pool = &self.pools[instance.pool.index()];
                stall.places.push(Place {
                    instance: instance.id,
                    pool: pool.name().to_owned(),
                    free: instance.kv.capacity().map(|_| instance.kv.free()),
                    seqs: instance.seqs,
                    max_seqs: pool.limits.max_seqs,
                });
            }
        }
        stall.holds.retain(|hold| hold.blocks > 0);
        stall.holds.sort_by_key(|hold| (hold.id, hold.instance));
        stall
    }

    /// The requests that wait on `instance`.
    fn queues_of(&self, instance: &Instance, stall: &mut Stall) {
        let table = &self.table;
        let mut wait = |slot: SlotId, blocks: u64| {
            stall.waits.push(Wait {
                id: table[slot].record.id,
                instance: instance.id,
                blocks: instance.kv.capacity().map(|_| blocks),
            });
        };
        for &slot in &instance.swapped {
            let context = u64::from(table[slot].to_compute);
            wait(slot, instance.blocks_of(&table[slot], context + 1));
        }
        for &slot in &instance.waiting {
            let found = look_up(
                instance.prefix.as_ref(),
                &instance.kv,
                instance.reserve,
                table,
                slot,
            );
            wait(slot, found.blocks);
        }
        for &slot in &instance.inbound {
            let context = u64::from(table[slot].to_compute);
            wait(slot, instance.blocks_of(&table[slot], context));
        }
    }

    /// The requests that hold blocks of `instance`, shared ones counted for each.
    fn holders_of(&self, instance: &Instance, stall: &mut Stall) {
        let table = &self.table;
        if !instance.kv.is_limited() {
            return;
        }
        let mut hold = |slot: SlotId, context: u64| {
            stall.holds.push(Hold {
                id: table[slot].record.id,
                instance: instance.id,
                blocks: instance.blocks_of(&table[slot], context),
            });
        };
        for &slot in &instance.partial {
            hold(slot, u64::from(table[slot].to_compute));
        }
        for &(slot, _) in &instance.joiners {
            hold(slot, u64::from(table[slot].to_compute));
        }
        for stage in &instance.stages {
            let units = stage.units.iter().map(|unit| &unit.group);
            for group in units.chain([&stage.wait, &stage.batch.group]) {
                for slot in Group::members(group, table) {
                    hold(slot, group.context_of(table, slot));
                }
            }
        }
        // Prompts that are done here and wait for decode blocks elsewhere.
        let queues = self.instances.iter().flat_map(|other| &other.inbound);
        for &slot in queues {
            if !table[slot].early && table[slot].prefill_on == instance.id {
                hold(slot, u64::from(table[slot].computed));
            }
        }
        // Blocks reserved before the prompt is done.
        let early = self.instances.iter().flat_map(|other| &other.waiting);
        for &slot in early {
            if table[slot].early && table[slot].decode_on == instance.id {
                hold(slot, u64::from(table[slot].handed_over(self.first_token)));
            }
        }
    }
}
