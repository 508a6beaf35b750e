//! Rules that change roles while a system runs: the contract and the registry.
//!
//! An instance has a *current role*: what kind of work it is sent. A rule sees all instances as they are at this instant and may
//! place a request itself ([`RoleChanger::place`], at its arrival) or send an instance to another role ([`RoleChanger::switch`],
//! at arrivals and when requests end). Those are the only instants at which it is asked, so that a run evaluated in
//! closed form and one stepped token by token ask the same questions.

mod dynamic;
mod mixed_pool;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

pub use dynamic::{Band, DecodeLoad, DynamicRule};
pub use mixed_pool::MixedPoolRule;

use crate::units::{SimDuration, SimTime};

/// What an instance does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Prefill and decode.
    Both,
    /// Prompts only; the KV cache then travels to a decode instance.
    Prefill,
    /// Output tokens only (and the recomputation of sequences it has preempted).
    Decode,
}

/// Whether and how roles change at run time.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RoleRule {
    /// They do not: each instance keeps the role of its pool.
    #[default]
    Fixed,
    /// Under load an instance of one side joins a mixed pool and works for both (Splitwise).
    MixedPool(MixedPoolRule),
    /// Instances switch between prefill and decode when queues ask for it (Arrow, `TaiChi` and alike).
    Dynamic(DynamicRule),
}

impl RoleRule {
    /// Makes the rule for instances with these roles; `None` when roles are fixed. Adding one: a file beside this one, a variant
    /// and a line here.
    #[must_use]
    pub fn build(&self, homes: &[Role]) -> Option<Box<dyn RoleChanger>> {
        match self {
            Self::Fixed => None,
            Self::MixedPool(rule) => Some(Box::new(mixed_pool::MixedPool::new(*rule, homes))),
            Self::Dynamic(rule) => Some(Box::new(dynamic::Dynamic::new(*rule))),
        }
    }

    /// Whether instances change roles at all.
    #[must_use]
    pub fn moves(&self) -> bool {
        *self != Self::Fixed
    }

    /// Whether the rule chooses the instances of every request itself, so that routers have no say.
    #[must_use]
    pub const fn places(&self) -> bool {
        matches!(self, Self::MixedPool(_))
    }

    /// How long an instance without work needs to take its new role.
    #[must_use]
    pub const fn switch_time(&self) -> SimDuration {
        match self {
            Self::Dynamic(rule) => rule.switch_time,
            Self::Fixed | Self::MixedPool(_) => SimDuration::ZERO,
        }
    }
}

/// What a rule sees of an instance at this instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceLoad {
    /// Its role; while it is on its way to another one, the old one.
    pub role: Role,
    /// Whether it is on its way to another role.
    pub moving: bool,
    /// Since when it has its role.
    pub since: SimTime,
    /// Prompts that wait for admission.
    pub waiting: u64,
    /// Tokens of prompts that wait or are in progress.
    pub prompt_tokens: u64,
    /// Requests on it: waiting, in progress, decoding, or on their way to decode here.
    pub requests: u64,
    /// Sequences that decode here or were placed here to decode, their prompts done or not.
    pub decodes: u64,
}

/// All instances of a system at one instant, in order of ids.
pub trait RolesView {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none; a system always has instances.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is on the `i`-th.
    fn load(&self, i: usize) -> InstanceLoad;

    /// KV blocks of the `i`-th in use or promised to requests that were sent there, runs of decode steps advanced to this
    /// instant.
    fn kv_committed(&self, i: usize) -> u64;

    /// KV blocks of the `i`-th; `None` for unlimited memory.
    fn kv_capacity(&self, i: usize) -> Option<u64>;
}

/// A request to place.
pub trait PlacedRequest {
    /// Prompt tokens.
    fn input_tokens(&self) -> u32;

    /// KV blocks it is given when it comes to the `i`-th instance to decode. Under whole-sequence reservation they
    /// depend on the client's limit or, for the oracle, on the true output length.
    fn kv_blocks(&self, i: usize) -> u64;
}

/// Where both phases of a request go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The instance that computes its prompt.
    pub prefill: usize,
    /// The instance that decodes it: the same for both when nothing is to travel.
    pub decode: usize,
}

/// Changes the roles of instances.
pub trait RoleChanger: Debug + Send {
    /// Chooses the instances of a request that has just arrived; `None` leaves that to the routers. New roles go into `moves`:
    /// they hold at once, whatever the instance is doing.
    fn place(
        &mut self,
        request: &dyn PlacedRequest,
        view: &dyn RolesView,
        moves: &mut Vec<(usize, Role)>,
    ) -> Option<Placement> {
        let _ = (request, view, moves);
        None
    }

    /// An instance that is to take another role: it gets no new work, ends what it has, and then takes the role. Asked
    /// when no instance is on its way to another role.
    fn switch(&mut self, now: SimTime, view: &dyn RolesView) -> Option<(usize, Role)> {
        let _ = (now, view);
        None
    }

    /// The `i`-th instance, which has both roles, has nothing to do and nothing on its way to it: the role it goes back to.
    fn emptied(&mut self, i: usize) -> Role {
        let _ = i;
        Role::Both
    }
}
