//! Instances whose role changes while the system runs.
//!
//! ```text
//! mixed pool  arrival ─ place both phases, pull an instance into the mixed pool if need be ─ … ─ empty ─ back to its own pool
//! dynamic     pressure ─ gets no new work ─ what it has ends ─ (switch time) ─ new role
//! ```
//!
//! A rule is asked at arrivals and when requests end, never because time passes: those instants, and what the rule sees at them,
//! are the same whether runs of decode steps are evaluated at once or stepped. An instance keeps its batch policy, limits and
//! KV pool whatever it does; its role says what it is sent.

use super::host::Host;
use super::instance::Instance;
use super::observer::Observer;
use super::spec::Role;
use super::state::Cluster;
use super::table::Live;
use crate::ids::{InstanceId, SlotId};
use crate::policy::roles::{InstanceLoad, PlacedRequest, RoleChanger, RoleRule, RolesView};
use crate::units::{SimDuration, SimTime};

/// The rule of a system and the change in progress.
#[derive(Debug)]
pub(super) struct Keeper {
    rule: Box<dyn RoleChanger>,
    /// Whether the rule places requests itself.
    places: bool,
    switch_time: SimDuration,
    /// The lane of [`Cluster::end_switch`]; exists only if switching takes time.
    lane: usize,
    /// The instance on its way to another role.
    moving: Option<(InstanceId, Role)>,
    /// It has nothing left of its old role and is taking the new one.
    taking: bool,
    /// Instances in the mixed pool.
    mixed: Vec<InstanceId>,
    /// Requests that had arrived and ended when the rule was asked last.
    asked_at: (usize, u64),
    /// Role changes of the placement in progress.
    moves: Vec<(usize, Role)>,
}

impl Keeper {
    pub(super) fn new(rule: &RoleRule, instances: &[Instance], lane: usize) -> Option<Box<Self>> {
        let homes: Vec<Role> = instances.iter().map(|instance| instance.role).collect();
        Some(Box::new(Self {
            rule: rule.build(&homes)?,
            places: rule.places(),
            switch_time: rule.switch_time(),
            lane,
            moving: None,
            taking: false,
            mixed: Vec::new(),
            asked_at: (0, 0),
            moves: Vec::new(),
        }))
    }
}

/// All instances as a rule sees them.
struct Everyone<'a> {
    now: SimTime,
    instances: &'a [Instance],
}

impl RolesView for Everyone<'_> {
    fn len(&self) -> usize {
        self.instances.len()
    }

    fn load(&self, i: usize) -> InstanceLoad {
        let instance = &self.instances[i];
        InstanceLoad {
            role: instance.role,
            moving: instance.moving,
            since: instance.role_since,
            waiting: instance.waiting.len() as u64,
            prompt_tokens: instance.prompt_tokens,
            requests: instance.requests(),
            decodes: instance.placed,
        }
    }

    fn kv_committed(&self, i: usize) -> u64 {
        let instance = &self.instances[i];
        let used = match instance.kv.capacity() {
            Some(capacity) => capacity - instance.free_before(self.now),
            None => 0,
        };
        used + instance.promised + instance.wanted
    }

    fn kv_capacity(&self, i: usize) -> Option<u64> {
        self.instances[i].kv.capacity()
    }
}

/// A request as a rule that places it sees it.
struct Arrival<'a> {
    live: &'a Live,
    /// Tokens in its KV cache when it begins to decode.
    tokens: u64,
    instances: &'a [Instance],
}

impl PlacedRequest for Arrival<'_> {
    fn input_tokens(&self) -> u32 {
        self.live.record.input_tokens
    }

    fn kv_blocks(&self, i: usize) -> u64 {
        self.instances[i].blocks_of(self.live, self.tokens)
    }
}

impl Instance {
    /// Nothing to do, and nothing on its way here.
    fn is_empty(&self) -> bool {
        self.requests() == 0 && self.handing_off == 0 && self.placed == 0
    }

    /// Takes a role. What its prefix cache holds stays.
    const fn set_role(&mut self, role: Role, now: SimTime) {
        self.role = role;
        self.role_since = now;
        self.moving = false;
    }
}

impl Cluster {
    /// Whether a rule chooses the instances of requests itself.
    pub(super) fn places(&self) -> bool {
        self.roles.as_ref().is_some_and(|keeper| keeper.places)
    }

    /// The end of routing where roles change: routes what has arrived and lets the rule act.
    #[inline(never)]
    pub(super) fn route_under_roles<H: Host>(&mut self, host: &mut H) {
        self.leave_mixed(host);
        self.settle_switch(host);
        for slot in std::mem::take(&mut self.arrivals) {
            if self.places() {
                self.place(slot, host);
            } else {
                self.route_arrival(slot, host);
            }
        }
        let counts = (self.arrived, self.table.ended());
        let Some(keeper) = &mut self.roles else {
            return;
        };
        if keeper.asked_at == counts || keeper.moving.is_some() {
            return;
        }
        keeper.asked_at = counts;
        let view = Everyone {
            now: host.now(),
            instances: &self.instances,
        };
        if let Some((i, role)) = keeper.rule.switch(host.now(), &view) {
            self.begin_switch(InstanceId::new(i), role, host);
        }
    }

    /// Chooses both instances of a request that has just arrived and queues its prompt.
    fn place<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let Some(keeper) = &mut self.roles else {
            return;
        };
        let live = &self.table[slot];
        let request = Arrival {
            live,
            tokens: u64::from(live.handed_over(self.first_token)),
            instances: &self.instances,
        };
        let view = Everyone {
            now,
            instances: &self.instances,
        };
        keeper.moves.clear();
        let placement = keeper
            .rule
            .place(&request, &view, &mut keeper.moves)
            .expect("a rule that places places every request: there are always instances");
        for (i, role) in std::mem::take(&mut keeper.moves) {
            let id = InstanceId::new(i);
            self.instances[i].set_role(role, now);
            host.observer().role_changed(now, id, Some(role));
            keeper.mixed.push(id);
        }
        let (prefill, decode) = (
            InstanceId::new(placement.prefill),
            InstanceId::new(placement.decode),
        );
        let apart = prefill != decode;
        let role = self.instances[placement.prefill].role;
        let live = &mut self.table[slot];
        live.record.routed = now;
        live.placed = true;
        live.decode_on = decode;
        // Where both roles are at home a sequence may stay after all, so its prompt gets the blocks for that.
        live.hands_off = apart && role != Role::Both;
        let tokens = u64::from(live.handed_over(self.first_token));
        let on = &mut self.instances[placement.decode];
        on.placed += 1;
        if apart {
            on.promised += on.blocks_of(live, tokens);
        }
        self.queue_prompt_on(prefill, slot, host);
    }

    /// A request will not come to the decode instance that was chosen for it.
    pub(super) fn unplace(&mut self, slot: SlotId) {
        let (live, instances) = (&self.table[slot], &mut self.instances);
        unplace(
            live,
            u64::from(live.handed_over(self.first_token)),
            instances,
        );
    }

    /// The same for one that has ended.
    #[inline(never)]
    pub(super) fn unplace_ended(&mut self, live: &Live) {
        let tokens = u64::from(live.handed_over(self.first_token));
        unplace(live, tokens, &mut self.instances);
    }

    /// Lets mixed instances that are empty go back to their pools.
    #[inline(never)]
    pub(super) fn leave_mixed<H: Host>(&mut self, host: &mut H) {
        let Some(keeper) = &mut self.roles else {
            return;
        };
        let (instances, rule) = (&mut self.instances, &mut keeper.rule);
        keeper.mixed.retain(|id| {
            let instance = &mut instances[id.index()];
            if !instance.is_empty() {
                return true;
            }
            let role = rule.emptied(id.index());
            instance.set_role(role, host.now());
            let now = host.now();
            host.observer().role_changed(now, *id, Some(role));
            false
        });
    }

    fn begin_switch<H: Host>(&mut self, id: InstanceId, role: Role, host: &mut H) {
        self.instances[id.index()].moving = true;
        let now = host.now();
        host.observer().role_changed(now, id, None);
        self.prefill.set_open(id, false, &self.instances);
        self.decode.set_open(id, false, &self.instances);
        if let Some(keeper) = &mut self.roles {
            (keeper.moving, keeper.taking) = (Some((id, role)), false);
        }
        self.settle_switch(host);
    }

    /// Once the instance on its way to another role has nothing left, it begins to take it.
    #[inline(never)]
    pub(super) fn settle_switch<H: Host>(&mut self, host: &mut H) {
        let Some(keeper) = &mut self.roles else {
            return;
        };
        let Some((id, _)) = keeper.moving else {
            return;
        };
        if keeper.taking || !self.instances[id.index()].is_empty() {
            return;
        }
        keeper.taking = true;
        if keeper.switch_time > SimDuration::ZERO {
            host.schedule(keeper.lane, host.now().saturating_add(keeper.switch_time));
        } else {
            self.end_switch(host);
        }
    }

    /// An instance has taken its new role.
    #[inline(never)]
    pub(super) fn end_switch<H: Host>(&mut self, host: &mut H) {
        let Some(keeper) = &mut self.roles else {
            return;
        };
        let Some((id, role)) = keeper.moving.take() else {
            return;
        };
        let now = host.now();
        self.instances[id.index()].set_role(role, now);
        host.observer().role_changed(now, id, Some(role));
        self.prefill
            .set_open(id, role != Role::Decode, &self.instances);
        self.decode
            .set_open(id, role == Role::Decode, &self.instances);
    }
}

fn unplace(live: &Live, tokens: u64, instances: &mut [Instance]) {
    let instance = &mut instances[live.decode_on.index()];
    instance.placed -= 1;
    instance.promised -= instance.blocks_of(live, tokens);
}
