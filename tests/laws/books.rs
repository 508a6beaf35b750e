//! An observer that checks each fact against those before it: laws L1 to L5 while the simulation runs.

use std::collections::BTreeMap;

use pdsim::cluster::{
    Outcome, RequestRecord, Reservation, Role, RunClock, SystemSpec, TransferFact, TransferMode,
};
use pdsim::ids::{InstanceId, RequestId};
use pdsim::sim::{Gaps, Observer, PoolSample, StepFact};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

/// The books of one run.
#[derive(Debug)]
pub(crate) struct Books {
    /// Role, KV capacity and KV bytes per token of each instance.
    instances: Vec<(Role, Option<u64>, u64, u32)>,
    /// Latest instant heard of.
    now: SimTime,
    horizon: Option<SimTime>,
    /// Requests may wait for decode blocks before they are routed.
    early: bool,
    inside: BTreeMap<RequestId, RequestSpec>,
    pub(crate) records: Vec<RequestRecord>,
    held: BTreeMap<InstanceId, u64>,
    /// By sender, receiver and bytes.
    flying: BTreeMap<(InstanceId, InstanceId, u64), u32>,
    /// Most transfers that whoever posts them may have in flight.
    in_flight: u32,
    mode: TransferMode,
    /// Copies to host memory come first, of which any number may wait for the link.
    staged: bool,
    /// Transfers whose whole way was told.
    told: u64,
    pub(crate) transfers: (u64, u64),
    preempted: BTreeMap<RequestId, u16>,
    pub(crate) gaps: u64,
    /// Prompt tokens computed on first stages, and sequences decoded on last stages.
    pub(crate) computed: u64,
    pub(crate) decoded: u64,
    next_sample: SimTime,
    finished: bool,
}

impl Books {
    pub(crate) fn new(spec: &SystemSpec, horizon: Option<SimTime>) -> Self {
        let of = |pool: &pdsim::cluster::PoolSpec| {
            let row = (pool.role, pool.kv.blocks, pool.kv.bytes_per_token, pool.pp);
            std::iter::repeat_n(row, pool.instances as usize)
        };
        Self {
            instances: spec.pools.iter().flat_map(of).collect(),
            now: SimTime::ZERO,
            horizon,
            early: spec.reservation == Reservation::Early,
            inside: BTreeMap::new(),
            records: Vec::new(),
            held: BTreeMap::new(),
            flying: BTreeMap::new(),
            in_flight: spec
                .transfer
                .sharing
                .as_ref()
                .map_or(1, |sharing| sharing.in_flight),
            mode: spec.transfer.mode,
            staged: spec.transfer.staging.is_some(),
            told: 0,
            transfers: (0, 0),
            preempted: BTreeMap::new(),
            gaps: 0,
            computed: 0,
            decoded: 0,
            next_sample: SimTime::ZERO,
            finished: false,
        }
    }

    /// L2.
    fn tick(&mut self, now: SimTime) {
        assert!(!self.finished, "L2: a fact after the end");
        assert!(now >= self.now, "L2: {now:?} after {:?}", self.now);
        self.now = now;
    }

    /// What must hold when nothing is left to do.
    pub(crate) fn assert_closed(&self) {
        assert!(self.finished, "the end was told");
        assert!(self.inside.is_empty(), "L1: never ended: {:?}", self.inside);
        if self.horizon.is_none() {
            assert!(
                self.held.values().all(|&used| used == 0),
                "L4: blocks kept at the end: {:?}",
                self.held
            );
            assert!(
                self.flying.is_empty(),
                "L5: in flight at the end: {:?}",
                self.flying
            );
        }
        let (started, ended) = self.transfers;
        let flying: u32 = self.flying.values().sum();
        assert_eq!(started, ended + u64::from(flying), "L5");
    }

    /// L3 and the shape of a history.
    fn check_history(&self, r: &RequestRecord) {
        let phases = [
            r.arrival,
            r.routed,
            r.prefill_start,
            r.prefill_end,
            r.transfer_start,
            r.transfer_end,
            r.decode_start,
        ];
        let present: Vec<SimTime> = phases
            .into_iter()
            .filter(|&at| at != SimTime::NEVER)
            .collect();
        assert!(present.is_sorted(), "L3: {r:?}");
        let waits = self.early && r.outcome == Outcome::Unfinished;
        assert!(
            (r.routed == SimTime::NEVER) == matches!(r.outcome, Outcome::Rejected(_)) || waits,
            "L3: {r:?}"
        );
        assert_eq!(
            self.preempted.get(&r.id).copied().unwrap_or(0),
            r.preemptions,
            "{r:?}"
        );
        if r.outcome != Outcome::Done {
            return;
        }
        let on = r
            .prefill_instance
            .expect("L3: a request that is done was computed somewhere");
        let (role, ..) = self.instances[on.index()];
        let travels = role == Role::Prefill && r.decode_instance.is_some();
        assert_eq!(travels, r.transfer_start != SimTime::NEVER, "L3: {r:?}");
        assert_eq!(travels, r.transfer_end != SimTime::NEVER, "L3: {r:?}");
        assert!(
            r.prefill_end > r.prefill_start,
            "L3: steps take time: {r:?}"
        );
        if r.first_token != r.prefill_end {
            assert!(travels && r.first_token > r.decode_start, "L3: {r:?}");
        }
        let gaps = u64::from(r.output_tokens) - 1;
        assert!(
            r.last_token >= r.first_token.saturating_add(SimDuration::from_ps(gaps)),
            "L3: {r:?}"
        );
        assert_eq!(r.last_token, self.now, "L3: told when it ended");
        if gaps > 0 {
            let (role, ..) =
                self.instances[r.decode_instance.expect("L3: it decoded somewhere").index()];
            assert!(role != Role::Prefill, "L3: {r:?}");
            assert!(
                r.decode_start != SimTime::NEVER && r.decode_start < r.last_token,
                "L3: {r:?}"
            );
        }
    }
}

impl Observer for Books {
    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        self.tick(request.arrival);
        let again = self.inside.insert(id, *request);
        assert!(
            again.is_none() && !self.records.iter().any(|r| r.id == id),
            "L1: {id} arrived twice"
        );
    }

    fn ended(&mut self, record: &RequestRecord) {
        let request = self
            .inside
            .remove(&record.id)
            .expect("L1: a request ends once, after it arrived");
        assert_eq!(
            (
                record.arrival,
                record.input_tokens,
                record.output_tokens,
                record.class
            ),
            (
                request.arrival,
                request.input_tokens,
                request.output_tokens,
                request.class
            )
        );
        if record.outcome == Outcome::Unfinished {
            assert!(self.horizon.is_some(), "L1: unfinished without a horizon");
        } else {
            let end = if record.outcome == Outcome::Done {
                record.last_token
            } else {
                record.arrival
            };
            self.tick(end);
        }
        self.check_history(record);
        self.records.push(*record);
    }

    fn stepped(&mut self, fact: &StepFact) {
        assert!(fact.start < fact.end, "steps take time: {fact:?}");
        assert!(
            fact.steps > 0 && (fact.prompts > 0 || fact.decodes > 0),
            "{fact:?}"
        );
        assert_eq!(fact.prompts > 0, fact.prefill_tokens > 0, "{fact:?}");
        if self.horizon.is_none() {
            self.tick(fact.end);
        }
        let (.., pp) = self.instances[fact.instance.index()];
        if fact.stage == 0 {
            self.computed += fact.prefill_tokens * fact.steps;
        }
        if fact.stage + 1 == pp {
            self.decoded += u64::from(fact.decodes) * fact.steps;
        }
    }

    fn gaps(&mut self, _: &RunClock, gaps: &Gaps) {
        self.gaps += gaps.count * gaps.sequences;
    }

    fn gap(&mut self, from: SimTime, to: SimTime, sequences: u64) {
        assert!(to > from, "L3: tokens come one after the other");
        self.gaps += sequences;
    }

    fn kv_changed(&mut self, now: SimTime, instance: InstanceId, delta: i64, used: u64) {
        self.tick(now);
        let held = self.held.entry(instance).or_default();
        *held = held
            .checked_add_signed(delta)
            .expect("L4: more given back than taken");
        assert_eq!(*held, used, "L4: allocated = freed + held");
        let (_, capacity, ..) = self.instances[instance.index()];
        assert!(
            used <= capacity.expect("L4: only finite memory is counted"),
            "L4: above capacity"
        );
    }

    fn transfer_started(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        self.tick(now);
        self.transfers.0 += 1;
        let roles = (self.instances[from.index()].0, self.instances[to.index()].0);
        assert_eq!(roles, (Role::Prefill, Role::Decode), "L5");
        *self.flying.entry((from, to, bytes)).or_default() += 1;
        let push = self.mode == TransferMode::Push;
        let posted = |key: &&(InstanceId, InstanceId, u64)| {
            if push { key.0 == from } else { key.1 == to }
        };
        let mine = self.flying.iter().filter(|(key, _)| posted(key));
        let count: u32 = mine.map(|(_, count)| count).sum();
        assert!(
            count <= self.in_flight || self.staged,
            "L5: {count} {from:?} {to:?}"
        );
    }

    fn transfer_ended(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        self.tick(now);
        self.transfers.1 += 1;
        let key = (from, to, bytes);
        let count = self
            .flying
            .get_mut(&key)
            .expect("L5: what ends has started");
        *count -= 1;
        if *count == 0 {
            self.flying.remove(&key);
        }
    }

    fn transferred(&mut self, fact: &TransferFact) {
        self.told += 1;
        assert_eq!(self.told, self.transfers.1, "L5: told when it ended");
        let way = [
            fact.queued,
            fact.departed,
            fact.ready,
            fact.turn,
            fact.wire,
            fact.landed,
            fact.up,
            fact.ended,
        ];
        assert!(way.is_sorted() && fact.ended == self.now, "L3: {fact:?}");
        assert!(fact.early_bytes <= fact.bytes, "L5: {fact:?}");
    }

    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        self.tick(now);
        assert!(
            self.inside.contains_key(&id),
            "L1: {id} preempted after its end"
        );
        assert!(
            self.instances[instance.index()].0 != Role::Prefill,
            "only decodes are preempted"
        );
        *self.preempted.entry(id).or_default() += 1;
    }

    fn next_sample(&self) -> SimTime {
        self.next_sample
    }

    fn sample(&mut self, now: SimTime, pools: &[PoolSample]) {
        // Later facts may tell of runs that ended before the sample, never of events before it.
        self.tick(now);
        let inside: u64 = pools
            .iter()
            .map(|p| p.waiting + p.prefilling + p.decoding + p.handing_off)
            .sum();
        assert_eq!(
            inside,
            self.inside.len() as u64,
            "L1: everyone inside is in one place at {now:?}: {pools:?}"
        );
        for pool in pools {
            assert!(pool.kv_used <= pool.kv_capacity, "L4: {pool:?}");
        }
        self.next_sample =
            now.saturating_add(SimDuration::from_ps(7_000_000_001.max(now.as_ps() / 200)));
    }

    fn finished(&mut self, now: SimTime) {
        self.tick(now);
        self.finished = true;
    }
}
