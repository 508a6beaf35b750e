//! The state of one instance.

use std::collections::VecDeque;

use super::decode_run::Progression;
use super::group::Group;
use super::host::Host;
use super::observer::Observer;
use super::spec::{KvReserve, Role};
use super::staging::Copies;
use super::table::{Live, Table};
use super::views::Phase;
use crate::ids::{InstanceId, PoolId, SlotId};
use crate::kv::{BlockPool, PrefixCache};
use crate::latency::Chunk;
use crate::net::Link;
use crate::policy::batch::BatchPolicy;
use crate::policy::queue::QueueRule;
use crate::units::{SimDuration, SimTime};

/// A prompt, or a piece of one, in a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) slot: SlotId,
    pub(super) last: bool,
}

/// What a pipeline stage computes at once.
#[derive(Debug)]
pub(super) struct Batch {
    /// Prompt work.
    pub(super) jobs: Vec<Job>,
    /// The same as the latency model sees it, in the order of `jobs`.
    pub(super) chunks: Vec<Chunk>,
    /// Decoding sequences.
    pub(super) group: Group,
    /// When the steps in progress began.
    pub(super) started: SimTime,
    /// Steps in progress: 1, or the length of a decode run.
    pub(super) steps: u64,
    /// Their times, when they are decode-only on an instance of one stage.
    pub(super) run: Option<Progression>,
}

impl Batch {
    /// An empty batch; the arguments are those of [`Group::new`].
    pub(super) fn new(block_tokens: Option<u32>, ordered: bool) -> Self {
        Self {
            jobs: Vec::new(),
            chunks: Vec::new(),
            group: Group::new(block_tokens, ordered),
            started: SimTime::ZERO,
            steps: 0,
            run: None,
        }
    }

    /// Takes the prompt work out, for the next use.
    pub(super) fn clear(&mut self) {
        self.jobs.clear();
        self.chunks.clear();
        self.run = None;
        self.steps = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.group.n == 0
    }

    /// The decode context at `now`, with the run in progress advanced to that instant.
    pub(super) fn context_at(&self, now: SimTime) -> u64 {
        self.group.context + u64::from(self.group.n) * self.ended_by(now)
    }

    /// Blocks of the steps of the run in progress behind the first `steps`.
    fn untouched(&self, steps: u64) -> u64 {
        self.group.blocks_between(steps, self.steps)
    }

    /// Steps of the run in progress that have ended by `now`.
    pub(super) fn ended_by(&self, now: SimTime) -> u64 {
        match (&self.run, &self.group.clock) {
            (Some(run), Some(clock)) => clock.ended_by(run, now, self.steps),
            _ => 0,
        }
    }
}

/// One pipeline stage.
#[derive(Debug)]
pub(super) struct PipelineStage {
    /// What it computes; meaningful while `busy`.
    pub(super) batch: Batch,
    pub(super) busy: bool,
    /// Batches with prompts from the stage before, in order. They go before decode-only ones.
    pub(super) units: VecDeque<Batch>,
    /// Sequences ready to decode on this stage.
    pub(super) wait: Group,
}

/// One engine replica.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: InstanceId,
    pub(super) pool: PoolId,
    /// What it does at present; while it is on its way to another role, what it did.
    pub(super) role: Role,
    /// Since when.
    pub(super) role_since: SimTime,
    /// It is on its way to another role and gets no new work.
    pub(super) moving: bool,
    /// The lane of its first stage; the others follow.
    pub(super) lane: usize,
    /// The lane of its link.
    pub(super) link_lane: usize,
    pub(super) policy: Box<dyn BatchPolicy>,
    /// Prompts not admitted; preempted sequences in front.
    pub(super) waiting: VecDeque<SlotId>,
    /// Admitted prompts with tokens not yet given to a step.
    pub(super) partial: Vec<SlotId>,
    /// Preempted sequences whose KV caches are in host memory; the earliest to have joined in front.
    pub(super) swapped: VecDeque<SlotId>,
    /// Time that moving KV caches to and from the host adds to the next step.
    pub(super) swap_time: SimDuration,
    /// Time that loading prompt blocks from the CPU tier adds to the step in which their prompts start.
    pub(super) load_time: SimDuration,
    /// Sequences ready for their first decode step here, and since when.
    pub(super) joiners: Vec<(SlotId, SimTime)>,
    /// Sequences routed here to decode whose KV blocks are not reserved yet.
    pub(super) inbound: VecDeque<SlotId>,
    /// Those of them whose prompts have not begun: they wait for an early reservation.
    pub(super) early: u64,
    /// Requests that will decode here, chosen at arrival, whose prompts are not done.
    pub(super) assigned: u64,
    /// Sequences that will decode here and are in no group yet: routed here, or their prompt was done here.
    pub(super) expected: u64,
    /// Sequences that a role rule placed here to decode and that have not ended.
    pub(super) placed: u64,
    /// KV blocks of those whose KV cache is not admitted yet.
    pub(super) promised: u64,
    /// KV blocks that the waiting prompts ask for.
    pub(super) wanted: u64,
    /// Sequences that found no place in the last decode step (decode context cap).
    pub(super) left_over: u32,
    pub(super) stages: Vec<PipelineStage>,
    /// The stage that takes prompts: the first or, where two streams share a GPU, the second of the two, which runs beside it. The first
    /// then is the decode stream.
    pub(super) prompts: usize,
    pub(super) kv: BlockPool,
    /// How many blocks a sequence is given here.
    pub(super) reserve: KvReserve,
    /// Prompt blocks kept for prompts that start alike.
    pub(super) prefix: Option<PrefixCache>,
    /// KV blocks of a prompt block.
    pub(super) prefix_unit: u64,
    /// Tokens of a prompt block.
    pub(super) prompt_block: u64,
    /// Time to load a prompt block from the CPU tier.
    pub(super) cpu_load: SimDuration,
    /// Blocks among the used ones that belong to steps in progress which observers have not heard of.
    pub(super) unreported: u64,
    /// Sequences admitted: prefilling, decoding, or with decode blocks reserved.
    pub(super) seqs: u32,
    /// Prompts in progress (admitted, not complete), for samples.
    pub(super) prefilling: u32,
    /// Prompts done here whose KV cache has not left yet.
    pub(super) handing_off: u32,
    /// Tokens of prompts waiting or in progress and of sequences not in a batch yet.
    pub(super) pending_tokens: u64,
    /// Tokens of prompts waiting or in progress.
    pub(super) prompt_tokens: u64,
    /// Its queue of transfers to be posted.
    pub(super) link: Link,
    /// Its copies to and from host memory, if transfers are staged there as a whole.
    pub(super) copies: Option<Box<Copies>>,
    /// Emptied batches, kept for their memory.
    pub(super) spare: Vec<Batch>,
    /// Tokens per block, when KV memory is finite and sequences take blocks as they grow.
    pub(super) block_tokens: Option<u32>,
    /// Whether sequences take turns in order of queueing (a decode context cap).
    pub(super) keeps_order: bool,
    /// Something changed since steps were last formed.
    pub(super) dirty: bool,
}

impl Instance {
    /// Decode context tokens at `now` plus the tokens not in a batch yet.
    pub(super) fn tokens_at(&self, now: SimTime) -> u64 {
        let mut tokens = self.pending_tokens;
        for stage in &self.stages {
            tokens += stage.wait.context;
            if stage.busy {
                tokens += stage.batch.context_at(now);
            }
            tokens += stage
                .units
                .iter()
                .map(|unit| unit.group.context)
                .sum::<u64>();
        }
        tokens
    }

    /// Requests that wait here in the sense of a phase's routers.
    pub(super) fn queued(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Prefill => self.queued_prompts(),
            Phase::Decode => self.queued_decodes(),
        }
    }

    /// Requests waiting, in progress or on their way here. Exact between events: a run ends when its first sequence does.
    pub(super) fn requests(&self) -> u64 {
        let queued = self.waiting.len() + self.swapped.len() + self.inbound.len();
        queued as u64 + self.assigned + u64::from(self.seqs)
    }

    /// Share of the KV blocks in use at `now` by steps that started before it, in 2⁻³²; 0 when unlimited.
    pub(super) fn kv_share_before(&self, now: SimTime) -> u64 {
        let Some(capacity) = self.kv.capacity() else {
            return 0;
        };
        let used = u128::from(capacity - self.free_before(now));
        u64::try_from((used << 32) / u128::from(capacity.max(1))).expect("a share is at most one")
    }

    /// Prompts queued or computed on the stage that takes them.
    fn queued_prompts(&self) -> u64 {
        let first = &self.stages[self.prompts];
        let completing = if first.busy {
            first.batch.jobs.iter().filter(|job| job.last).count()
        } else {
            0
        };
        (self.waiting.len() + self.partial.len() + completing) as u64
    }

    /// Sequences waiting for a decode step. While the first stage is idle (a step boundary), those that took part in the last
    /// step do not count: they are the running batch.
    fn queued_decodes(&self) -> u64 {
        let first = &self.stages[0];
        let ready = if first.busy {
            first.wait.n
        } else {
            self.left_over
        };
        self.expected + self.swapped.len() as u64 + u64::from(ready)
    }

    /// Sequences decoding or ready to.
    pub(super) fn decoding(&self) -> u64 {
        let in_stages: u64 = self
            .stages
            .iter()
            .map(|stage| {
                let busy = if stage.busy { stage.batch.group.n } else { 0 };
                let units: u32 = stage.units.iter().map(|unit| unit.group.n).sum();
                u64::from(stage.wait.n) + u64::from(busy) + u64::from(units)
            })
            .sum();
        in_stages + self.joiners.len() as u64
    }

    /// KV blocks that the request `live` has here while its KV cache holds `context` tokens.
    pub(super) fn blocks_of(&self, live: &Live, context: u64) -> u64 {
        self.kv
            .blocks_for(live.reserved_tokens(self.reserve, context))
    }

    /// KV blocks that the request `live` has here, or asks for, while its prompt is here.
    pub(super) fn prompt_blocks(&self, live: &Live, context: u64) -> u64 {
        self.kv
            .blocks_for(live.prompt_tokens(self.reserve, context))
    }

    /// KV blocks not in use at `now` by steps that started before it.
    pub(super) fn free_before(&self, now: SimTime) -> u64 {
        self.kv.free().saturating_add(self.untouched(now))
    }

    /// KV blocks not in use at `now` by steps that have ended, nor by anything but steps.
    pub(super) fn free_after_ended(&self, now: SimTime) -> u64 {
        let batch = &self.stages[0].batch;
        if !self.stages[0].busy || batch.run.is_none() || !self.kv.is_limited() {
            return self.kv.free() + self.unreported;
        }
        // Some of those of the steps that have ended may have been told of.
        self.kv.free() + batch.untouched(batch.ended_by(now))
    }

    /// KV blocks in use at `now`, steps that start at `now` included.
    pub(super) fn used_after(&self, now: SimTime) -> u64 {
        let batch = &self.stages[0].batch;
        if !self.stages[0].busy || batch.run.is_none() || !self.kv.is_limited() {
            return self.kv.used();
        }
        let started = (batch.ended_by(now) + 1).min(batch.steps);
        self.kv.used() - batch.untouched(started)
    }

    /// Blocks taken for steps of the run in progress that have not started before `now`.
    fn untouched(&self, now: SimTime) -> u64 {
        let first = &self.stages[0];
        let (true, Some(run), Some(clock)) = (
            first.busy && self.kv.is_limited(),
            &first.batch.run,
            &first.batch.group.clock,
        ) else {
            return 0;
        };
        let started = clock.started_before(run, now, first.batch.steps);
        first.batch.untouched(started)
    }

    /// Lets the decode run in progress end at the next step boundary (`now` itself if it is one), so that the
    /// next step can be formed anew. Without a run there is nothing to cut.
    pub(super) fn cut_run<H: Host>(&mut self, host: &mut H) {
        let now = host.now();
        let first = &mut self.stages[0];
        let (true, Some(run), Some(clock)) =
            (first.busy, &first.batch.run, &first.batch.group.clock)
        else {
            return;
        };
        let steps = clock.started_before(run, now, first.batch.steps);
        if steps == first.batch.steps {
            return;
        }
        host.schedule(self.lane, clock.end_of(run, steps));
        let unused = first.batch.untouched(steps);
        first.batch.steps = steps;
        self.kv.give(unused);
        self.unreported -= unused;
    }

    /// Takes the KV blocks of a run of decode steps. Observers hear of them when the steps have ended, as a run may be cut
    /// and would have held them for nothing.
    pub(super) fn reserve_blocks(&mut self, blocks: u64) {
        if self.kv.is_limited() {
            self.kv.take(blocks);
            self.unreported += blocks;
        }
    }

    /// Tells the observer of the blocks of the run that has ended.
    pub(super) fn report_blocks<H: Host>(&mut self, host: &mut H) {
        let blocks = std::mem::take(&mut self.unreported);
        if blocks > 0 {
            let (now, used) = (host.now(), self.kv.used());
            host.observer()
                .kv_changed(now, self.id, blocks.cast_signed(), used);
            self.trim_prefix(self.kv.free());
        }
    }

    /// Tells the observer of the blocks of the run in progress as far as its steps have ended.
    pub(super) fn report_ended<H: Host>(&mut self, host: &mut H) {
        let now = host.now();
        let batch = &self.stages[0].batch;
        if !self.stages[0].busy || batch.run.is_none() || !self.kv.is_limited() {
            return;
        }
        let told = batch.group.blocks_for_steps(batch.steps) - self.unreported;
        let ended = batch.group.blocks_for_steps(batch.ended_by(now));
        let blocks = ended - told;
        if blocks > 0 {
            self.unreported -= blocks;
            let used = self.kv.used() - self.unreported;
            host.observer()
                .kv_changed(now, self.id, blocks.cast_signed(), used);
            self.trim_prefix(self.kv.free() + self.unreported);
        }
    }

    /// Takes KV blocks; unlimited memory is not counted.
    pub(super) fn take_blocks<H: Host>(&mut self, blocks: u64, host: &mut H) {
        if blocks > 0 && self.kv.is_limited() {
            self.kv.take(blocks);
            let (now, used) = (host.now(), self.kv.used() - self.unreported);
            host.observer()
                .kv_changed(now, self.id, blocks.cast_signed(), used);
            self.trim_prefix(self.kv.free() + self.unreported);
        }
    }

    /// Gives KV blocks back.
    pub(super) fn give_blocks<H: Host>(&mut self, blocks: u64, host: &mut H) {
        if blocks > 0 && self.kv.is_limited() {
            self.kv.give(blocks);
            let (now, used) = (host.now(), self.kv.used() - self.unreported);
            host.observer()
                .kv_changed(now, self.id, -blocks.cast_signed(), used);
        }
    }

    /// Puts a prompt in the queue, where `rule` wants it; says whether the next step may be another than without it.
    pub(super) fn enqueue(&mut self, slot: SlotId, rule: &QueueRule, table: &mut Table) -> bool {
        self.count_waiting(&table[slot]);
        let mut place = self.waiting.len();
        if rule.reorders() {
            let record = &table[slot].record;
            let rank = rule.rank(record.arrival, record.input_tokens, record.class);
            table[slot].rank = rank;
            while place > 0 {
                let before = &mut table[self.waiting[place - 1]];
                if before.rank <= rank || !rule.may_pass(before.passed) {
                    break;
                }
                before.passed += 1;
                place -= 1;
            }
        }
        self.waiting.insert(place, slot);
        // Behind a prompt that could not be admitted nothing changes.
        place == 0
    }

    /// Counts a prompt that begins to wait.
    pub(super) fn count_waiting(&mut self, live: &Live) {
        let tokens = u64::from(live.to_compute);
        self.pending_tokens += tokens;
        self.prompt_tokens += tokens;
        self.wanted += self.prompt_blocks(live, tokens);
    }

    /// Lets a sequence decode here from the next step on.
    pub(super) fn add_joiner<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        self.joiners.push((slot, host.now()));
        self.cut_run(host);
    }
}
