//! The history of one request, handed to observers when it ends.

use crate::ids::{InstanceId, RequestId};
use crate::units::{SimDuration, SimTime};

/// How a request ended. Every arrived request ends in exactly one of these (law L1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// All output tokens were emitted.
    Done,
    /// The cluster refused it at arrival.
    Rejected(RejectReason),
    /// The horizon came first.
    Unfinished,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectReason {
    /// Prompt and output together need more KV blocks than an instance on its way has in all.
    LargerThanKvPool,
}

impl Outcome {
    /// The word written to result files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Rejected(RejectReason::LargerThanKvPool) => "rejected:larger_than_kv_pool",
            Self::Unfinished => "unfinished",
        }
    }
}

/// Instants and counts of one request, from arrival to its last token.
///
/// An instant that never came is [`SimTime::NEVER`]. Present instants obey law L3:
/// `arrival ≤ routed ≤ prefill_start ≤ prefill_end ≤ transfer_start ≤ transfer_end ≤ decode_start < …`, and
/// `first_token ≤ last_token`. `first_token` is `prefill_end`, or the end of the first decode step when the decode
/// instance emits it (`first_token: decode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRecord {
    /// Number in order of arrival.
    pub id: RequestId,
    /// How it ended.
    pub outcome: Outcome,
    /// Class of the workload.
    pub class: u16,
    /// Times it lost its KV blocks.
    pub preemptions: u16,
    /// Prompt tokens.
    pub input_tokens: u32,
    /// Output tokens asked for.
    pub output_tokens: u32,
    /// Prompt tokens found in a prefix cache.
    pub cached_tokens: u32,
    /// Where the prompt was computed first.
    pub prefill_instance: Option<InstanceId>,
    /// Where tokens were decoded first; the same as `prefill_instance` when colocated, absent for one-token outputs on
    /// a prefill instance.
    pub decode_instance: Option<InstanceId>,
    /// Entered the cluster.
    pub arrival: SimTime,
    /// Entered an instance's queue.
    pub routed: SimTime,
    /// Its first prefill step began.
    pub prefill_start: SimTime,
    /// Its prompt was complete (first time).
    pub prefill_end: SimTime,
    /// Its KV cache began to travel.
    pub transfer_start: SimTime,
    /// Its KV cache had arrived.
    pub transfer_end: SimTime,
    /// Its first decode step began.
    pub decode_start: SimTime,
    /// First output token.
    pub first_token: SimTime,
    /// Last output token.
    pub last_token: SimTime,
}

impl RequestRecord {
    /// Time to first token: `first_token − arrival`, queueing included.
    #[must_use]
    pub fn ttft(&self) -> Option<SimDuration> {
        span(self.arrival, self.first_token)
    }

    /// End-to-end latency: `last_token − arrival`.
    #[must_use]
    pub fn e2e(&self) -> Option<SimDuration> {
        if self.outcome == Outcome::Done {
            span(self.arrival, self.last_token)
        } else {
            None
        }
    }

    /// Time per output token in seconds: `(last − first) / (output tokens − 1)`; none for one token or an unfinished request.
    #[must_use]
    pub fn tpot_secs(&self) -> Option<f64> {
        if self.outcome != Outcome::Done || self.output_tokens < 2 {
            return None;
        }
        let decode = span(self.first_token, self.last_token)?;
        Some(decode.as_secs_f64() / f64::from(self.output_tokens - 1))
    }

    /// Arrival to an instance's queue.
    #[must_use]
    pub fn router_wait(&self) -> Option<SimDuration> {
        span(self.arrival, self.routed)
    }

    /// Instance queue to the first prefill step.
    #[must_use]
    pub fn prefill_queue(&self) -> Option<SimDuration> {
        span(self.routed, self.prefill_start)
    }

    /// First prefill step to the end of the prompt.
    #[must_use]
    pub fn prefill(&self) -> Option<SimDuration> {
        span(self.prefill_start, self.prefill_end)
    }

    /// Prompt done to the start of the KV transfer: waiting for decode blocks or for the link.
    #[must_use]
    pub fn transfer_queue(&self) -> Option<SimDuration> {
        span(self.prefill_end, self.transfer_start)
    }

    /// The KV transfer itself.
    #[must_use]
    pub fn transfer(&self) -> Option<SimDuration> {
        span(self.transfer_start, self.transfer_end)
    }

    /// Ready to decode (KV arrived, or prompt done when nothing travels) to the first decode step.
    #[must_use]
    pub fn decode_queue(&self) -> Option<SimDuration> {
        let ready = if self.transfer_end == SimTime::NEVER {
            self.prefill_end
        } else {
            self.transfer_end
        };
        span(ready, self.decode_start)
    }

    /// The first decode step, when it is the one that emits the first token.
    #[must_use]
    pub fn first_step(&self) -> Option<SimDuration> {
        if self.first_token == self.prefill_end {
            None
        } else {
            span(self.decode_start, self.first_token)
        }
    }
}

fn span(from: SimTime, to: SimTime) -> Option<SimDuration> {
    (from != SimTime::NEVER && to != SimTime::NEVER).then(|| to - from)
}
