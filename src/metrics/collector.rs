//! The observer that keeps the books of one run.

use super::client::ClientBook;
use super::close::close;
use super::config::{Config, Slo, Warmup};
use super::grounds::Grounds;
use super::histogram::Histogram;
use super::kv_peak::Level;
use super::links::Links;
use super::overlap::Overlap;
use super::records::Records;
use super::result::{Attainment, Counts, PrefixHits, RunMetrics};
use super::series::{Point, Series};
use super::sojourn::Sojourn;
use super::warning::TooLarge;
use crate::cluster::{
    Bill, Outcome, PoolSpec, RequestRecord, Role, RunClock, Shortage, SystemSpec, TransferFact,
};
use crate::ids::{InstanceId, RequestId};
use crate::sim::{Gaps, Observer, PoolSample, StepFact};
use crate::units::{PS_PER_S, SimDuration, SimTime};
use crate::workload::RequestSpec;

/// Watches one run of one system; see the [module](super).
#[derive(Debug)]
pub struct Collector {
    pub(super) config: Config,
    pub(super) pools: Vec<PoolBook>,
    /// Pool of each instance, by id.
    pub(super) pool_of: Vec<usize>,
    /// Role of each instance and since when it has it; `None`: on its way to another.
    roles: Vec<(Option<Role>, SimTime)>,
    /// Steps of each instance whose streams share a GPU; nothing for systems without.
    overlaps: Vec<Overlap>,
    /// Transfers in flight from each instance, and since when there is one.
    sending: Vec<(u32, SimTime)>,
    /// KV blocks of each instance.
    pub(super) kv: Vec<Level>,
    pub(super) links: Links,
    pub(super) transfers: Transfers,
    pub(super) counts: Counts,
    pub(super) attainment: Attainment,
    pub(super) sums: Sums,
    pub(super) latencies: Latencies,
    pub(super) itl: Histogram,
    pub(super) records: Records,
    pub(super) series: Series,
    /// Start of the measured window; `NEVER` until it is known.
    pub(super) window_start: SimTime,
    pub(super) last_arrival: SimTime,
    pub(super) end: SimTime,
    pub(super) sojourn: Sojourn,
    pub(super) client: ClientBook,
    /// The refused request that was largest for its pool.
    pub(super) too_large: Option<TooLarge>,
}

/// What is kept per pool.
#[derive(Debug)]
pub(super) struct PoolBook {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) gpu: String,
    pub(super) instances: u32,
    pub(super) gpus: u32,
    pub(super) stages: u32,
    /// Whether prompts and decodes run at the same time.
    pub(super) streams: bool,
    pub(super) kv_capacity: Option<u64>,
    /// Time in steps by kind, over all instances and stages, in picoseconds: prompts only, decodes only, both (in one step, or in two at
    /// the same time).
    pub(super) busy: [u128; 3],
    pub(super) steps: u64,
    pub(super) decode_steps: u64,
    pub(super) decoded: u128,
    pub(super) prefill_steps: u64,
    pub(super) prompts: u128,
    pub(super) sending: u128,
    pub(super) held_tokens: u64,
    pub(super) preemptions: u64,
    /// Role changes of its instances, to and from the mixed pool included.
    pub(super) switches: u64,
    /// Time of its instances as prefill, decode, mixed, and on the way to another role, in picoseconds.
    pub(super) roles: [u128; 4],
    pub(super) bill: Bill,
    pub(super) prefix: PrefixHits,
    /// Shapes of its steps, where its step times are composed of kernels.
    pub(super) grounds: Option<Grounds>,
}

/// Histograms that stand in for the records when those are not kept.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    pub(super) ttft: Histogram,
    pub(super) tpot: Histogram,
    pub(super) e2e: Histogram,
}

/// Transfers queued in the measured span.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) early_bytes: u64,
    /// Sums in picoseconds.
    pub(super) waited: u128,
    pub(super) exposed: u128,
}

/// Sums over measured requests that are done.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// Those of good requests.
    pub(super) good_output_tokens: u64,
    pub(super) preemptions: u64,
    /// Stages in the order of [`StageMeans`](super::StageMeans), in picoseconds.
    pub(super) stages: [u128; 6],
}

impl Collector {
    /// Makes a collector for one run of `system`.
    #[must_use]
    pub fn new(config: &Config, system: &SystemSpec) -> Self {
        let pool_of: Vec<usize> = system
            .pools
            .iter()
            .enumerate()
            .flat_map(|(i, pool)| std::iter::repeat_n(i, pool.instances as usize))
            .collect();
        let window_start = match config.warmup {
            Warmup::None | Warmup::Requests(_) => SimTime::NEVER,
            Warmup::Time(span) => SimTime::ZERO.saturating_add(span),
        };
        Self {
            config: *config,
            pools: system.pools.iter().map(PoolBook::new).collect(),
            roles: pool_of
                .iter()
                .map(|&pool| (Some(system.pools[pool].role), SimTime::ZERO))
                .collect(),
            overlaps: overlaps(system, pool_of.len()),
            sending: vec![(0, SimTime::ZERO); pool_of.len()],
            kv: vec![Level::default(); pool_of.len()],
            pool_of,
            links: Links::new(system),
            transfers: Transfers::default(),
            counts: Counts::default(),
            attainment: Attainment::default(),
            sums: Sums::default(),
            latencies: Latencies::default(),
            itl: Histogram::default(),
            records: Records::default(),
            series: Series::new(system.pools.len()),
            window_start,
            last_arrival: SimTime::ZERO,
            end: SimTime::ZERO,
            sojourn: Sojourn::default(),
            client: ClientBook::default(),
            too_large: None,
        }
    }

    /// Closes the books. Call it after the simulation has ended.
    #[must_use]
    pub fn into_metrics(self) -> RunMetrics {
        close(self)
    }

    /// Whether figures include the request.
    pub(super) fn measures(&self, record: &RequestRecord) -> bool {
        self.after_warmup(record.id, record.arrival)
    }

    fn after_warmup(&self, id: RequestId, arrival: SimTime) -> bool {
        match self.config.warmup {
            Warmup::None => true,
            Warmup::Requests(n) => id.index() as u64 >= n,
            Warmup::Time(_) => arrival >= self.window_start,
        }
    }

    fn book_latencies(&mut self, record: &RequestRecord) {
        if let Some(ttft) = record.ttft() {
            self.latencies.ttft.record(ttft, 1);
        }
        if let Some(e2e) = record.e2e() {
            self.latencies.e2e.record(e2e, 1);
            if record.output_tokens > 1 {
                let decode = record.last_token - record.first_token;
                let per_token = decode.as_ps() / u64::from(record.output_tokens - 1);
                self.latencies
                    .tpot
                    .record(SimDuration::from_ps(per_token), 1);
            }
        }
    }

    fn book_done(&mut self, record: &RequestRecord) {
        self.sums.input_tokens += u64::from(record.input_tokens);
        self.sums.output_tokens += u64::from(record.output_tokens);
        let stages = [
            record.router_wait(),
            record.prefill_queue(),
            record.prefill(),
            record.transfer_queue(),
            record.transfer(),
            record.decode_queue(),
        ];
        for (sum, stage) in self.sums.stages.iter_mut().zip(stages) {
            *sum += u128::from(stage.unwrap_or_default().as_ps());
        }
        if let Some(slo) = &self.config.slo {
            let (ttft, tpot) = (ttft_met(slo, record), tpot_met(slo, record));
            self.attainment.ttft_met += u64::from(ttft);
            self.attainment.tpot_met += u64::from(tpot);
            if meets(slo, record) {
                self.attainment.met += 1;
                self.sums.good_output_tokens += u64::from(record.output_tokens);
            }
        }
    }

    /// Moves the time of a step beside one of the other stream to the time of both.
    fn book_overlap(&mut self, kind: usize, fact: &StepFact) {
        let window = self.window_start;
        let mut shared = 0;
        self.overlaps[fact.instance.index()].add(kind, fact.start, fact.end, |from, to| {
            shared += u128::from(to.saturating_since(from.max(window)).as_ps());
        });
        let busy = &mut self.pool(fact.instance).busy;
        busy[0] -= shared;
        busy[1] -= shared;
        busy[2] += shared;
    }

    fn pool(&mut self, instance: InstanceId) -> &mut PoolBook {
        &mut self.pools[self.pool_of[instance.index()]]
    }

    /// Books the time of an instance in its role up to `now`.
    fn book_role(&mut self, instance: InstanceId, now: SimTime) {
        let (role, since) = self.roles[instance.index()];
        let span = self.clip(since, now);
        let kind = match role {
            Some(Role::Prefill) => 0,
            Some(Role::Decode) => 1,
            Some(Role::Both) => 2,
            None => 3,
        };
        self.pool(instance).roles[kind] += span;
    }

    /// The part of `start..end` inside the measured span, in picoseconds.
    fn clip(&self, start: SimTime, end: SimTime) -> u128 {
        let from = start.max(self.window_start);
        u128::from(end.saturating_since(from).as_ps())
    }
}

/// What is kept of steps, by instance, if the streams of some share a GPU.
fn overlaps(system: &SystemSpec, instances: usize) -> Vec<Overlap> {
    let some = system.pools.iter().any(|pool| pool.multiplex.is_some());
    (0..if some { instances } else { 0 })
        .map(|_| Overlap::default())
        .collect()
}

/// Whether a request is done within every limit of the promise.
#[must_use]
pub fn meets(slo: &Slo, record: &RequestRecord) -> bool {
    let e2e = match (slo.e2e, record.e2e()) {
        (None, Some(_)) => true,
        (Some(limit), Some(seen)) => seen <= limit,
        (_, None) => false,
    };
    e2e && ttft_met(slo, record) && tpot_met(slo, record)
}

fn ttft_met(slo: &Slo, record: &RequestRecord) -> bool {
    slo.ttft
        .is_none_or(|limit| record.ttft().is_some_and(|seen| seen <= limit))
}

/// Compares `last − first` with `limit × (n − 1)`, in integers.
fn tpot_met(slo: &Slo, record: &RequestRecord) -> bool {
    let gaps = u128::from(record.output_tokens.saturating_sub(1));
    slo.tpot.is_none_or(|limit| {
        gaps == 0
            || u128::from((record.last_token - record.first_token).as_ps())
                <= u128::from(limit.as_ps()) * gaps
    })
}

impl PoolBook {
    fn new(spec: &PoolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            role: spec.role,
            gpu: spec.gpu.clone(),
            instances: spec.instances,
            gpus: spec.gpus(),
            stages: spec.pp,
            streams: spec.multiplex.is_some(),
            kv_capacity: spec.kv.blocks,
            busy: [0; 3],
            steps: 0,
            decode_steps: 0,
            decoded: 0,
            prefill_steps: 0,
            prompts: 0,
            sending: 0,
            held_tokens: 0,
            preemptions: 0,
            switches: 0,
            roles: [0; 4],
            bill: spec.bill,
            prefix: PrefixHits::default(),
            grounds: Grounds::new(spec),
        }
    }
}

impl Observer for Collector {
    fn held_back(&mut self, _: RequestId, wait: SimDuration) {
        self.client.held_back(wait);
    }

    fn never_sent(&mut self, count: u64) {
        self.counts.never_sent += count;
    }

    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        self.counts.arrived += 1;
        self.last_arrival = request.arrival;
        let measured = self.after_warmup(id, request.arrival);
        if self.config.client.is_paced() {
            self.client
                .sent(request.arrival, measured, self.config.keep_requests);
        }
        if measured {
            self.counts.measured += 1;
            self.window_start = self.window_start.min(request.arrival);
        } else {
            self.counts.warmup += 1;
        }
        self.sojourn.arrive(request.arrival, measured);
    }

    fn ended(&mut self, record: &RequestRecord) {
        self.sojourn.leave(record, self.measures(record));
        if self.config.keep_requests {
            self.records.push(record);
        }
        if !self.measures(record) {
            return;
        }
        match record.outcome {
            Outcome::Done => {
                self.counts.done += 1;
                self.book_done(record);
            }
            Outcome::Rejected(_) => self.counts.rejected += 1,
            Outcome::Unfinished => self.counts.unfinished += 1,
        }
        self.sums.preemptions += u64::from(record.preemptions);
        if !self.config.keep_requests {
            self.book_latencies(record);
        }
    }

    fn refused(&mut self, id: RequestId, shortage: &Shortage) {
        let worse = |known: &TooLarge| known.needed < shortage.needed;
        if self.too_large.as_ref().is_none_or(worse) {
            self.too_large = Some(TooLarge {
                request: id.index() as u64,
                pool: self.pools[shortage.pool.index()].name.clone(),
                needed: shortage.needed,
                available: shortage.available,
            });
        }
    }

    fn prefix_looked_up(&mut self, instance: InstanceId, record: &RequestRecord, from_cpu: u32) {
        if self.measures(record) {
            let book = &mut self.pool(instance).prefix;
            book.prompt_tokens += u64::from(record.input_tokens);
            book.gpu_tokens += u64::from(record.cached_tokens - from_cpu);
            book.cpu_tokens += u64::from(from_cpu);
        }
    }

    fn stepped(&mut self, fact: &StepFact) {
        let span = self.clip(fact.start, fact.end);
        let steps = fact.steps_from(self.window_start);
        let pool = self.pool(fact.instance);
        let kind = match (fact.prompts > 0, fact.decodes > 0) {
            (true, false) => 0,
            (false, _) => 1,
            (true, true) => 2,
        };
        pool.busy[kind] += span;
        if fact.stage == 0 {
            if let Some(grounds) = &mut pool.grounds {
                grounds.book(fact);
            }
            pool.steps += steps;
            if fact.decodes > 0 {
                pool.decode_steps += steps;
                pool.decoded += u128::from(fact.decodes) * u128::from(steps);
            }
            if fact.prompts > 0 {
                pool.prefill_steps += steps;
                pool.prompts += u128::from(fact.prompts) * u128::from(steps);
            }
        }
        if pool.streams {
            self.book_overlap(kind, fact);
        }
    }

    fn gaps(&mut self, since: &RunClock, gaps: &Gaps) {
        self.itl
            .record_gaps(&gaps.from_window(since, self.window_start));
    }

    fn gap(&mut self, from: SimTime, to: SimTime, sequences: u64) {
        if from >= self.window_start {
            self.itl.record(to - from, sequences);
        }
    }

    fn kv_changed(&mut self, now: SimTime, instance: InstanceId, _delta: i64, used: u64) {
        self.kv[instance.index()].change(now, used, self.window_start);
    }

    fn transfer_started(&mut self, now: SimTime, from: InstanceId, _to: InstanceId, _bytes: u64) {
        let (active, since) = &mut self.sending[from.index()];
        if *active == 0 {
            *since = now;
        }
        *active += 1;
    }

    fn transfer_ended(&mut self, now: SimTime, from: InstanceId, _to: InstanceId, _bytes: u64) {
        let (active, since) = &mut self.sending[from.index()];
        *active = active.saturating_sub(1);
        if *active == 0 {
            let since = *since;
            let span = self.clip(since, now);
            self.pool(from).sending += span;
        }
    }

    fn transferred(&mut self, fact: &TransferFact) {
        self.links.book(fact, self.window_start);
        if fact.queued < self.window_start {
            return;
        }
        self.transfers.count += 1;
        self.transfers.bytes += fact.bytes;
        self.transfers.early_bytes += fact.early_bytes;
        self.transfers.waited += u128::from(fact.waited().as_ps());
        self.transfers.exposed += u128::from(fact.exposed().as_ps());
        self.pool(fact.to).held_tokens += fact.held_tokens;
    }

    fn preempted(&mut self, now: SimTime, instance: InstanceId, _id: RequestId) {
        if now >= self.window_start {
            self.pool(instance).preemptions += 1;
        }
    }

    fn role_changed(&mut self, now: SimTime, instance: InstanceId, role: Option<Role>) {
        self.book_role(instance, now);
        self.roles[instance.index()] = (role, now);
        if role.is_some() && now >= self.window_start {
            self.pool(instance).switches += 1;
        }
    }

    fn next_sample(&self) -> SimTime {
        self.series.next()
    }

    fn sample(&mut self, now: SimTime, pools: &[PoolSample]) {
        // Requests inside are counted here and not from `counts`, which leaves out the end of warm-up requests.
        let arrived = self.counts.arrived;
        let point = Point {
            time: now,
            arrived,
            ended: arrived - self.sojourn.inside().min(arrived),
        };
        self.series.push(point, pools);
    }

    fn finished(&mut self, now: SimTime) {
        self.end = now;
        self.sojourn.finish(now);
        for instance in 0..self.roles.len() {
            self.book_role(InstanceId::new(instance), now);
        }
        for level in &mut self.kv {
            level.finish(now, self.window_start);
        }
    }
}

/// Seconds of a span of picoseconds.
pub(super) fn seconds(ps: u128) -> f64 {
    ps as f64 / PS_PER_S as f64
}
