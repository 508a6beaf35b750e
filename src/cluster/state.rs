//! The cluster as a whole: tables, routing and what happens in each phase of an instant.

use std::sync::Arc;

use super::finish::Outlet;
use super::group::Group;
use super::host::Host;
use super::instance::{Batch, Instance, PipelineStage};
use super::observer::{Observer, PoolSample};
use super::pool::Pool;
use super::record::{Outcome, RejectReason};
use super::routing::Routing;
use super::spec::{FirstToken, PoolSpec, Role, SystemSpec};
use super::step::Shop;
use super::table::Table;
use super::views::Phase;
use crate::ids::{InstanceId, PoolId, RequestId, SlotId};
use crate::kv::{BlockPool, PrefixCache, blocks_for};
use crate::net::Link;
use crate::policy::batch::StepPlan;
use crate::units::SimTime;
use crate::workload::{Prefixes, RequestSpec};

/// Which source of events a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// A pipeline stage of an instance.
    Stage(InstanceId, u32),
    /// The outgoing link of an instance.
    Link(InstanceId),
}

/// The state of a simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(super) pools: Vec<Pool>,
    pub(super) instances: Vec<Instance>,
    pub(super) table: Table,
    lanes: Vec<Lane>,
    prefill: Routing,
    pub(super) decode: Routing,
    pub(super) first_token: FirstToken,
    fast_forward: bool,
    /// Requests that arrived at this instant and are not routed yet.
    arrivals: Vec<SlotId>,
    /// Prompts done at this instant that must travel.
    pub(super) handoffs: Vec<SlotId>,
    /// Instances on which something changed, each once.
    dirty: Vec<InstanceId>,
    plan: StepPlan,
    arrived: usize,
}

impl Cluster {
    /// Builds an idle cluster.
    #[must_use]
    pub fn new(spec: &SystemSpec, prefixes: Option<Arc<Prefixes>>) -> Self {
        let prompt_block = prefixes.as_ref().map(|p| p.block_tokens());
        let mut instances: Vec<Instance> = Vec::new();
        let mut lanes = Vec::new();
        for (index, pool) in spec.pools.iter().enumerate() {
            for _ in 0..pool.instances {
                let id = InstanceId::new(instances.len());
                let link = Link::new(spec.transfer.base, spec.transfer.bytes_per_sec);
                instances.push(new_instance(
                    id,
                    PoolId::new(index),
                    pool,
                    lanes.len(),
                    link,
                    prompt_block,
                ));
                lanes.extend((0..pool.pp).map(|stage| Lane::Stage(id, stage)));
            }
        }
        // Links come after all stages: at one instant steps end before transfers do.
        for instance in &mut instances {
            instance.link_lane = lanes.len();
            lanes.push(Lane::Link(instance.id));
        }
        let of_role = |wanted: &[Role]| {
            let fits = |i: &&Instance| wanted.contains(&spec.pools[i.pool.index()].role);
            instances
                .iter()
                .filter(fits)
                .map(|i| i.id)
                .collect::<Vec<_>>()
        };
        let (prefill_ids, decode_ids) = (
            of_role(&[Role::Both, Role::Prefill]),
            of_role(&[Role::Decode]),
        );
        Self {
            prefill: Routing::new(Phase::Prefill, prefill_ids, spec.prefill_router),
            decode: Routing::new(Phase::Decode, decode_ids, spec.decode_router),
            pools: spec.pools.iter().map(Pool::new).collect(),
            instances,
            table: Table::new(prefixes),
            lanes,
            first_token: spec.first_token,
            fast_forward: spec.fast_forward,
            arrivals: Vec::new(),
            handoffs: Vec::new(),
            dirty: Vec::new(),
            plan: StepPlan::default(),
            arrived: 0,
        }
    }

    /// How many lanes the calendar needs.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// A request enters the cluster; it is routed in this instant's dispatch.
    pub fn arrive<H: Host>(&mut self, request: &RequestSpec, host: &mut H) {
        let id = RequestId::new(self.arrived);
        self.arrived += 1;
        host.observer().arrived(id, request);
        let slot = self.table.insert(id, request);
        if self.never_fits(request) {
            self.table[slot].record.outcome = Outcome::Rejected(RejectReason::LargerThanKvPool);
            host.observer().ended(&self.table[slot].record);
            self.table.remove(slot);
            return;
        }
        self.arrivals.push(slot);
    }

    /// Whether some pool on the request's way could not hold it even alone. It would wait for ever, so it is refused.
    fn never_fits(&self, request: &RequestSpec) -> bool {
        let prompt = u64::from(request.input_tokens);
        let whole = prompt + u64::from(request.output_tokens) - 1;
        self.pools.iter().any(|pool| {
            let tokens = if pool.role == Role::Prefill {
                prompt
            } else {
                whole
            };
            pool.kv
                .blocks
                .is_some_and(|blocks| blocks_for(tokens, pool.kv.block_tokens) > blocks)
        })
    }

    /// The event of `lane` is due.
    pub fn fire<H: Host>(&mut self, lane: usize, host: &mut H) {
        match self.lanes[lane] {
            Lane::Stage(id, stage) => {
                let instance = &mut self.instances[id.index()];
                let mut outlet = Outlet {
                    role: self.pools[instance.pool.index()].role,
                    first_token: self.first_token,
                    table: &mut self.table,
                    handoffs: &mut self.handoffs,
                };
                instance.end_steps(stage as usize, &mut outlet, host);
                self.mark_dirty(id);
            }
            Lane::Link(id) => self.end_transfer(id, host),
        }
    }

    /// The first half of dispatch: routes what arrived and what is to be handed off. It may cut decode runs at this very instant,
    /// so the caller fires due lanes again before [`Cluster::form`].
    pub fn route<H: Host>(&mut self, host: &mut H) {
        // What happened at this instant has changed queues.
        self.refresh_routing();
        self.route_handoffs(host);
        // In order of ids, so that whose transfer queues first does not depend on which events led here.
        self.dirty.sort_unstable();
        for i in 0..self.dirty.len() {
            self.admit_inbound(self.dirty[i], host);
        }
        for i in 0..self.arrivals.len() {
            self.route_arrival(self.arrivals[i], host);
        }
        self.arrivals.clear();
    }

    /// The second half of dispatch: forms steps on every instance that changed, in order of ids.
    pub fn form<H: Host>(&mut self, host: &mut H) {
        self.dirty.sort_unstable();
        for i in 0..self.dirty.len() {
            let instance = &mut self.instances[self.dirty[i].index()];
            instance.dirty = false;
            let mut shop = Shop {
                pool: &mut self.pools[instance.pool.index()],
                table: &mut self.table,
                plan: &mut self.plan,
                fast_forward: self.fast_forward,
            };
            instance.form(&mut shop, host);
        }
        self.refresh_routing();
        self.dirty.clear();
    }

    fn refresh_routing(&mut self) {
        for id in &self.dirty {
            let instance = &self.instances[id.index()];
            self.prefill.refresh(instance);
            self.decode.refresh(instance);
        }
    }

    fn route_arrival<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let now = host.now();
        let chosen = self
            .prefill
            .choose(&self.table, slot, &mut self.instances, now);
        let live = &mut self.table[slot];
        live.record.routed = now;
        let instance = &mut self.instances[chosen.index()];
        instance.pending_tokens += u64::from(live.record.input_tokens);
        // Behind a prompt that could not be admitted nothing changes: first come, first served.
        let blocked = !instance.waiting.is_empty();
        instance.waiting.push_back(slot);
        if !blocked {
            instance.cut_run(host);
        }
        self.prefill.refresh(instance);
        self.mark_dirty(chosen);
    }

    pub(super) fn mark_dirty(&mut self, id: InstanceId) {
        let instance = &mut self.instances[id.index()];
        if !instance.dirty {
            instance.dirty = true;
            self.dirty.push(id);
        }
    }

    /// The state of each pool at `now`, decode runs advanced to that instant.
    pub fn sample(&self, now: SimTime, into: &mut Vec<PoolSample>) {
        into.clear();
        into.resize(self.pools.len(), PoolSample::default());
        for instance in &self.instances {
            let sample = &mut into[instance.pool.index()];
            sample.waiting += instance.waiting.len() as u64;
            sample.prefilling += u64::from(instance.prefilling);
            sample.decoding += instance.decoding();
            sample.handing_off += u64::from(instance.handing_off);
            sample.kv_used += instance.used_after(now);
            sample.kv_capacity += instance.kv.capacity().unwrap_or(0);
            sample.busy += u64::from(instance.stages.iter().any(|stage| stage.busy));
        }
    }

    /// The horizon has come: requests still alive end as unfinished.
    pub fn stop<H: Host>(&mut self, host: &mut H) {
        for instance in &mut self.instances {
            instance.stop(&mut self.table, host);
        }
        for slot in self.table.live_by_id() {
            host.observer().ended(&self.table[slot].record);
            self.table.remove(slot);
        }
    }

    /// Requests that are in the cluster and can only move when an event comes: with no event pending they are stuck.
    #[must_use]
    pub fn stuck(&self) -> Vec<RequestId> {
        self.table
            .live_by_id()
            .into_iter()
            .map(|slot| self.table[slot].record.id)
            .collect()
    }
}

fn new_instance(
    id: InstanceId,
    pool: PoolId,
    spec: &PoolSpec,
    lane: usize,
    link: Link,
    prompt_block: Option<u32>,
) -> Instance {
    let block_tokens = spec.kv.blocks.map(|_| spec.kv.block_tokens);
    let keeps_order = spec.limits.max_decode_context.is_some();
    let caches = prompt_block.is_some() && spec.kv.prefix_cache && spec.role != Role::Decode;
    let stage = || PipelineStage {
        batch: Batch::new(block_tokens, keeps_order),
        busy: false,
        units: std::collections::VecDeque::new(),
        wait: Group::new(block_tokens, keeps_order),
    };
    Instance {
        id,
        pool,
        lane,
        link_lane: 0,
        policy: spec.batch.build(),
        waiting: std::collections::VecDeque::new(),
        partial: Vec::new(),
        joiners: Vec::new(),
        inbound: std::collections::VecDeque::new(),
        expected: 0,
        left_over: 0,
        stages: (0..spec.pp).map(|_| stage()).collect(),
        kv: BlockPool::new(spec.kv.block_tokens, spec.kv.blocks),
        prefix: caches.then(PrefixCache::default),
        prefix_unit: blocks_for(u64::from(prompt_block.unwrap_or(1)), spec.kv.block_tokens),
        unreported: 0,
        seqs: 0,
        prefilling: 0,
        handing_off: 0,
        pending_tokens: 0,
        link,
        spare: Vec::new(),
        block_tokens,
        keeps_order,
        dirty: false,
    }
}
