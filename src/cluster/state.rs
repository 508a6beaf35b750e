//! The cluster as a whole: tables, routing and what happens in each phase of an instant.

use std::sync::Arc;

use super::finish::Outlet;
use super::group::Group;
use super::host::Host;
use super::instance::{Batch, Instance, PipelineStage};
use super::journey::Journey;
use super::observer::{Observer, PoolSample};
use super::overlap::{self, Produced};
use super::pool::Pool;
use super::record::{Outcome, RejectReason};
use super::refusal::tokens_everywhere;
use super::roles::Keeper;
use super::routing::Routing;
use super::spec::{
    CpuTier, FirstToken, KvReserve, KvSpec, Overlap, PoolSpec, Reservation, Role, Sharing,
    SkipPrefill, SystemSpec, TransferSpec,
};
use super::staging::{Copies, Way};
use super::step::Shop;
use super::table::{Live, Table};
use super::views::Phase;
use crate::ids::{InstanceId, PoolId, RequestId, SlotId};
use crate::kv::{BlockPool, CpuCache, PrefixCache, blocks_for};
use crate::net::{Fabric, Link};
use crate::policy::batch::StepPlan;
use crate::units::{SimDuration, SimTime};
use crate::workload::{Prefixes, RequestSpec};

/// Which source of events a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// A pipeline stage of an instance.
    Stage(InstanceId, u32),
    /// The link of an instance.
    Link(InstanceId),
    /// Copies to or from the host memory of an instance.
    Copy(InstanceId, Way),
    /// The instance that is taking another role.
    Switch,
    /// The network that transfers share.
    Fabric,
}

/// The state of a simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(super) pools: Vec<Pool>,
    pub(super) instances: Vec<Instance>,
    pub(super) table: Table,
    lanes: Vec<Lane>,
    pub(super) fabric_lane: usize,
    pub(super) fabric: Option<Fabric>,
    pub(super) transfer: TransferSpec,
    pub(super) prefill: Routing,
    pub(super) decode: Routing,
    /// Who changes roles, if anybody does.
    pub(super) roles: Option<Box<Keeper>>,
    pub(super) first_token: FirstToken,
    fast_forward: bool,
    /// Layers of the model, if prompts travel layer by layer.
    layers: Option<u32>,
    /// Whether some decode pool sends preempted sequences back to prefill instances.
    pub(super) returning: bool,
    /// Requests that arrived at this instant and are not routed yet.
    pub(super) arrivals: Vec<SlotId>,
    /// When decode blocks are reserved.
    reservation: Reservation,
    /// Which prompts do not use the prefill pools.
    skip: SkipPrefill,
    /// Requests that got their blocks early at this instant and are not routed yet.
    pub(super) reserved: Vec<SlotId>,
    /// Requests that ended on a prefill instance with blocks reserved elsewhere.
    pub(super) cancelled: Vec<(SlotId, Live)>,
    /// Preempted sequences that go back to a prefill instance.
    returns: Vec<SlotId>,
    /// Prompts done at this instant that must travel.
    pub(super) handoffs: Vec<SlotId>,
    /// Ways of KV caches to decode instances, by slot; empty where nothing travels.
    pub(super) journeys: Vec<Journey>,
    /// Parts of prompts that have come to be and may travel.
    pub(super) produced: Vec<Produced>,
    /// Instances on which something changed, each once.
    dirty: Vec<InstanceId>,
    plan: StepPlan,
    pub(super) arrived: usize,
    /// Tokens that every instance can hold: a request of no more fits anywhere.
    pub(super) always_fits: u64,
}

impl Cluster {
    /// Builds an idle cluster; what is drawn by chance is drawn from `seed`.
    #[must_use]
    pub fn new(spec: &SystemSpec, seed: u64, prefixes: Option<Arc<Prefixes>>) -> Self {
        let prompt_block = prefixes.as_ref().map(|p| p.block_tokens());
        let all = spec.pools.iter().map(|pool| pool.instances).sum();
        let sharing = overlap::network(&spec.transfer, all);
        let (instances, lanes, switch_lane) = lay_out(spec, sharing.as_ref(), prompt_block);
        let of_role = |wanted: &[Role]| {
            let fits = |i: &&Instance| wanted.contains(&i.role);
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
            prefill: Routing::new(Phase::Prefill, prefill_ids, spec.prefill_router, seed),
            decode: Routing::new(Phase::Decode, decode_ids, spec.decode_router, seed),
            roles: Keeper::new(&spec.roles, &instances, switch_lane),
            pools: spec.pools.iter().map(Pool::new).collect(),
            instances,
            table: Table::new(prefixes),
            // The last one, if there is a network.
            fabric_lane: lanes.len().saturating_sub(1),
            lanes,
            fabric: sharing.map(|sharing| Fabric::new(sharing.topology)),
            transfer: spec.transfer.clone(),
            first_token: spec.first_token,
            fast_forward: spec.fast_forward,
            layers: match spec.transfer.overlap {
                Overlap::Layerwise { layers } => Some(layers),
                Overlap::None | Overlap::Chunk => None,
            },
            returning: spec.returns_to_prefill(),
            arrivals: Vec::new(),
            reservation: spec.reservation,
            skip: spec.skip,
            reserved: Vec::new(),
            cancelled: Vec::new(),
            returns: Vec::new(),
            handoffs: Vec::new(),
            journeys: Vec::new(),
            produced: Vec::new(),
            dirty: Vec::new(),
            plan: StepPlan::default(),
            arrived: 0,
            always_fits: tokens_everywhere(&spec.pools),
        }
    }

    /// How many lanes the calendar needs.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// How many requests have ended so far, in any way.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.arrived - self.table.len()
    }

    /// A request enters the cluster; it is routed in this instant's dispatch.
    pub fn arrive<H: Host>(&mut self, request: &RequestSpec, host: &mut H) {
        let id = RequestId::new(self.arrived);
        self.arrived += 1;
        host.observer().arrived(id, request);
        let slot = self.table.insert(id, request);
        if let Some(shortage) = self.never_fits(request) {
            self.table[slot].record.outcome = Outcome::Rejected(RejectReason::LargerThanKvPool);
            host.observer().refused(id, &shortage);
            host.observer().ended(&self.table[slot].record);
            self.table.remove(slot);
            return;
        }
        self.arrivals.push(slot);
    }

    /// The event of `lane` is due.
    pub fn fire<H: Host>(&mut self, lane: usize, host: &mut H) {
        match self.lanes[lane] {
            Lane::Stage(id, stage) => {
                let instance = &mut self.instances[id.index()];
                let early = self.transfer.overlap != Overlap::None;
                let mut outlet = Outlet {
                    first_token: self.first_token,
                    table: &mut self.table,
                    handoffs: &mut self.handoffs,
                    cancelled: &mut self.cancelled,
                    produced: early.then_some(&mut self.produced),
                };
                instance.end_steps(stage as usize, &mut outlet, host);
                self.mark_dirty(id);
                if !self.produced.is_empty() {
                    self.feed_network(host);
                }
            }
            Lane::Link(id) => self.end_on_link(id, host),
            Lane::Copy(id, way) => self.end_copying(id, way, host),
            Lane::Switch => self.end_switch(host),
            Lane::Fabric => self.end_in_fabric(host),
        }
    }

    /// The first half of dispatch: routes what arrived and what is to be handed off. It may cut decode runs at this very instant,
    /// so the caller fires due lanes again before [`Cluster::form`].
    pub fn route<H: Host>(&mut self, host: &mut H) {
        // What happened at this instant has changed queues.
        self.cancel_early(host);
        self.refresh_routing();
        self.route_handoffs(host);
        if self.reservation == Reservation::Early && self.decode.is_used() && !self.places() {
            self.queue_early(host);
        }
        if self.hands_off() {
            // In order of ids, so that whose transfer queues first does not depend on which events led here.
            self.dirty.sort_unstable();
            for i in 0..self.dirty.len() {
                let id = self.dirty[i];
                if !self.instances[id.index()].inbound.is_empty() {
                    self.admit_inbound(id, host);
                }
            }
            self.route_reserved(host);
        }
        if self.roles.is_some() {
            self.route_under_roles(host);
            return;
        }
        for i in 0..self.arrivals.len() {
            self.route_arrival(self.arrivals[i], host);
        }
        self.arrivals.clear();
    }

    /// The second half of dispatch: forms steps on every instance that changed, in order of ids.
    pub fn form<H: Host>(&mut self, host: &mut H) {
        let mut from = 0;
        loop {
            self.dirty[from..].sort_unstable();
            for i in from..self.dirty.len() {
                let instance = &mut self.instances[self.dirty[i].index()];
                instance.dirty = false;
                let mut shop = Shop {
                    pool: &mut self.pools[instance.pool.index()],
                    table: &mut self.table,
                    plan: &mut self.plan,
                    returns: &mut self.returns,
                    fast_forward: self.fast_forward,
                    layers: self.layers.map(|layers| (&mut self.produced, layers)),
                };
                instance.form(&mut shop, host);
            }
            from = self.dirty.len();
            self.refresh_routing();
            if self.returns.is_empty() {
                break;
            }
            // What was preempted may start on a prefill instance at this very instant.
            for slot in std::mem::take(&mut self.returns) {
                self.queue_prompt(slot, host);
            }
        }
        self.dirty.clear();
        if !self.produced.is_empty() {
            self.feed_network(host);
        }
        if self.roles.is_some() {
            // What happened since routing may have emptied an instance, and when the next event comes is another matter.
            self.leave_mixed(host);
            self.settle_switch(host);
        }
    }

    /// Whether sequences may go from one instance to another.
    fn hands_off(&self) -> bool {
        self.decode.is_used() || self.roles.is_some()
    }

    #[inline]
    fn refresh_routing(&mut self) {
        if self.prefill.keeps_queues() || self.decode.keeps_queues() {
            self.note_queues();
        }
    }

    #[inline(never)]
    fn note_queues(&mut self) {
        for id in &self.dirty {
            let instance = &self.instances[id.index()];
            self.prefill.refresh(instance);
            self.decode.refresh(instance);
        }
    }

    pub(super) fn route_arrival<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        self.table[slot].record.routed = host.now();
        self.queue_prompt(slot, host);
    }

    /// Whether a prompt is so short that it skips the prefill pools.
    pub(super) fn is_short(&self, slot: SlotId) -> bool {
        self.skips_by_length(self.table[slot].record.input_tokens)
    }

    /// The same for a prompt of so many tokens.
    pub(super) fn skips_by_length(&self, input_tokens: u32) -> bool {
        self.decode.is_used() && input_tokens < self.skip.below
    }

    /// Puts a request in the queue of the instance that is to compute its prompt, or all it has to compute again.
    fn queue_prompt<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let chosen = self.choose_for_prompt(slot, host.now());
        let hands_off = self.instances[chosen.index()].role == Role::Prefill;
        self.table[slot].hands_off = hands_off;
        self.queue_prompt_on(chosen, slot, host);
    }

    /// Puts a request in the queue of `chosen`.
    pub(super) fn queue_prompt_on<H: Host>(
        &mut self,
        chosen: InstanceId,
        slot: SlotId,
        host: &mut H,
    ) {
        let instance = &mut self.instances[chosen.index()];
        let pool = &self.pools[instance.pool.index()];
        let next = instance.enqueue(slot, &pool.queue, &mut self.table);
        // A short prompt may pass long ones that the cap keeps waiting.
        if next || pool.limits.long_prompts.is_some() {
            instance.cut_run(host);
        }
        self.prefill.refresh(instance);
        self.decode.refresh(instance);
        self.mark_dirty(chosen);
    }

    /// The instance that is to compute a prompt: of the prefill pools, unless a rule lets it skip them.
    fn choose_for_prompt(&mut self, slot: SlotId, now: SimTime) -> InstanceId {
        let mut choose =
            |routing: &mut Routing| routing.choose(&self.table, slot, &mut self.instances, now);
        let again = self.table[slot].record.prefill_start != SimTime::NEVER;
        if again || !self.decode.is_used() {
            return choose(&mut self.prefill);
        }
        if self.table[slot].record.input_tokens < self.skip.below {
            return choose(&mut self.decode);
        }
        let mut decode_on = None;
        if self.reservation == Reservation::AtHandoffChosenAtArrival {
            let chosen = choose(&mut self.decode);
            if self.skip.uncached_below > 0
                && self.instances[chosen.index()].uncached(&self.table, slot, now)
                    < self.skip.uncached_below
            {
                return chosen;
            }
            decode_on = Some(chosen);
        }
        let mut choose =
            |routing: &mut Routing| routing.choose(&self.table, slot, &mut self.instances, now);
        let prefill_on = choose(&mut self.prefill);
        let queued = || self.instances[prefill_on.index()].queued(Phase::Prefill);
        if self.skip.at_queue.is_some_and(|most| queued() >= most) {
            return decode_on.unwrap_or_else(|| {
                self.decode
                    .choose(&self.table, slot, &mut self.instances, now)
            });
        }
        if let Some(decode_on) = decode_on {
            self.assign(slot, decode_on);
        }
        prefill_on
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
            sample.waiting += (instance.waiting.len() + instance.swapped.len()) as u64;
            sample.waiting += instance.early;
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

    /// Whether no request is in the cluster.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

/// The instances of all pools, and the lanes of their events.
fn lay_out(
    spec: &SystemSpec,
    sharing: Option<&Sharing>,
    prompt_block: Option<u32>,
) -> (Vec<Instance>, Vec<Lane>, usize) {
    let mut instances: Vec<Instance> = Vec::new();
    let mut lanes = Vec::new();
    let most_in_flight = sharing.map_or(1, |sharing| sharing.in_flight);
    for (index, pool) in spec.pools.iter().enumerate() {
        for _ in 0..pool.instances {
            let id = InstanceId::new(instances.len());
            let link = Link::new(spec.transfer.bytes_per_sec, most_in_flight);
            instances.push(new_instance(
                id,
                PoolId::new(index),
                pool,
                lanes.len(),
                link,
                prompt_block,
                spec.roles.moves(),
            ));
            lanes.extend((0..concurrent(pool)).map(|stage| Lane::Stage(id, stage)));
        }
    }
    // Links come after all stages: at one instant steps end before transfers do.
    for instance in &mut instances {
        instance.link_lane = lanes.len();
        lanes.push(Lane::Link(instance.id));
    }
    if let Some(staging) = &spec.transfer.staging {
        for instance in &mut instances {
            instance.copies = Some(Box::new(Copies::new(staging, lanes.len())));
            lanes.extend([Way::Out, Way::Into].map(|way| Lane::Copy(instance.id, way)));
        }
    }
    let switch_lane = lanes.len();
    if spec.roles.switch_time() > SimDuration::ZERO {
        lanes.push(Lane::Switch);
    }
    if sharing.is_some() {
        lanes.push(Lane::Fabric);
    }
    (instances, lanes, switch_lane)
}

fn new_instance(
    id: InstanceId,
    pool: PoolId,
    spec: &PoolSpec,
    lane: usize,
    link: Link,
    prompt_block: Option<u32>,
    moves: bool,
) -> Instance {
    let reserve = match (spec.role, spec.kv.reserve) {
        // What arrives there decodes; where roles change, what has its prompt computed may stay.
        (role, KvReserve::OracleAtDecode) if moves || role == Role::Decode => KvReserve::Oracle,
        (_, reserve) => reserve,
    };
    let grows = spec.kv.blocks.is_some() && reserve == KvReserve::Paged;
    let block_tokens = grows.then_some(spec.kv.block_tokens);
    let keeps_order = spec.limits.max_decode_context.is_some() || spec.batch.leaves_decodes_out();
    let caches = prompt_block.is_some() && spec.kv.prefix_cache;
    let prefix_unit = blocks_for(u64::from(prompt_block.unwrap_or(1)), spec.kv.block_tokens);
    let stage = || PipelineStage {
        batch: Batch::new(block_tokens, keeps_order),
        busy: false,
        units: std::collections::VecDeque::new(),
        wait: Box::new(Group::new(block_tokens, keeps_order)),
    };
    Instance {
        id,
        pool,
        role: spec.role,
        role_since: SimTime::ZERO,
        moving: false,
        lane,
        link_lane: 0,
        policy: spec.batch.build(),
        waiting: std::collections::VecDeque::new(),
        partial: Vec::new(),
        swapped: std::collections::VecDeque::new(),
        swap_time: SimDuration::ZERO,
        load_time: SimDuration::ZERO,
        joiners: Vec::new(),
        inbound: std::collections::VecDeque::new(),
        early: 0,
        assigned: 0,
        expected: 0,
        placed: 0,
        promised: 0,
        wanted: 0,
        left_over: 0,
        stages: (0..concurrent(spec)).map(|_| stage()).collect(),
        prompts: usize::from(spec.multiplex.is_some()),
        kv: BlockPool::new(spec.kv.block_tokens, spec.kv.blocks),
        reserve,
        prefix: caches.then(|| new_cache(&spec.kv, prefix_unit)),
        prefix_unit,
        prompt_block: u64::from(prompt_block.unwrap_or(1)),
        cpu_load: cpu_load(&spec.kv, prompt_block.unwrap_or(1)),
        unreported: 0,
        seqs: 0,
        prefilling: 0,
        handing_off: 0,
        pending_tokens: 0,
        prompt_tokens: 0,
        link,
        copies: None,
        spare: Vec::new(),
        block_tokens,
        keeps_order,
        dirty: false,
    }
}

/// Steps that an instance can have in progress: one per pipeline stage, or one per stream.
const fn concurrent(pool: &PoolSpec) -> u32 {
    if pool.multiplex.is_some() { 2 } else { pool.pp }
}

/// The prefix cache of an instance, with its CPU tier.
fn new_cache(kv: &KvSpec, prefix_unit: u64) -> PrefixCache {
    let cache = PrefixCache::default();
    match kv.cpu_cache {
        Some(tier) => cache.with_cpu(CpuCache::new(tier.blocks / prefix_unit)),
        None => cache,
    }
}

/// Time to load a prompt block from the CPU tier.
fn cpu_load(kv: &KvSpec, prompt_block: u32) -> SimDuration {
    let seconds = |tier: CpuTier| {
        let bytes = kv.bytes_per_token as f64 * f64::from(prompt_block);
        SimDuration::from_secs_f64(bytes / tier.bytes_per_sec)
    };
    // A bandwidth so low that the clock has no number for it never ends a load.
    kv.cpu_cache.map_or(SimDuration::ZERO, |tier| {
        seconds(tier).unwrap_or(SimDuration::from_ps(u64::MAX / 4))
    })
}
