//! What travels while its prompt is still being computed.
//!
//! Parts of a KV cache flow behind whole transfers, in what these leave of the ports, each no faster than it is computed.
//! When the prompt is done, what has not been sent is withdrawn and travels as a transfer of its own.

use super::flow::Flow;
use crate::ids::SlotId;
use crate::units::SimTime;

/// The early parts in flight, and those that will be there later.
#[derive(Debug)]
pub(super) struct Early {
    flows: Vec<Flow>,
    /// In no order; they begin at their `since`.
    later: Vec<Flow>,
}

impl Early {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            flows: Vec::new(),
            later: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Those in flight.
    pub(super) fn flows(&mut self) -> &mut [Flow] {
        &mut self.flows
    }

    /// Takes a part in.
    pub(super) fn feed(&mut self, now: SimTime, flow: Flow) {
        if flow.since > now {
            self.later.push(flow);
            return;
        }
        let alike = |known: &&mut Flow| {
            known.slot == flow.slot && known.cap.to_bits() == flow.cap.to_bits()
        };
        match self.flows.iter_mut().find(alike) {
            Some(known) => known.add(now, flow.left_at(now)),
            None => self.flows.push(flow),
        }
    }

    /// Gives all parts of a prompt one cap, and so makes them one.
    pub(super) fn lift(&mut self, now: SimTime, slot: SlotId, cap: f64) {
        let mine = self.flows.extract_if(.., |flow| flow.slot == slot);
        let mine: Vec<Flow> = mine.collect();
        if let Some(first) = mine.first() {
            let left = mine.iter().map(|flow| flow.left_at(now)).sum();
            self.flows.push(Flow::new(slot, first.path, left, cap, now));
        }
    }

    /// Takes out all parts of a prompt; answers how many bytes have not been sent.
    pub(super) fn withdraw(&mut self, now: SimTime, slot: SlotId) -> u64 {
        let mut unsent = 0.0;
        for flows in [&mut self.flows, &mut self.later] {
            for flow in flows.extract_if(.., |flow| flow.slot == slot) {
                unsent += flow.left_at(now);
            }
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "never negative, and no more than was fed"
        )]
        let unsent = f64::ceil(unsent) as u64;
        unsent
    }

    /// When one ends or begins.
    pub(super) fn next(&self) -> SimTime {
        let ends = self.flows.iter().map(|flow| flow.end);
        let begins = self.later.iter().map(|flow| flow.since);
        ends.chain(begins).min().unwrap_or(SimTime::NEVER)
    }

    /// Lets those end, and those begin, whose time has come.
    pub(super) fn turn(&mut self, now: SimTime) {
        self.flows.retain(|flow| flow.end > now);
        self.flows
            .extend(self.later.extract_if(.., |flow| flow.since <= now));
    }
}
