//! The way of a KV cache from a prefill to a decode instance, station by station.

use crate::ids::InstanceId;
use crate::units::{SimDuration, SimTime};

/// Where a KV cache is on its way. What has not happened is [`SimTime::NEVER`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Journey {
    /// Its blocks are there and its prompt is done.
    pub(super) queued: SimTime,
    /// It began to be copied to host memory.
    pub(super) departed: SimTime,
    /// It stands in the queue of the link.
    pub(super) ready: SimTime,
    /// Its descriptors are being posted.
    pub(super) turn: SimTime,
    /// Its bytes flow.
    pub(super) wire: SimTime,
    /// Its bytes have left the link or the network.
    pub(super) landed: SimTime,
    /// It began to be copied from host memory.
    pub(super) up: SimTime,
    /// Bytes that travel, those sent early included.
    pub(super) bytes: u64,
    /// Bytes that were sent while the prompt was being computed.
    pub(super) early: u64,
    /// Tokens that travel and were not sent early.
    pub(super) tokens: u64,
    /// Tokens that the receiver had.
    pub(super) held: u64,
}

impl Journey {
    /// No journey yet.
    pub(super) const NONE: Self = Self {
        queued: SimTime::NEVER,
        departed: SimTime::NEVER,
        ready: SimTime::NEVER,
        turn: SimTime::NEVER,
        wire: SimTime::NEVER,
        landed: SimTime::NEVER,
        up: SimTime::NEVER,
        bytes: 0,
        early: 0,
        tokens: 0,
        held: 0,
    };

    /// Bytes that are left to travel once the prompt is done.
    pub(super) const fn late(&self) -> u64 {
        self.bytes - self.early
    }
}

/// A KV transfer that has ended: `queued ≤ departed ≤ ready ≤ turn ≤ wire ≤ landed ≤ up ≤ ended`.
///
/// Without copies to and from host memory `departed` and `ready` are `queued`, and `up` and `ended` are `landed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferFact {
    /// The prefill instance.
    pub from: InstanceId,
    /// The decode instance.
    pub to: InstanceId,
    /// Whichever of both posts the transfer: the first when it pushes, the second when it pulls.
    pub poster: InstanceId,
    /// The prompt was done and its blocks on the decode instance were reserved.
    pub queued: SimTime,
    /// The copy to host memory began.
    pub departed: SimTime,
    /// It stood in the poster's queue.
    pub ready: SimTime,
    /// Posting began.
    pub turn: SimTime,
    /// Bytes began to flow.
    pub wire: SimTime,
    /// The last byte had left the link.
    pub landed: SimTime,
    /// The copy from host memory began.
    pub up: SimTime,
    /// It was in the memory of the decode instance's GPUs.
    pub ended: SimTime,
    /// Bytes that travelled, the early ones included.
    pub bytes: u64,
    /// Bytes that travelled while the prompt was being computed.
    pub early_bytes: u64,
    /// Tokens that did not travel because the decode instance's prefix cache had them.
    pub held_tokens: u64,
}

impl TransferFact {
    /// Time in queues: before the link, and before the copies to and from host memory.
    #[must_use]
    pub fn waited(&self) -> SimDuration {
        let before_copy = self.departed.saturating_since(self.queued);
        let before_link = self.turn.saturating_since(self.ready);
        before_copy + before_link + self.up.saturating_since(self.landed)
    }

    /// Time on the way that no prompt computation hid: copying, posting and flowing after the prompt was done, without waiting.
    #[must_use]
    pub fn exposed(&self) -> SimDuration {
        let whole = self.ended.saturating_since(self.queued);
        SimDuration::from_ps(whole.as_ps() - self.waited().as_ps())
    }
}
