//! A group of sequences that decode in lockstep.
//!
//! The group keeps one step counter; a sequence stores only its context minus the counter and the counter value at
//! which it finishes. A step therefore changes three numbers, however many sequences it serves.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::decode_run::RunClock;
use super::table::Table;
use crate::ids::{RequestId, SlotId};
use crate::kv::Residues;
use crate::units::SimTime;

/// A sequence as heaps and queues name it; stale once the request's membership has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) slot: SlotId,
    membership: u32,
}

impl Member {
    /// Whether the request is still in the batch it was in when this was written.
    pub(super) fn is_current(self, table: &Table) -> bool {
        table[self.slot].membership == self.membership
    }
}

/// When a sequence finishes; ties go to the earlier request, so that order does not depend on table rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Finish {
    step: u64,
    id: RequestId,
    member: Member,
}

/// At which end of a queue a sequence enters.
#[derive(Debug, Clone, Copy)]
enum End {
    Front,
    Back,
}

/// Sequences that decode together.
#[derive(Debug)]
pub(super) struct Group {
    /// How many.
    pub(super) n: u32,
    /// Tokens in their KV caches, summed.
    pub(super) context: u64,
    /// The step counter.
    pub(super) steps: u64,
    /// When the sequences that are not fresh got their last token.
    pub(super) settled_at: SimTime,
    /// Counts decode-only steps since the group last changed; `None` after a change.
    pub(super) clock: Option<RunClock>,
    /// Sequences that have not ended a step here yet.
    pub(super) fresh: Vec<Member>,
    /// Block-boundary phases, when KV memory is finite.
    pub(super) residues: Option<Residues>,
    /// First-in-first-out order, kept only under a decode context cap.
    fifo: Option<VecDeque<Member>>,
    finish: BinaryHeap<Reverse<Finish>>,
}

impl Group {
    /// Makes an empty group. `block_tokens` when KV memory is finite, `ordered` under a decode context cap.
    pub(super) fn new(block_tokens: Option<u32>, ordered: bool) -> Self {
        Self {
            n: 0,
            context: 0,
            steps: 0,
            settled_at: SimTime::ZERO,
            clock: None,
            fresh: Vec::new(),
            residues: block_tokens.map(Residues::new),
            fifo: ordered.then(VecDeque::new),
            finish: BinaryHeap::new(),
        }
    }

    /// Adds a request that holds `context` tokens and has `remaining` tokens to emit, at the back of the queue.
    pub(super) fn join(&mut self, table: &mut Table, slot: SlotId, context: u64, remaining: u64) {
        let joined = table.next_join();
        let live = &mut table[slot];
        live.joined = joined;
        live.fresh = true;
        let member = self.enter(table, slot, context, remaining);
        self.fresh.push(member);
        if let Some(fifo) = &mut self.fifo {
            fifo.push_back(member);
        }
    }

    /// KV blocks the next step takes.
    pub(super) fn blocks_for_step(&self) -> u64 {
        self.residues.as_ref().map_or(0, |r| r.need_at(self.steps))
    }

    /// KV blocks the next `steps` steps take.
    pub(super) fn blocks_for_steps(&self, steps: u64) -> u64 {
        self.residues
            .as_ref()
            .map_or(0, |r| r.need(self.steps, steps))
    }

    /// KV blocks the steps behind the next `from` and up to the next `to` take.
    pub(super) fn blocks_between(&self, from: u64, to: u64) -> u64 {
        self.residues
            .as_ref()
            .map_or(0, |r| r.need(self.steps + from, to - from))
    }

    /// Tokens the sequence in `slot` holds.
    pub(super) fn context_of(&self, table: &Table, slot: SlotId) -> u64 {
        table[slot].offset.wrapping_add(self.steps)
    }

    /// Steps until the first sequence finishes; `u64::MAX` when there is none.
    pub(super) fn steps_to_finish(&mut self, table: &Table) -> u64 {
        while let Some(Reverse(next)) = self.finish.peek() {
            if next.member.is_current(table) {
                return next.step - self.steps;
            }
            self.finish.pop();
        }
        u64::MAX
    }

    /// Takes out the next sequence that has emitted its last token; says how many tokens its KV cache holds.
    pub(super) fn pop_finished(&mut self, table: &mut Table) -> Option<(SlotId, u64)> {
        if self.steps_to_finish(table) > 0 {
            return None;
        }
        let Reverse(next) = self.finish.pop()?;
        let slot = next.member.slot;
        let context = self.leave(table, slot);
        Some((slot, context))
    }

    /// Its sequences, in no particular order.
    pub(super) fn members<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = SlotId> + 'a {
        let members = self.finish.iter().map(|Reverse(f)| f.member);
        members.filter(|m| m.is_current(table)).map(|m| m.slot)
    }

    /// The sequence that joined last, and its place in the order of joining.
    pub(super) fn latest(&self, table: &Table) -> Option<(u64, SlotId)> {
        let members = self.finish.iter().map(|Reverse(f)| f.member);
        members
            .filter(|m| m.is_current(table))
            .map(|m| (table[m.slot].joined, m.slot))
            .max()
    }

    /// Takes out a sequence before it finishes (a preemption); says how many tokens its KV cache held.
    pub(super) fn take_out(&mut self, table: &mut Table, slot: SlotId) -> u64 {
        let context = self.leave(table, slot);
        self.forget_stale(table);
        context
    }

    /// Output tokens the sequence in `slot` still has to emit.
    pub(super) fn remaining(&self, table: &Table, slot: SlotId) -> u64 {
        table[slot].finish_step - self.steps
    }

    /// Moves the longest prefix of the queue of at most `most` sequences whose contexts, each with its new token, fit into
    /// `cap` to the empty group `into`; at least one sequence goes.
    #[inline(never)]
    pub(super) fn split_front(&mut self, table: &mut Table, cap: u64, most: u32, into: &mut Self) {
        let mut used = 0;
        while let Some(member) = self.front(table) {
            let context = self.context_of(table, member.slot);
            if into.n > 0 && (into.n == most || used + context + 1 > cap) {
                break;
            }
            used += context + 1;
            self.move_to(table, member.slot, into, End::Back);
        }
        self.forget_stale(table);
    }

    /// Takes all sequences of `other` in, behind its own. Fresh ones stay fresh. Boxes, so that two groups change places by a pointer.
    pub(super) fn append(self: &mut Box<Self>, table: &mut Table, other: &mut Box<Self>) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            std::mem::swap(self, other);
        } else if self.fifo.is_some() {
            self.append_in_order(table, other);
        } else {
            if other.n > self.n {
                std::mem::swap(self, other);
            }
            while let Some(Reverse(next)) = other.finish.pop() {
                if next.member.is_current(table) {
                    other.move_to(table, next.member.slot, self, End::Back);
                }
            }
        }
        other.clear();
    }

    /// Marks every sequence as settled: it got its last token at `at`.
    pub(super) fn settle(&mut self, table: &mut Table, at: SimTime) {
        for member in self.fresh.drain(..) {
            if member.is_current(table) {
                table[member.slot].fresh = false;
            }
        }
        self.settled_at = at;
    }

    /// Moves the smaller side, keeping `self` before `other`.
    fn append_in_order(self: &mut Box<Self>, table: &mut Table, other: &mut Box<Self>) {
        if self.n >= other.n {
            while let Some(member) = other.front(table) {
                other.move_to(table, member.slot, self, End::Back);
            }
            return;
        }
        while let Some(member) = self.back(table) {
            self.move_to(table, member.slot, other, End::Front);
        }
        std::mem::swap(self, other);
    }

    fn back(&mut self, table: &Table) -> Option<Member> {
        let fifo = self.fifo.as_mut()?;
        while let Some(&member) = fifo.back() {
            if member.is_current(table) {
                return Some(member);
            }
            fifo.pop_back();
        }
        None
    }

    fn front(&mut self, table: &Table) -> Option<Member> {
        let fifo = self.fifo.as_mut()?;
        while let Some(&member) = fifo.front() {
            if member.is_current(table) {
                return Some(member);
            }
            fifo.pop_front();
        }
        None
    }

    fn move_to(&mut self, table: &mut Table, slot: SlotId, into: &mut Self, end: End) {
        let remaining = self.remaining(table, slot);
        let was_fresh = table[slot].fresh;
        let settled_at = self.settled_at;
        let context = self.leave(table, slot);
        let member = into.enter(table, slot, context, remaining);
        if let Some(fifo) = &mut into.fifo {
            match end {
                End::Front => fifo.push_front(member),
                End::Back => fifo.push_back(member),
            }
        }
        // Whoever comes from elsewhere has a last token of its own until its next step here.
        let live = &mut table[slot];
        if !was_fresh {
            live.record.last_token = settled_at;
        }
        live.fresh = true;
        into.fresh.push(member);
    }

    fn enter(&mut self, table: &mut Table, slot: SlotId, context: u64, remaining: u64) -> Member {
        let live = &mut table[slot];
        live.membership = live.membership.wrapping_add(1);
        live.offset = context.wrapping_sub(self.steps);
        live.finish_step = self.steps + remaining;
        let member = Member {
            slot,
            membership: live.membership,
        };
        self.finish.push(Reverse(Finish {
            step: live.finish_step,
            id: live.record.id,
            member,
        }));
        if let Some(residues) = &mut self.residues {
            residues.add(residues.phase(context, self.steps));
        }
        self.n += 1;
        self.context += context;
        self.clock = None;
        member
    }

    fn leave(&mut self, table: &mut Table, slot: SlotId) -> u64 {
        let context = self.context_of(table, slot);
        let live = &mut table[slot];
        live.membership = live.membership.wrapping_add(1);
        if let Some(residues) = &mut self.residues {
            residues.remove(residues.phase(context, self.steps));
        }
        self.n -= 1;
        self.context -= context;
        self.clock = None;
        context
    }

    /// Drops stale entries once they outnumber the current ones, so that turns and preemptions do not pile up.
    fn forget_stale(&mut self, table: &Table) {
        let room = 2 * self.n as usize + 32;
        if self.finish.len() > room {
            self.finish.retain(|Reverse(f)| f.member.is_current(table));
        }
        if let Some(fifo) = &mut self.fifo
            && fifo.len() > room
        {
            fifo.retain(|m| m.is_current(table));
        }
        if self.fresh.len() > room {
            self.fresh.retain(|m| m.is_current(table));
        }
    }

    fn clear(&mut self) {
        debug_assert_eq!((self.n, self.context), (0, 0), "a cleared group is empty");
        self.finish.clear();
        self.fresh.clear();
        self.clock = None;
        if let Some(fifo) = &mut self.fifo {
            fifo.clear();
        }
    }
}
