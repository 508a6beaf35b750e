//! How an instance forms its next step.

use super::decode_run::{Progression, RunClock};
use super::host::Host;
use super::instance::{Batch, Instance, Job};
use super::observer::Observer;
use super::overlap::Produced;
use super::pool::Pool;
use super::spec::{Preemption, Role};
use super::table::Table;
use super::views::{Partial, Waiting};
use crate::ids::SlotId;
use crate::latency::{Chunk, StepShape};
use crate::policy::batch::{InstanceView, LongPrompts, Pick, StepPlan};
use crate::units::{Fine, SimDuration, SimTime};

/// What forming steps needs besides the instance.
pub(super) struct Shop<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) table: &'a mut Table,
    pub(super) plan: &'a mut StepPlan,
    /// Preempted sequences that go back to a prefill instance.
    pub(super) returns: &'a mut Vec<SlotId>,
    pub(super) fast_forward: bool,
    /// Where the layers of prompts in steps that start are told, and how many layers there are: for prompts that travel layer by
    /// layer over a shared network.
    pub(super) layers: Option<(&'a mut Vec<Produced>, u32)>,
}

impl Instance {
    /// Starts work on every idle stage that has some.
    pub(super) fn form<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        if self.prompts > 0 {
            self.form_streams(shop, host);
            return;
        }
        for stage in (1..self.stages.len()).rev() {
            self.form_later_stage(stage, shop, host);
        }
        if !self.stages[0].busy {
            if !self.swapped.is_empty() {
                self.swap_in(shop, host);
            }
            if !self.joiners.is_empty() {
                self.seat(shop, host);
            }
            self.form_first_stage(shop, host);
        }
    }

    /// A later stage takes what the stage before has finished: batches with prompts first, else all ready sequences.
    #[inline(never)]
    fn form_later_stage<H: Host>(&mut self, index: usize, shop: &mut Shop<'_>, host: &mut H) {
        let stage = &mut self.stages[index];
        if stage.busy {
            return;
        }
        if let Some(unit) = stage.units.pop_front() {
            let emptied = std::mem::replace(&mut stage.batch, unit);
            self.spare.push(emptied);
        } else if stage.wait.n > 0 {
            std::mem::swap(&mut stage.batch.group, &mut stage.wait);
        } else {
            return;
        }
        self.start(index, index, shop, host);
    }

    fn form_first_stage<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        if self.stages[0].wait.n == 0 && self.waiting.is_empty() && self.partial.is_empty() {
            // No policy makes a step of nothing.
            return;
        }
        self.plan_step(shop);
        let decode = shop.plan.decodes > 0 && self.stages[0].wait.n > 0;
        let prompts = !shop.plan.picks.is_empty();
        if !prompts && !decode {
            return;
        }
        if prompts {
            self.take_picks(shop, host);
        }
        if decode {
            self.take_decodes(shop, host);
        }
        let first = &mut self.stages[0];
        self.left_over = first.wait.n;
        if first.batch.is_empty() {
            // All were preempted. That leaves their tokens of the step to prompts in progress.
            self.form_first_stage(shop, host);
            return;
        }
        if !first.batch.jobs.is_empty() || self.swap_time > SimDuration::ZERO {
            // A step with prompts, or one that copies KV caches first, interrupts the decode run.
            first.batch.group.clock = None;
            first.wait.clock = None;
        }
        self.start(0, 0, shop, host);
    }

    /// Asks the policy for the next step.
    pub(super) fn plan_step(&mut self, shop: &mut Shop<'_>) {
        let first = &self.stages[0];
        // A stream with a step in progress takes nothing; one stage alone is idle whenever it is asked.
        let (decodes, decode_blocks) = if first.busy {
            (0, 0)
        } else {
            (first.wait.n, first.wait.blocks_for_step())
        };
        let takes_prompts = !self.stages[self.prompts].busy;
        let idle = self.seqs == 0;
        let view = InstanceView {
            waiting: &Waiting {
                queue: &self.waiting,
                table: shop.table,
                kv: &self.kv,
                reserve: self.reserve,
                // Sequences that have their KV caches in host memory, or wait for the blocks of their replies, come first.
                closed: !self.swapped.is_empty()
                    || self.awaits_reply()
                    || !takes_prompts
                    || self.goes_on(shop.pool.limits.long_prompts, shop.table),
                prefix: self.prefix.as_ref(),
            },
            partial: &Partial {
                queue: if takes_prompts { &self.partial } else { &[] },
                table: shop.table,
            },
            decodes,
            decode_blocks,
            free_blocks: self.kv.free(),
            // With nothing admitted nothing will free blocks: the watermark must not lock the queue.
            watermark_blocks: if idle {
                0
            } else {
                shop.pool.kv.watermark_blocks
            },
            seqs: self.seqs,
            limits: shop.pool.limits,
        };
        shop.plan.picks.clear();
        shop.plan.decodes = 0;
        self.policy.plan(&view, shop.plan);
    }

    /// Whether the decodes go on as they are because none but long prompts on their way to another instance waits, and those may
    /// not interrupt them.
    fn goes_on(&self, long: Option<LongPrompts>, table: &Table) -> bool {
        let Some(LongPrompts {
            above,
            interrupts: false,
            ..
        }) = long
        else {
            return false;
        };
        let passes_through = |&slot: &SlotId| {
            let live = &table[slot];
            live.to_compute > above && live.leaves(self.id)
        };
        // A batch has its clock for as long as it does not change.
        self.stages[0].wait.clock.is_some()
            && self.partial.is_empty()
            && self.waiting.iter().all(passes_through)
    }

    /// Turns the plan's picks into jobs, admitting waiting prompts.
    pub(super) fn take_picks<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        if self.prefix.is_some() {
            self.hold_prefixes(&shop.plan.picks, shop.table, host);
        }
        let mut completed = false;
        let mut admitted = 0;
        for i in 0..shop.plan.picks.len() {
            let (slot, tokens) = match shop.plan.picks[i] {
                Pick::Partial { index, tokens } => (self.partial[index], tokens),
                Pick::Waiting { index, tokens } => {
                    // Those admitted before it no longer stand in the queue.
                    admitted += 1;
                    (self.admit(index + 1 - admitted, shop.table, host), tokens)
                }
            };
            let waiting = matches!(shop.plan.picks[i], Pick::Waiting { .. });
            let last = self.add_job(slot, tokens, shop.table);
            if waiting && !last {
                self.partial.push(slot);
            }
            completed |= !waiting && last;
        }
        if completed {
            let table = &*shop.table;
            self.partial
                .retain(|&slot| table[slot].computed < table[slot].to_compute);
        }
    }

    /// Admits the waiting prompt at `index`: it gets the blocks of its whole prompt.
    fn admit<H: Host>(&mut self, index: usize, table: &mut Table, host: &mut H) -> SlotId {
        let slot = self.dequeue(index);
        let live = &mut table[slot];
        let now = host.now();
        live.prefill_on = self.id;
        if live.record.prefill_start == SimTime::NEVER {
            live.record.prefill_start = now;
            live.record.prefill_instance = Some(self.id);
        }
        if live.record.preemptions > 0 && live.record.decode_start == SimTime::NEVER {
            live.record.decode_start = now;
        }
        self.seqs += 1;
        self.prefilling += 1;
        let live = &table[slot];
        let held = live.held as u64 * self.prefix_unit;
        let blocks = self.prompt_blocks(live, u64::from(live.to_compute));
        self.wanted -= blocks;
        self.take_blocks(blocks - held, host);
        slot
    }

    fn add_job(&mut self, slot: SlotId, tokens: u32, table: &mut Table) -> bool {
        let live = &mut table[slot];
        let past = live.computed;
        live.computed += tokens;
        let last = live.computed == live.to_compute;
        let batch = &mut self.stages[self.prompts].batch;
        batch.jobs.push(Job { slot, last });
        batch.chunks.push(Chunk {
            new: tokens,
            past,
            last,
        });
        last
    }

    /// Moves the ready sequences into the batch, as many as the decode context cap lets, and preempts until the rest finds
    /// its KV blocks.
    pub(super) fn take_decodes<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        let cap = shop.pool.limits.max_decode_context.unwrap_or(u64::MAX);
        let most = shop.plan.decodes.max(1);
        // Again when all of the batch were preempted and others were left over: one of them can go on.
        while self.stages[0].batch.group.n == 0 && self.stages[0].wait.n > 0 {
            let stage = &mut self.stages[0];
            let (n, context) = (stage.wait.n, stage.wait.context);
            if n > most || n > 1 && context + u64::from(n) > cap {
                let into = &mut stage.batch.group;
                stage.wait.split_front(shop.table, cap, most, into);
            } else {
                std::mem::swap(&mut stage.wait, &mut stage.batch.group);
            }
            while self.stages[0].batch.group.blocks_for_step() > self.kv.free() {
                self.preempt_latest(shop, host);
                // The plan was made with the victim: the next step may have room for a prompt.
                shop.fast_forward = false;
            }
        }
    }

    /// Preempts the sequence that joined last, in the batch or left over by the decode context cap: the earliest keeps its
    /// blocks and goes on.
    #[inline(never)]
    fn preempt_latest<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        let table = &mut *shop.table;
        let stage = &mut self.stages[0];
        let group = if stage.wait.latest(table) > stage.batch.group.latest(table) {
            &mut stage.wait
        } else {
            &mut stage.batch.group
        };
        let (_, victim) = group
            .latest(table)
            .expect("only sequences need blocks, and one of them is here");
        let settled_at = group.settled_at;
        let remaining = group.remaining(table, victim);
        let context = group.take_out(table, victim);
        let live = &mut table[victim];
        if !live.fresh {
            live.record.last_token = settled_at;
        }
        let remaining = u32::try_from(remaining).expect("remaining output fits u32");
        live.emitted = live.record.output_tokens - remaining;
        match (shop.pool.kv.preemption, self.role) {
            (Preemption::Swap { bytes_per_sec }, _) => {
                let bytes = context * shop.pool.kv.bytes_per_token;
                self.swap_out(victim, context, bytes, bytes_per_sec, table, host);
            }
            // Once: a sequence that loses its blocks again is computed here, where nothing is admitted before it, or a few could go round
            // for ever, each taking the blocks that the other needs.
            (Preemption::ReturnToPrefill, Role::Decode)
                if table[victim].record.preemptions == 0 =>
            {
                self.preempt(victim, context, table, host);
                shop.returns.push(victim);
            }
            _ => {
                self.preempt(victim, context, table, host);
                self.count_waiting(&table[victim]);
                self.waiting.push_front(victim);
            }
        }
    }

    /// Takes its KV cache from a sequence that has left its group; it will be recomputed.
    pub(super) fn preempt<H: Host>(
        &mut self,
        slot: SlotId,
        context: u64,
        table: &mut Table,
        host: &mut H,
    ) {
        let live = &mut table[slot];
        live.fresh = false;
        // What it has emitted is now part of what must be computed again.
        live.to_compute = live.record.input_tokens + live.emitted;
        live.computed = 0;
        live.whole = false;
        // Nobody passes it.
        live.rank = 0;
        live.record.preemptions = live.record.preemptions.saturating_add(1);
        let (id, now) = (live.record.id, host.now());
        self.seqs -= 1;
        self.give_up(slot, context, table, host);
        host.observer().preempted(now, self.id, id);
    }

    /// How much copies between host and GPU memory lengthen the step that starts on `index`.
    fn copy_time(&mut self, index: usize) -> SimDuration {
        let mut ps = 0;
        if index == 0 {
            ps += std::mem::take(&mut self.swap_time).as_ps();
        }
        if index == self.prompts {
            ps += std::mem::take(&mut self.load_time).as_ps();
        }
        SimDuration::from_ps(ps)
    }

    /// Starts the batch that stands on `index`, with the times of `site`.
    pub(super) fn start<H: Host>(
        &mut self,
        index: usize,
        site: usize,
        shop: &mut Shop<'_>,
        host: &mut H,
    ) {
        let now = host.now();
        let extra = self.copy_time(index);
        let one_stage = self.stages.len() == 1 || self.prompts > 0;
        let lone_decode = index == 0
            && one_stage
            && self.stages[0].batch.jobs.is_empty()
            && extra == SimDuration::ZERO;
        if index == 0 {
            let batch = &mut self.stages[0].batch;
            for member in &batch.group.fresh {
                if member.is_current(shop.table)
                    && shop.table[member.slot].record.decode_start == SimTime::NEVER
                {
                    shop.table[member.slot].record.decode_start = now;
                }
            }
        }
        let end = if lone_decode {
            self.start_run(site, shop, host)
        } else {
            if index == 0 {
                let blocks = self.stages[0].batch.group.blocks_for_step();
                self.take_blocks(blocks, host);
            }
            let batch = &mut self.stages[index].batch;
            let group = &batch.group;
            let time = if batch.jobs.is_empty() {
                shop.pool.decode_step(site, group.n, group.context)
            } else {
                let shape = StepShape {
                    chunks: &batch.chunks,
                    decodes: group.n,
                    context: group.context,
                };
                shop.pool.step(site, &shape)
            };
            batch.steps = 1;
            batch.run = None;
            now.saturating_add(time).saturating_add(extra)
        };
        let is_last = index + 1 == self.stages.len();
        let stage = &mut self.stages[index];
        if let (Some((produced, layers)), true) = (&mut shop.layers, is_last) {
            tell_layers(&stage.batch, now, end, *layers, produced);
        }
        stage.batch.started = now;
        stage.busy = true;
        host.schedule(self.lane + index, end);
    }

    /// Starts decode steps that end at an instant known in closed form: up to the first sequence's last token, the step that
    /// would find no KV block, the end of the linear segment or the decode context cap.
    fn start_run<H: Host>(&mut self, site: usize, shop: &mut Shop<'_>, host: &mut H) -> SimTime {
        let now = host.now();
        let whole = self.stages[0].wait.n == 0;
        let batch = &mut self.stages[0].batch;
        let group = &mut batch.group;
        let (n, context) = (u64::from(group.n), group.context);
        let (segment, segment_end) = shop.pool.decode_segment(site, group.n, context);
        let first = segment
            .base
            .0
            .saturating_add(segment.slope.0.saturating_mul(context - segment.from));
        let run = Progression {
            first: Fine(first),
            growth: Fine(segment.slope.0.saturating_mul(n)),
        };
        let mut steps = 1;
        if shop.fast_forward && whole {
            steps = group
                .steps_to_finish(shop.table)
                .min((segment_end - context).div_ceil(n));
            if let Some(cap) = shop.pool.limits.max_decode_context {
                steps = steps.min((cap.saturating_sub(context) / n).max(1));
            }
            if let Some(residues) = &group.residues {
                steps = residues.steps_within(group.steps, steps, self.kv.free());
            }
        }
        debug_assert!(
            steps > 0,
            "a decode step finds its blocks: preemption has seen to it"
        );
        let clock = *group.clock.get_or_insert(RunClock::start(now));
        debug_assert_eq!(
            clock.end_of(&run, 0).max(now),
            now,
            "an unchanged batch goes on where it stopped"
        );
        let blocks = group.blocks_for_steps(steps);
        batch.steps = steps;
        batch.run = Some(run);
        self.reserve_blocks(blocks);
        clock.end_of(&run, steps)
    }
}

/// Tells of the layers of prompts that a step computes, all but the last one: each may travel while the next is computed.
#[inline(never)]
fn tell_layers(
    batch: &Batch,
    start: SimTime,
    end: SimTime,
    layers: u32,
    produced: &mut Vec<Produced>,
) {
    let all: u64 = batch.chunks.iter().map(|chunk| u64::from(chunk.new)).sum();
    let step = end.saturating_since(start).as_ps();
    let first = SimDuration::from_ps(step.div_ceil(u64::from(layers)));
    for (job, chunk) in batch.jobs.iter().zip(&batch.chunks) {
        let rest = chunk.new.div_ceil(layers);
        // A model of one layer has nothing to send before the step ends.
        if rest < chunk.new {
            produced.push(Produced {
                slot: job.slot,
                tokens: chunk.past + chunk.new - rest,
                at: start.saturating_add(first),
                over: SimDuration::from_ps((step - first.as_ps()).max(1)),
                share: f64::from(chunk.new) / all as f64,
            });
        }
    }
}
