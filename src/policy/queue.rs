//! Queue orders: in which order prompts wait on an instance.
//!
//! A prompt takes its place when it enters the queue and keeps it: it goes in front of those that may wait longer than it,
//! from the back, up to the first that it may not pass. The order therefore changes only when something arrives, never while
//! time passes. Preempted sequences stand in front of everybody and are not passed.

use std::sync::Arc;

use crate::units::{SimDuration, SimTime};

/// Who goes first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum QueueOrder {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The shortest prompt.
    ShortestPrompt,
    /// The lowest request class.
    Priority,
    /// The request class with the lowest of these ranks, which stand by class number; classes beyond go last.
    Ranked(Arc<[u16]>),
    /// The earliest deadline: arrival plus the TTFT promised to the request's class (the last one for classes beyond).
    EarliestDeadline(Arc<[SimDuration]>),
}

/// An order, and how far it may be unfair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueRule {
    /// Who goes first.
    pub order: QueueOrder,
    /// How many later prompts may pass a waiting one; `None` for any number. A bound of 0 is first come, first served.
    pub most_passes: Option<u32>,
}

impl QueueRule {
    /// Whether a prompt ever passes another.
    #[must_use]
    pub fn reorders(&self) -> bool {
        self.order != QueueOrder::Fcfs
    }

    /// Whether one that waits and has been passed `passed` times may be passed again.
    #[must_use]
    pub fn may_pass(&self, passed: u32) -> bool {
        self.most_passes.is_none_or(|most| passed < most)
    }

    /// The rank of a prompt; lower goes first, equals in order of arrival. Ranks are at least 1.
    #[must_use]
    pub fn rank(&self, arrival: SimTime, input_tokens: u32, class: u16) -> u64 {
        let rank = match &self.order {
            QueueOrder::Fcfs => 0,
            QueueOrder::ShortestPrompt => u64::from(input_tokens),
            QueueOrder::Priority => u64::from(class),
            QueueOrder::Ranked(ranks) => {
                let of_class = ranks.get(usize::from(class)).copied();
                u64::from(of_class.unwrap_or(u16::MAX))
            }
            QueueOrder::EarliestDeadline(promises) => {
                let of_class = promises.get(usize::from(class)).or(promises.last());
                let promise = of_class.copied().unwrap_or(SimDuration::ZERO);
                arrival.saturating_add(promise).as_ps()
            }
        };
        rank.saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_class() {
        let rule = QueueRule {
            order: QueueOrder::Ranked([2, 0, 1].into()),
            most_passes: None,
        };
        let rank = |class| rule.rank(SimTime::ZERO, 1, class);
        assert!(rank(1) < rank(2) && rank(2) < rank(0) && rank(0) < rank(3));
    }

    #[test]
    fn deadlines_are_those_of_the_class_or_the_last_one() {
        let ms = SimDuration::from_ms;
        let rule = QueueRule {
            order: QueueOrder::EarliestDeadline([ms(5), ms(1)].into()),
            most_passes: None,
        };
        let rank = |at: u64, class| rule.rank(SimTime::ZERO + ms(at), 1, class);
        assert!(rank(3, 1) < rank(0, 0));
        assert!(rank(0, 0) < rank(5, 1));
        assert_eq!(rank(3, 1), rank(3, 7));
    }

    #[test]
    fn no_more_than_the_bound_may_pass() {
        let rule = QueueRule {
            order: QueueOrder::ShortestPrompt,
            most_passes: Some(2),
        };
        assert!(rule.may_pass(1) && !rule.may_pass(2));
    }
}
