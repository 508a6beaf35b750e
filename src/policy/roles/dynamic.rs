//! Two roles that follow the load: an instance switches when one side is under pressure and the other has room to spare.
//!
//! The family of Arrow (arXiv 2505.11916: instances are stateless and are handed between prefill and decode by their loads) and
//! `TaiChi` (arXiv 2508.01989). Two pressures are watched, over the instances that are not on their way to another role:
//!
//! ```text
//! prefill  prompt tokens waiting or in progress, per prefill instance
//! decode   share of KV blocks committed on decode instances, or sequences per decode instance
//!
//! to prefill  if  prefill > its high mark  and  decode  < its low mark
//! to decode   if  decode  > its high mark  and  prefill < its low mark
//! ```
//!
//! The instance that goes is the one with the least to end first. One goes at a time, none before it has kept its role for the
//! dwell time, and none if that left fewer than the floor of its role.

use super::{InstanceLoad, Role, RoleChanger, RolesView};
use crate::units::{SimDuration, SimTime};

/// Marks between which nothing happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Below: room to spare.
    pub low: f64,
    /// Above: pressure.
    pub high: f64,
}

/// What the pressure on decode instances is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecodeLoad {
    /// The share of their KV blocks that is committed.
    KvShare,
    /// Requests on them, per instance.
    Sequences,
}

/// When instances switch roles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicRule {
    /// Prompt tokens waiting or in progress, per prefill instance.
    pub prefill_queue: Band,
    /// How decode pressure is measured.
    pub decode_load: DecodeLoad,
    /// Its marks.
    pub decode: Band,
    /// Least prefill and decode instances, at least 1 each.
    pub at_least: [u32; 2],
    /// How long an instance keeps a role at least.
    pub dwell: SimDuration,
    /// How long an instance without work needs to take its new role.
    pub switch_time: SimDuration,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Dynamic {
    rule: DynamicRule,
}

impl Dynamic {
    pub(super) const fn new(rule: DynamicRule) -> Self {
        Self { rule }
    }

    /// The instance of `role` that may go and has the least to end, unless the role would have too few.
    fn candidate(
        &self,
        role: Role,
        now: SimTime,
        view: &dyn RolesView,
        work: impl Fn(&InstanceLoad) -> u64,
    ) -> Option<usize> {
        let floor = match role {
            Role::Prefill => self.rule.at_least[0],
            Role::Decode | Role::Both => self.rule.at_least[1],
        };
        let settled = settled(view, role);
        // A role without instances would leave its requests without a place to go.
        if settled.len() <= floor.max(1) as usize {
            return None;
        }
        let stays = |load: &InstanceLoad| now.saturating_since(load.since) < self.rule.dwell;
        let may_go = settled.iter().filter(|(_, load)| !stays(load));
        let least = may_go.min_by_key(|(i, load)| (work(load), *i));
        least.map(|(i, _)| *i)
    }

    fn decode_pressure(&self, view: &dyn RolesView) -> f64 {
        let decode = settled(view, Role::Decode);
        match self.rule.decode_load {
            DecodeLoad::Sequences => {
                let sequences: u64 = decode.iter().map(|(_, load)| load.requests).sum();
                sequences as f64 / decode.len().max(1) as f64
            }
            DecodeLoad::KvShare => {
                let committed: u64 = decode.iter().map(|&(i, _)| view.kv_committed(i)).sum();
                let capacity: Option<u64> = decode.iter().map(|&(i, _)| view.kv_capacity(i)).sum();
                capacity.map_or(0.0, |capacity| committed as f64 / capacity.max(1) as f64)
            }
        }
    }
}

impl RoleChanger for Dynamic {
    fn switch(&mut self, now: SimTime, view: &dyn RolesView) -> Option<(usize, Role)> {
        let prefill = settled(view, Role::Prefill);
        let tokens: u64 = prefill.iter().map(|(_, load)| load.prompt_tokens).sum();
        let queue = tokens as f64 / prefill.len().max(1) as f64;
        let Band { low, high } = self.rule.prefill_queue;
        if queue <= high && queue >= low {
            return None;
        }
        let decode = self.decode_pressure(view);
        if queue > high && decode < self.rule.decode.low {
            let i = self.candidate(Role::Decode, now, view, |load| load.requests)?;
            return Some((i, Role::Prefill));
        }
        if queue < low && decode > self.rule.decode.high {
            let i = self.candidate(Role::Prefill, now, view, |load| load.prompt_tokens)?;
            return Some((i, Role::Decode));
        }
        None
    }
}

/// The instances that have `role` and are not on their way to another.
fn settled(view: &dyn RolesView, role: Role) -> Vec<(usize, InstanceLoad)> {
    let all = (0..view.len()).map(|i| (i, view.load(i)));
    all.filter(|(_, load)| load.role == role && !load.moving)
        .collect()
}
