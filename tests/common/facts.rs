//! An observer that keeps everything, and how two runs of one scenario are compared.

use std::collections::BTreeMap;

use pdsim::cluster::{RequestRecord, RunClock, TransferFact};
use pdsim::ids::{InstanceId, RequestId};
use pdsim::sim::{Error, Gaps, Observer, PoolSample, StepFact};
use pdsim::units::{FINE_BITS, SimDuration, SimTime};

use crate::scenario::Scenario;

/// What an instance did in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    pub(crate) steps: u64,
    pub(crate) busy: SimDuration,
    pub(crate) prefill_tokens: u64,
    pub(crate) decoded: u64,
    /// Context read by decode steps, summed over steps.
    pub(crate) context: u128,
}

/// The facts of a run that do not depend on how its steps are grouped into runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// When the simulation ended, or why it did not.
    pub(crate) end: Option<Result<SimTime, Error>>,
    /// Records in the order in which requests ended.
    pub(crate) records: Vec<RequestRecord>,
    /// Every inter-token gap in 2⁻¹⁶ ps, and how often.
    pub(crate) gaps: BTreeMap<u128, u64>,
    pub(crate) samples: Vec<(SimTime, Vec<PoolSample>)>,
    /// Start or end, instant, from, to, bytes.
    pub(crate) transfers: Vec<(bool, SimTime, InstanceId, InstanceId, u64)>,
    /// The whole way of each transfer, in the order in which they ended.
    pub(crate) ways: Vec<TransferFact>,
    pub(crate) preemptions: Vec<(SimTime, InstanceId, RequestId)>,
    /// Requests that the client held back, and for how long.
    pub(crate) held_back: Vec<(RequestId, SimDuration)>,
    /// Most KV blocks in use at a time.
    pub(crate) kv_peak: BTreeMap<InstanceId, u64>,
    /// By instance and stage.
    pub(crate) work: BTreeMap<(InstanceId, u32), Work>,
    next_sample: SimTime,
    interval: SimDuration,
}

/// Most samples taken; the interval doubles at each half.
const SAMPLES: usize = 4000;

impl Facts {
    /// Runs `scenario`.
    pub(crate) fn of(scenario: &Scenario, fast_forward: bool, horizon: Option<SimTime>) -> Self {
        let mut facts = Self {
            interval: SimDuration::from_ms(5),
            ..Self::default()
        };
        let end = scenario.run(fast_forward, horizon, &mut facts);
        facts.end = Some(end);
        facts
    }

    /// The first difference between the facts of two runs, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        fn differ<T: PartialEq + std::fmt::Debug>(what: &str, a: &[T], b: &[T]) -> Option<String> {
            let at = (0..a.len().max(b.len())).find(|&i| a.get(i) != b.get(i))?;
            Some(format!(
                "{what} {at}:\n  {:?}\n  {:?}",
                a.get(at),
                b.get(at)
            ))
        }
        fn rows<K: Clone, V: Clone>(map: &BTreeMap<K, V>) -> Vec<(K, V)> {
            map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
        }
        differ("record", &self.records, &other.records)
            .or_else(|| differ("end", &[&self.end], &[&other.end]))
            .or_else(|| differ("preemption", &self.preemptions, &other.preemptions))
            .or_else(|| differ("client's wait", &self.held_back, &other.held_back))
            .or_else(|| differ("transfer", &self.transfers, &other.transfers))
            .or_else(|| differ("way", &self.ways, &other.ways))
            .or_else(|| differ("sample", &self.samples, &other.samples))
            .or_else(|| differ("gap", &rows(&self.gaps), &rows(&other.gaps)))
            .or_else(|| differ("work", &rows(&self.work), &rows(&other.work)))
            .or_else(|| differ("KV peak", &rows(&self.kv_peak), &rows(&other.kv_peak)))
    }
}

impl Observer for Facts {
    fn ended(&mut self, record: &RequestRecord) {
        self.records.push(*record);
    }

    fn stepped(&mut self, fact: &StepFact) {
        let work = self.work.entry((fact.instance, fact.stage)).or_default();
        let (n, steps) = (u128::from(fact.decodes), u128::from(fact.steps));
        work.steps += fact.steps;
        work.busy += fact.end - fact.start;
        work.prefill_tokens += fact.prefill_tokens * fact.steps;
        work.decoded += u64::from(fact.decodes) * fact.steps;
        work.context += steps * u128::from(fact.context) + n * (steps * (steps - 1) / 2);
    }

    fn gaps(&mut self, _: &RunClock, gaps: &Gaps) {
        for i in 0..gaps.count {
            let gap = u128::from(gaps.first.0) + u128::from(gaps.step.0) * u128::from(i);
            *self.gaps.entry(gap).or_default() += gaps.sequences;
        }
    }

    fn gap(&mut self, from: SimTime, to: SimTime, sequences: u64) {
        let gap = to - from;
        *self
            .gaps
            .entry(u128::from(gap.as_ps()) << FINE_BITS)
            .or_default() += sequences;
    }

    fn kv_changed(&mut self, _: SimTime, instance: InstanceId, _: i64, used: u64) {
        let peak = self.kv_peak.entry(instance).or_default();
        *peak = used.max(*peak);
    }

    fn transfer_started(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        self.transfers.push((true, now, from, to, bytes));
    }

    fn transfer_ended(&mut self, now: SimTime, from: InstanceId, to: InstanceId, bytes: u64) {
        self.transfers.push((false, now, from, to, bytes));
    }

    fn transferred(&mut self, fact: &TransferFact) {
        self.ways.push(*fact);
    }

    fn preempted(&mut self, now: SimTime, instance: InstanceId, id: RequestId) {
        self.preemptions.push((now, instance, id));
    }

    fn held_back(&mut self, id: RequestId, wait: SimDuration) {
        self.held_back.push((id, wait));
    }

    fn next_sample(&self) -> SimTime {
        self.next_sample
    }

    fn sample(&mut self, now: SimTime, pools: &[PoolSample]) {
        self.samples.push((now, pools.to_vec()));
        if self.samples.len().is_multiple_of(SAMPLES / 2) {
            self.interval = self.interval * 2;
        }
        self.next_sample = now.saturating_add(self.interval);
    }
}
