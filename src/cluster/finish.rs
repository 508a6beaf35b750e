//! How a step ends: tokens come out, prompts are done, sequences leave.

use super::decode_run::RunClock;
use super::host::Host;
use super::instance::{Batch, Instance, Job};
use super::observer::{Gaps, Observer, StepFact};
use super::overlap::Produced;
use super::record::Outcome;
use super::spec::FirstToken;
use super::table::{Live, Table};
use crate::ids::SlotId;
use crate::units::{Fine, SimDuration, SimTime};

/// What ending steps needs besides the instance.
pub(super) struct Outlet<'a> {
    pub(super) first_token: FirstToken,
    pub(super) table: &'a mut Table,
    /// Requests whose prompt is done and that are to decode elsewhere, in order.
    pub(super) handoffs: &'a mut Vec<SlotId>,
    /// Requests that ended with their prompt, with blocks reserved or promised elsewhere.
    pub(super) cancelled: &'a mut Vec<(SlotId, Live)>,
    /// Where parts of prompts that may travel are told, if any travel early.
    pub(super) produced: Option<&'a mut Vec<Produced>>,
}

impl Instance {
    /// Ends the steps in progress on stage `index`, all of them.
    pub(super) fn end_steps<H: Host>(
        &mut self,
        index: usize,
        outlet: &mut Outlet<'_>,
        host: &mut H,
    ) {
        self.stages[index].busy = false;
        self.report_steps(index, host.now(), host);
        if self.prompts == 0 && index + 1 < self.stages.len() {
            self.pass_on(index, outlet.table);
            return;
        }
        if self.prompts > 0 && index == self.prompts {
            self.meet_decodes(host);
        } else {
            self.report_blocks(host);
        }
        let steps = self.stages[index].batch.steps;
        self.advance(index, steps, outlet.table, host);
        self.end_jobs(index, outlet, host);
        self.release_finished(index, outlet.table, host);
        self.bring_back(index, outlet.table, host);
    }

    /// At the horizon: lets the steps of a decode run that have ended by now count, and no other.
    pub(super) fn stop<H: Host>(&mut self, table: &mut Table, host: &mut H) {
        let now = host.now();
        let beyond = self.kv.used() - self.used_after(now);
        self.kv.give(beyond);
        self.unreported -= beyond;
        self.report_blocks(host);
        let first = &mut self.stages[0];
        let ended = first.batch.ended_by(now);
        if let (true, Some(run), Some(clock)) = (
            first.busy && ended > 0,
            first.batch.run,
            first.batch.group.clock,
        ) {
            first.batch.steps = ended;
            self.report_steps(0, clock.end_of(&run, ended), host);
            self.advance(0, ended, table, host);
        }
    }

    fn report_steps<H: Host>(&mut self, index: usize, end: SimTime, host: &mut H) {
        let batch = &self.stages[index].batch;
        let fact = StepFact {
            instance: self.id,
            // Two streams work on the same stage.
            stage: u32::try_from(index - self.prompts.min(index)).expect("few stages"),
            start: batch.started,
            end,
            steps: batch.steps,
            prompts: u32::try_from(batch.jobs.len()).expect("fewer prompts than requests"),
            prefill_tokens: batch.chunks.iter().map(|chunk| u64::from(chunk.new)).sum(),
            past_tokens: batch.chunks.iter().map(|chunk| u64::from(chunk.past)).sum(),
            decodes: batch.group.n,
            context: batch.group.context,
            run: batch.group.clock.zip(batch.run),
        };
        host.observer().stepped(&fact);
    }

    /// Hands the batch to the next stage.
    #[inline(never)]
    fn pass_on(&mut self, index: usize, table: &mut Table) {
        let (before, after) = self.stages.split_at_mut(index + 1);
        let (stage, next) = (&mut before[index], &mut after[0]);
        if stage.batch.jobs.is_empty() {
            next.wait.append(table, &mut stage.batch.group);
            stage.batch.clear();
            return;
        }
        let fresh = self
            .spare
            .pop()
            .unwrap_or_else(|| Batch::new(self.block_tokens, self.keeps_order));
        next.units
            .push_back(std::mem::replace(&mut stage.batch, fresh));
    }

    /// Advances the decoding sequences by `steps` and books the gaps between their tokens.
    fn advance<H: Host>(&mut self, index: usize, steps: u64, table: &mut Table, host: &mut H) {
        let now = host.now();
        let batch = &mut self.stages[index].batch;
        let n = batch.group.n;
        if n == 0 {
            return;
        }
        let unbroken = match (&batch.run, &mut batch.group.clock) {
            (Some(run), Some(clock)) => {
                let begins = clock.sum == 0;
                let first_end = if begins { clock.end_of(run, 1) } else { now };
                let skip = u64::from(begins);
                let first = Fine(run.first.0 + run.growth.0 * skip);
                let since = RunClock {
                    sum: clock.sum + run.sum(skip),
                    ..*clock
                };
                clock.sum += run.sum(steps);
                let gaps = Gaps {
                    first,
                    step: run.growth,
                    count: steps - skip,
                    sequences: u64::from(n),
                };
                Some((since, gaps, begins.then_some(first_end)))
            }
            _ => None,
        };
        match unbroken {
            Some((since, gaps, first_end)) => {
                if let Some(end) = first_end {
                    self.book_first_gaps(index, end, table, host);
                }
                if gaps.count > 0 {
                    host.observer().gaps(&since, &gaps);
                }
                self.stages[index].batch.group.settled_at = now;
            }
            None => self.book_first_gaps(index, now, table, host),
        }
        let group = &mut self.stages[index].batch.group;
        group.steps += steps;
        group.context += steps * u64::from(n);
    }

    /// Books the first gap after the batch changed: from each sequence's own last token.
    fn book_first_gaps<H: Host>(
        &mut self,
        index: usize,
        end: SimTime,
        table: &mut Table,
        host: &mut H,
    ) {
        let group = &mut self.stages[index].batch.group;
        let mut settled = u64::from(group.n);
        for member in &group.fresh {
            if !member.is_current(table) {
                continue;
            }
            settled -= 1;
            let record = &mut table[member.slot].record;
            if record.first_token == SimTime::NEVER {
                record.first_token = end;
            } else {
                host.observer().gap(record.last_token, end, 1);
            }
        }
        if settled > 0 {
            host.observer().gap(group.settled_at, end, settled);
        }
        group.settle(table, end);
    }

    fn end_jobs<H: Host>(&mut self, index: usize, outlet: &mut Outlet<'_>, host: &mut H) {
        for i in 0..self.stages[index].batch.jobs.len() {
            let Job { slot, last } = self.stages[index].batch.jobs[i];
            if let (Some(produced), false) = (&mut outlet.produced, last) {
                let chunk = self.stages[index].batch.chunks[i];
                produced.push(Produced {
                    slot,
                    tokens: chunk.past + chunk.new,
                    at: host.now(),
                    over: SimDuration::ZERO,
                    share: 1.0,
                });
            }
            if last {
                self.end_prompt(slot, outlet, host);
            }
        }
        self.stages[index].batch.clear();
    }

    /// A prompt is done: its next token is there, unless the decode instance is to emit it.
    fn end_prompt<H: Host>(&mut self, slot: SlotId, outlet: &mut Outlet<'_>, host: &mut H) {
        let now = host.now();
        self.prefilling -= 1;
        self.cache_prompt(slot, outlet.table, host);
        let live = &mut outlet.table[slot];
        if live.record.prefill_end == SimTime::NEVER {
            live.record.prefill_end = now;
        }
        let leaves = live.leaves(self.id);
        let tokens = u64::from(live.to_compute);
        self.prompt_tokens -= tokens;
        if !leaves || outlet.first_token == FirstToken::Prefill {
            emit(live, host);
        }
        if live.emitted == live.record.output_tokens {
            self.pending_tokens -= tokens;
            if live.early || live.assigned || (live.placed && leaves) {
                outlet.cancelled.push((slot, live.clone()));
            }
            self.release(slot, tokens, outlet.table, host);
        } else if leaves {
            if live.hands_off {
                self.see_off(tokens);
            }
            outlet.handoffs.push(slot);
        } else {
            self.keep(slot, outlet.table, now);
        }
    }

    /// Lets a sequence whose prompt was done here decode here.
    pub(super) fn keep(&mut self, slot: SlotId, table: &mut Table, now: SimTime) {
        table[slot].record.decode_instance.get_or_insert(self.id);
        self.expected += 1;
        self.joiners.push((slot, now));
    }

    /// Lets a sequence whose prompt was done here wait for its KV cache to leave.
    pub(super) const fn see_off(&mut self, tokens: u64) {
        self.pending_tokens -= tokens;
        self.seqs -= 1;
        self.handing_off += 1;
    }

    fn release_finished<H: Host>(&mut self, index: usize, table: &mut Table, host: &mut H) {
        while let Some((slot, context)) = self.stages[index].batch.group.pop_finished(table) {
            table[slot].record.last_token = host.now();
            self.release(slot, context, table, host);
        }
    }

    /// A request has its last token: its blocks go back and its history goes out.
    pub(super) fn release<H: Host>(
        &mut self,
        slot: SlotId,
        context: u64,
        table: &mut Table,
        host: &mut H,
    ) {
        self.seqs -= 1;
        self.give_up(slot, context, table, host);
        let live = &mut table[slot];
        if live.placed && live.decode_on == self.id {
            self.placed -= 1;
        }
        live.record.outcome = Outcome::Done;
        host.observer().ended(&live.record);
        table.remove(slot);
    }

    /// Puts the sequences of a finished round back before the first stage, behind those that became ready meanwhile.
    fn bring_back<H: Host>(&mut self, index: usize, table: &mut Table, host: &mut H) {
        if self.stages[index].batch.group.n == 0 {
            return;
        }
        if self.keeps_order {
            // They queue in front of the sequences that come back, and count as left over until the next step.
            self.left_over += self.seat_joiners(table, host.now(), host);
        }
        if index == 0 {
            let stage = &mut self.stages[0];
            stage.wait.append(table, &mut stage.batch.group);
        } else {
            let (before, after) = self.stages.split_at_mut(index);
            before[0].wait.append(table, &mut after[0].batch.group);
        }
    }
}

/// The next token of a request is there.
pub(super) fn emit<H: Host>(live: &mut Live, host: &mut H) {
    let now = host.now();
    if live.record.first_token == SimTime::NEVER {
        live.record.first_token = now;
    } else {
        host.observer().gap(live.record.last_token, now, 1);
    }
    live.record.last_token = now;
    live.emitted += 1;
}
