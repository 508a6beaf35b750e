//! What the loop tells the outside: one no-op-default method per fact.

use super::record::RequestRecord;
use crate::ids::{InstanceId, RequestId};
use crate::units::{Fine, SimDuration, SimTime};
use crate::workload::RequestSpec;

/// Steps of one batch on one pipeline stage, back to back: one step, or a run of decode steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepFact {
    /// Where.
    pub instance: InstanceId,
    /// On which pipeline stage.
    pub stage: u32,
    /// Start of the first step.
    pub start: SimTime,
    /// End of the last step.
    pub end: SimTime,
    /// How many steps.
    pub steps: u64,
    /// Prompts in each step.
    pub prompts: u32,
    /// Prompt tokens in each step.
    pub prefill_tokens: u64,
    /// Sequences that decode in each step.
    pub decodes: u32,
    /// Their total context before the first step.
    pub context: u64,
}

/// Inter-token gaps of the sequences of a run: an arithmetic progression, each term with the same multiplicity.
///
/// The `i`-th gap (from 0) is `first + i × step`; each occurs `sequences` times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaps {
    /// First gap.
    pub first: Fine,
    /// Difference between neighbours.
    pub step: Fine,
    /// How many gaps.
    pub count: u64,
    /// Multiplicity of each.
    pub sequences: u64,
}

/// The state of one pool at an instant, with decode runs advanced to that instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSample {
    /// Prompts waiting in instance queues.
    pub waiting: u64,
    /// Prompts being computed.
    pub prefilling: u64,
    /// Sequences decoding or ready to.
    pub decoding: u64,
    /// Sequences whose prompt is done here and whose KV cache has not left yet (waiting or travelling).
    pub handing_off: u64,
    /// KV blocks in use.
    pub kv_used: u64,
    /// KV blocks in all; 0 when unlimited.
    pub kv_capacity: u64,
    /// Instances with a step in progress.
    pub busy: u64,
}

/// Receives the facts of a simulation in order of time.
///
/// Every method does nothing by default. Observers compose as tuples.
pub trait Observer {
    /// A request entered the cluster.
    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        let _ = (id, request);
    }

    /// A request ended: done, rejected, or unfinished at the horizon.
    fn ended(&mut self, record: &RequestRecord) {
        let _ = record;
    }

    /// A step, or a run of steps, ended.
    fn stepped(&mut self, fact: &StepFact) {
        let _ = fact;
    }

    /// Gaps between tokens of sequences that decoded without interruption.
    fn gaps(&mut self, gaps: &Gaps) {
        let _ = gaps;
    }

    /// One gap across an interruption (a prefill step, a hand-off, a preemption), for `sequences` sequences.
    fn gap(&mut self, gap: SimDuration, sequences: u64) {
        let _ = (gap, sequences);
    }

    /// KV blocks of an instance were taken (positive) or given back (negative); `used` is the level after it.
    fn kv_changed(&mut self, now: SimTime, instance: InstanceId, delta: i64, used: u64) {
        let _ = (now, instance, delta, used);
    }

    /// A KV transfer began; `bytes` travel from `from` to `to`.
    fn transfer_started(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        let _ = (now, from, to, bytes);
    }

    /// A KV transfer ended.
    fn transfer_ended(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        let _ = (now, from, to, bytes);
    }

    /// A sequence lost its KV blocks and goes back to a queue.
    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        let _ = (now, instance, id);
    }

    /// When the next [`Observer::sample`] is wanted; [`SimTime::NEVER`] for none.
    fn next_sample(&self) -> SimTime {
        SimTime::NEVER
    }

    /// The state of every pool at `now`, in the order of the system's pools. Called with the instant that
    /// `next_sample` named, after all events up to and including that instant.
    fn sample(&mut self, now: SimTime, pools: &[PoolSample]) {
        let _ = (now, pools);
    }

    /// The simulation ended at `now`.
    fn finished(&mut self, now: SimTime) {
        let _ = now;
    }
}

/// An observer that looks away; for benches.
impl Observer for () {}

macro_rules! both {
    ($a:expr, $b:expr, $method:ident ( $($arg:expr),* )) => {{
        $a.$method($($arg),*);
        $b.$method($($arg),*);
    }};
}

impl<A: Observer, B: Observer> Observer for (A, B) {
    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        both!(self.0, self.1, arrived(id, request));
    }

    fn ended(&mut self, record: &RequestRecord) {
        both!(self.0, self.1, ended(record));
    }

    fn stepped(&mut self, fact: &StepFact) {
        both!(self.0, self.1, stepped(fact));
    }

    fn gaps(&mut self, gaps: &Gaps) {
        both!(self.0, self.1, gaps(gaps));
    }

    fn gap(&mut self, gap: SimDuration, sequences: u64) {
        both!(self.0, self.1, gap(gap, sequences));
    }

    fn kv_changed(&mut self, now: SimTime, instance: InstanceId, delta: i64, used: u64) {
        both!(self.0, self.1, kv_changed(now, instance, delta, used));
    }

    fn transfer_started(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        both!(self.0, self.1, transfer_started(now, from, to, bytes));
    }

    fn transfer_ended(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        both!(self.0, self.1, transfer_ended(now, from, to, bytes));
    }

    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        both!(self.0, self.1, preempted(now, instance, id));
    }

    fn next_sample(&self) -> SimTime {
        self.0.next_sample().min(self.1.next_sample())
    }

    fn sample(&mut self, now: SimTime, pools: &[PoolSample]) {
        if self.0.next_sample() == now {
            self.0.sample(now, pools);
        }
        if self.1.next_sample() == now {
            self.1.sample(now, pools);
        }
    }

    fn finished(&mut self, now: SimTime) {
        both!(self.0, self.1, finished(now));
    }
}
