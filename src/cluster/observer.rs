//! What the loop tells the outside: one no-op-default method per fact.

use super::decode_run::{Progression, RunClock};
use super::journey::TransferFact;
use super::record::RequestRecord;
use super::refusal::Shortage;
use crate::ids::{InstanceId, RequestId};
use crate::policy::roles::Role;
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
    /// Tokens that their prompts have in the KV cache before each step.
    pub past_tokens: u64,
    /// Sequences that decode in each step.
    pub decodes: u32,
    /// Their total context before the first step.
    pub context: u64,
    /// From where the steps are timed, and how: of decode runs, whose steps have ends of their own.
    pub run: Option<(RunClock, Progression)>,
}

impl StepFact {
    /// How many of the steps start at `window` or later.
    #[must_use]
    pub fn steps_from(&self, window: SimTime) -> u64 {
        if self.start >= window {
            return self.steps;
        }
        self.run.map_or(0, |(since, run)| {
            self.steps - since.started_before(&run, window, self.steps)
        })
    }
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

impl Gaps {
    /// Those of the gaps that start at `window` or later, when the first starts at the instant of `since`.
    #[must_use]
    pub fn from_window(&self, since: &RunClock, window: SimTime) -> Self {
        let run = Progression {
            first: self.first,
            growth: self.step,
        };
        if self.count == 0 || since.end_of(&run, 0) >= window {
            return *self;
        }
        let skipped = since.started_before(&run, window, self.count);
        let first = Fine(self.first.0 + self.step.0 * skipped);
        Self {
            first,
            count: self.count - skipped,
            ..*self
        }
    }
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
    /// The client held a request back for `wait` beyond its planned arrival, because as many as it allows were in flight.
    /// Told at the instant the request is sent, before it arrives; never in an open loop.
    fn held_back(&mut self, id: RequestId, wait: SimDuration) {
        let _ = (id, wait);
    }

    /// The horizon cut the run off before the client could send so many requests whose planned arrival had come. Told once, at the end;
    /// never in an open loop.
    fn never_sent(&mut self, count: u64) {
        let _ = count;
    }

    /// A request entered the cluster.
    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        let _ = (id, request);
    }

    /// A request is refused, since an instance on its way could not hold it even alone; [`Observer::ended`] follows.
    fn refused(&mut self, id: RequestId, shortage: &Shortage) {
        let _ = (id, shortage);
    }

    /// A request ended: done, rejected, or unfinished at the horizon.
    fn ended(&mut self, record: &RequestRecord) {
        let _ = record;
    }

    /// A step, or a run of steps, ended.
    fn stepped(&mut self, fact: &StepFact) {
        let _ = fact;
    }

    /// Gaps between tokens of sequences that decoded without interruption, the first from the instant of `since`.
    fn gaps(&mut self, since: &RunClock, gaps: &Gaps) {
        let _ = (since, gaps);
    }

    /// One gap across an interruption (a prefill step, a hand-off, a preemption), for `sequences` sequences.
    fn gap(&mut self, from: SimTime, to: SimTime, sequences: u64) {
        let _ = (from, to, sequences);
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

    /// The whole way of the transfer that has just ended.
    fn transferred(&mut self, fact: &TransferFact) {
        let _ = fact;
    }

    /// A sequence lost its KV blocks and goes back to a queue.
    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        let _ = (now, instance, id);
    }

    /// An instance has a role from now on; `None`: it is on its way to another one. Roles that never change are not told.
    fn role_changed(&mut self, now: SimTime, instance: InstanceId, role: Option<Role>) {
        let _ = (now, instance, role);
    }

    /// A prompt has been looked up in the prefix cache of the instance that admits it, for the first time: `record.cached_tokens` were
    /// found, `from_cpu` of them in the CPU tier. Not told of instances without a cache.
    fn prefix_looked_up(&mut self, instance: InstanceId, record: &RequestRecord, from_cpu: u32) {
        let _ = (instance, record, from_cpu);
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
    fn held_back(&mut self, id: RequestId, wait: SimDuration) {
        both!(self.0, self.1, held_back(id, wait));
    }

    fn never_sent(&mut self, count: u64) {
        both!(self.0, self.1, never_sent(count));
    }

    fn arrived(&mut self, id: RequestId, request: &RequestSpec) {
        both!(self.0, self.1, arrived(id, request));
    }

    fn refused(&mut self, id: RequestId, shortage: &Shortage) {
        both!(self.0, self.1, refused(id, shortage));
    }

    fn ended(&mut self, record: &RequestRecord) {
        both!(self.0, self.1, ended(record));
    }

    fn stepped(&mut self, fact: &StepFact) {
        both!(self.0, self.1, stepped(fact));
    }

    fn gaps(&mut self, since: &RunClock, gaps: &Gaps) {
        both!(self.0, self.1, gaps(since, gaps));
    }

    fn gap(&mut self, from: SimTime, to: SimTime, sequences: u64) {
        both!(self.0, self.1, gap(from, to, sequences));
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

    fn transferred(&mut self, fact: &TransferFact) {
        both!(self.0, self.1, transferred(fact));
    }

    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        both!(self.0, self.1, preempted(now, instance, id));
    }

    fn role_changed(&mut self, now: SimTime, instance: InstanceId, role: Option<Role>) {
        both!(self.0, self.1, role_changed(now, instance, role));
    }

    fn prefix_looked_up(&mut self, instance: InstanceId, record: &RequestRecord, from_cpu: u32) {
        both!(self.0, self.1, prefix_looked_up(instance, record, from_cpu));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::FINE_BITS;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn a_window_drops_the_gaps_that_start_before_it(
            (first, step, count) in (1u64..5000, 0u64..500, 0u64..40),
            (origin, sum, window) in (0u64..3, 0u64..1000, 0u64..6),
        ) {
            let unit = 1 << (FINE_BITS - 4);
            let gaps = Gaps { first: Fine(first * unit), step: Fine(step), count, sequences: 2 };
            let since = RunClock { origin: SimTime::from_ps(origin), sum: u128::from(sum * unit) };
            let mut start = since;
            let mut left = Vec::new();
            for i in 0..count {
                let gap = gaps.first.0 + gaps.step.0 * i;
                if start.end_of(&Progression::default(), 0) >= SimTime::from_ps(window) {
                    left.push(gap);
                }
                start.sum += u128::from(gap);
            }
            let kept = gaps.from_window(&since, SimTime::from_ps(window));
            let terms: Vec<u64> = (0..kept.count).map(|i| kept.first.0 + kept.step.0 * i).collect();
            prop_assert_eq!(terms, left);
        }
    }
}
