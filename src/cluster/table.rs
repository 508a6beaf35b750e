//! The table of live requests: one request, one row, phases as instants in it.

use std::sync::Arc;

use super::record::{Outcome, RequestRecord};
use super::spec::{FirstToken, KvReserve};
use crate::ids::{InstanceId, RequestId, SlotId};
use crate::units::SimTime;
use crate::workload::{Prefixes, RequestSpec};

/// A live request.
#[derive(Debug, Clone)]
pub(super) struct Live {
    /// Its history so far.
    pub(super) record: RequestRecord,
    /// The client's limit on output tokens: all that a router may know.
    pub(super) max_output: u32,
    /// A number that the requests of its session share; 0 for none.
    pub(super) session: u64,
    /// Output tokens emitted before it joined its present decode batch.
    pub(super) emitted: u32,
    /// Tokens its KV cache holds when its prompt is done: the prompt, plus what was generated before a preemption.
    pub(super) to_compute: u32,
    /// Tokens of those already computed or being computed.
    pub(super) computed: u32,
    /// The instance that computed its prompt last.
    pub(super) prefill_on: InstanceId,
    /// The instance that decodes it, once chosen.
    pub(super) decode_on: InstanceId,
    /// While in a batch: context minus the batch's step counter (wrapping).
    pub(super) offset: u64,
    /// While in a batch: the step counter at which it has emitted its last token.
    pub(super) finish_step: u64,
    /// Changes whenever the request joins or leaves a batch, so that entries in heaps and queues go stale. Never
    /// reset, not even when the row is reused.
    pub(super) membership: u32,
    /// In a batch and has not yet ended a step there.
    pub(super) fresh: bool,
    /// Its rank in the queue for its prompt (lower goes first; 0 is never passed).
    pub(super) rank: u64,
    /// How many prompts have passed it there.
    pub(super) passed: u32,
    /// Blocks are reserved, or waited for, on its decode instance before its prompt is done.
    pub(super) early: bool,
    /// It holds, or will hold, the blocks of its prompt only where that is computed, and cannot decode there.
    pub(super) hands_off: bool,
    /// A role rule chose its decode instance at arrival.
    pub(super) placed: bool,
    /// Its decode instance was chosen at arrival, and its prompt is not done.
    pub(super) assigned: bool,
    /// Prompt blocks it holds in the prefix cache of the instance it is on.
    pub(super) held: usize,
    /// Prompt blocks it holds in the prefix cache of the decode instance that it has not reached yet.
    pub(super) held_there: u32,
    /// Tokens of its prompt that were handed to a shared network before it was done.
    pub(super) fed: u32,
    /// Under [`KvReserve::OracleAtDecode`]: the blocks of its reply are taken.
    pub(super) whole: bool,
    /// Order of joining decode batches; preemption takes the latest.
    pub(super) joined: u64,
}

impl Live {
    /// Whether it decodes elsewhere once its prompt is computed on `here`.
    pub(super) fn leaves(&self, here: InstanceId) -> bool {
        self.hands_off || (self.placed && self.decode_on != here)
    }

    /// Tokens for which a sequence is given KV blocks while its KV cache holds `context`. The last output token is never stored.
    pub(super) fn reserved_tokens(&self, reserve: KvReserve, context: u64) -> u64 {
        let record = &self.record;
        let with = |output: u32| u64::from(record.input_tokens) + u64::from(output) - 1;
        match reserve {
            KvReserve::Paged => context,
            // No output is longer than the client lets it be; a workload that says otherwise is taken at its word.
            KvReserve::MaxOutput => with(self.max_output.max(record.output_tokens)),
            KvReserve::OracleAtDecode if !self.whole => context,
            KvReserve::Oracle | KvReserve::OracleAtDecode => with(record.output_tokens),
        }
    }

    /// Tokens for which it is given KV blocks where its prompt is computed; see [`Live::reserved_tokens`].
    pub(super) fn prompt_tokens(&self, reserve: KvReserve, context: u64) -> u64 {
        if self.hands_off {
            context
        } else {
            self.reserved_tokens(reserve, context)
        }
    }

    /// Tokens in its KV cache when it begins to decode after a hand-off. A decode instance that emits the first token computes
    /// the prompt's last token itself.
    pub(super) fn handed_over(&self, first_token: FirstToken) -> u32 {
        match first_token {
            FirstToken::Prefill => self.to_compute,
            FirstToken::Decode => self.to_compute - 1,
        }
    }
}

/// Rows of live requests; rows of ended requests are used again.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Live>,
    free: Vec<SlotId>,
    joins: u64,
    /// Requests let go.
    ended: u64,
    /// The shared starts of prompts, if the workload describes them.
    prefixes: Option<Arc<Prefixes>>,
}

impl Table {
    /// An empty table for a workload with these prefixes.
    pub(super) fn new(prefixes: Option<Arc<Prefixes>>) -> Self {
        Self {
            prefixes,
            ..Self::default()
        }
    }

    /// The shared starts of prompts.
    pub(super) fn prefixes(&self) -> Option<&Prefixes> {
        self.prefixes.as_deref()
    }

    /// The ids of the whole prompt blocks of the request in `slot`.
    pub(super) fn prefix_ids(&self, slot: SlotId) -> &[u32] {
        self.prefix_ids_of(self[slot].record.id)
    }

    /// The ids of the whole prompt blocks of a request.
    pub(super) fn prefix_ids_of(&self, id: RequestId) -> &[u32] {
        self.prefixes
            .as_ref()
            .map_or(&[], |prefixes| prefixes.ids(id.index()))
    }

    /// Tokens of a prompt block.
    pub(super) fn prompt_block(&self) -> u64 {
        let prefixes = self.prefixes.as_ref();
        prefixes.map_or(0, |prefixes| u64::from(prefixes.block_tokens()))
    }

    /// Takes a request in.
    pub(super) fn insert(&mut self, id: RequestId, request: &RequestSpec) -> SlotId {
        let mut row = Live {
            record: RequestRecord {
                id,
                outcome: Outcome::Unfinished,
                class: request.class,
                preemptions: 0,
                input_tokens: request.input_tokens,
                output_tokens: request.output_tokens,
                cached_tokens: 0,
                prefill_instance: None,
                decode_instance: None,
                arrival: request.arrival,
                routed: SimTime::NEVER,
                prefill_start: SimTime::NEVER,
                prefill_end: SimTime::NEVER,
                transfer_start: SimTime::NEVER,
                transfer_end: SimTime::NEVER,
                decode_start: SimTime::NEVER,
                first_token: SimTime::NEVER,
                last_token: SimTime::NEVER,
            },
            max_output: request.max_output,
            session: request.session,
            emitted: 0,
            to_compute: request.input_tokens,
            computed: 0,
            prefill_on: InstanceId::default(),
            decode_on: InstanceId::default(),
            offset: 0,
            finish_step: 0,
            membership: 0,
            fresh: false,
            rank: 0,
            passed: 0,
            early: false,
            hands_off: false,
            placed: false,
            assigned: false,
            held: 0,
            held_there: 0,
            fed: 0,
            whole: false,
            joined: 0,
        };
        if let Some(slot) = self.free.pop() {
            row.membership = self.rows[slot.index()].membership;
            self.rows[slot.index()] = row;
            return slot;
        }
        self.rows.push(row);
        SlotId::new(self.rows.len() - 1)
    }

    /// How many requests are alive.
    pub(super) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Lets a request go; its row may be used again.
    pub(super) fn remove(&mut self, slot: SlotId) {
        self.free.push(slot);
        self.ended += 1;
    }

    /// How many requests have been let go.
    pub(super) const fn ended(&self) -> u64 {
        self.ended
    }

    /// Whether no request is alive.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.rows.len()
    }

    /// The next number in the order of joining decode batches.
    pub(super) fn next_join(&mut self) -> u64 {
        self.joins += 1;
        self.joins
    }

    /// Rows of requests still alive, in order of their ids.
    pub(super) fn live_by_id(&self) -> Vec<SlotId> {
        let mut alive = vec![true; self.rows.len()];
        for slot in &self.free {
            alive[slot.index()] = false;
        }
        let mut slots: Vec<SlotId> = (0..self.rows.len())
            .filter(|&i| alive[i])
            .map(SlotId::new)
            .collect();
        slots.sort_by_key(|slot| self[*slot].record.id);
        slots
    }
}

impl std::ops::Index<SlotId> for Table {
    type Output = Live;
    fn index(&self, slot: SlotId) -> &Live {
        &self.rows[slot.index()]
    }
}

impl std::ops::IndexMut<SlotId> for Table {
    fn index_mut(&mut self, slot: SlotId) -> &mut Live {
        &mut self.rows[slot.index()]
    }
}
