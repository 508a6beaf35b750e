//! What travels while its prompt is still being computed.
//!
//! On a link of the prefill instance's own it is found in hindsight, when the prompt is done: the link had nothing else to do, and
//! sent. On a shared network what it gets changes with every other transfer, so parts are handed over as they come to be:
//!
//! ```text
//! chunk       ├── chunk 1 ──┤├── chunk 2 ──┤├── last ──┤
//! network                    [chunk 1 flows ………………………][rest posted, then flows]
//! layerwise   ├──────────── step ────────────┤
//! network          [all layers but the last flow,   ][rest posted, then flows]
//!                   no faster than they are computed
//! ```

use super::host::Host;
use super::spec::Overlap;
use super::state::Cluster;
use crate::ids::SlotId;
use crate::net::Feed;
use crate::units::{SimDuration, SimTime};

/// A part of a prompt's KV cache comes to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Produced {
    pub(super) slot: SlotId,
    /// Tokens that are there then, from the first one on.
    pub(super) tokens: u32,
    /// When the first of those that are new is there.
    pub(super) at: SimTime,
    /// How long until the last one is; zero: they are there.
    pub(super) over: SimDuration,
    /// Its share of the tokens of its step.
    pub(super) share: f64,
}

impl Cluster {
    /// Whole tokens of a prompt's KV cache that were sent while it was being computed, and how long they took a link of their own.
    pub(super) fn sent_ahead(&mut self, slot: SlotId, now: SimTime) -> (u64, SimDuration) {
        if self.transfer.overlap == Overlap::None {
            return (0, SimDuration::ZERO);
        }
        if self.fabric.is_some() {
            return (self.withdraw(slot, now), SimDuration::ZERO);
        }
        let live = &self.table[slot];
        let kept = match self.transfer.overlap {
            Overlap::None | Overlap::Chunk => live.last_chunk,
            Overlap::Layerwise { layers } => live.last_chunk.div_ceil(layers),
        };
        let (since, from) = (live.kv_since, live.prefill_on);
        let tokens = u64::from(live.computed - kept).saturating_sub(self.held_tokens(slot));
        let per_token = self.sent_per_token(slot);
        let seconds_per_byte =
            1.0 / self.transfer.bytes_per_sec + 1.0 / self.posting_rate(slot, per_token);
        let link = &mut self.instances[from.index()].link;
        let (sent, time) = link.send_ahead(since, now, tokens * per_token, seconds_per_byte);
        (sent.checked_div(per_token).unwrap_or(0), time)
    }

    /// Bytes per second whose descriptors can be posted.
    fn posting_rate(&self, slot: SlotId, per_token: u64) -> f64 {
        let live = &self.table[slot];
        let tokens = [live.prefill_on, live.decode_on]
            .map(|id| self.instances[id.index()].kv.block_tokens())
            .into_iter()
            .fold(u32::MAX, u32::min);
        let block = f64::from(tokens) * per_token as f64;
        block / self.transfer.per_block.as_secs_f64()
    }

    /// Takes what was not sent early out of the network; answers how many whole tokens were sent.
    pub(super) fn withdraw(&mut self, slot: SlotId, now: SimTime) -> u64 {
        let per_token = self.sent_per_token(slot);
        let live = &mut self.table[slot];
        let fed = std::mem::take(&mut live.fed);
        let Some(fabric) = &mut self.fabric else {
            return 0;
        };
        let unsent = fabric.withdraw(now, slot);
        (u64::from(fed) * per_token)
            .saturating_sub(unsent)
            .checked_div(per_token)
            .unwrap_or(0)
    }

    /// Hands what has come to be of prompts to the network.
    pub(super) fn feed_network<H: Host>(&mut self, host: &mut H) {
        let now = host.now();
        let mut produced = std::mem::take(&mut self.produced);
        for part in produced.drain(..) {
            // Without blocks on the decode instance there is nowhere to send to.
            if self.table[part.slot].early {
                self.feed(part, now);
            }
        }
        self.produced = produced;
        self.watch_network(host);
    }

    fn feed(&mut self, part: Produced, now: SimTime) {
        let slot = part.slot;
        let per_token = self.sent_per_token(slot);
        let posting = self.posting_rate(slot, per_token);
        let held = self.held_tokens(slot);
        let live = &mut self.table[slot];
        let sent_or_held = held + u64::from(live.fed);
        let tokens = u64::from(part.tokens).saturating_sub(sent_or_held);
        let (from, to) = (live.prefill_on, live.decode_on);
        live.fed += u32::try_from(tokens).expect("no more than the prompt has");
        let Some(fabric) = &mut self.fabric else {
            return;
        };
        let bytes = tokens * per_token;
        let cap = if part.over == SimDuration::ZERO {
            fabric.lift(now, slot, posting);
            posting
        } else {
            (posting * part.share).min(bytes as f64 / part.over.as_secs_f64())
        };
        if bytes > 0 {
            fabric.feed(
                now,
                Feed {
                    slot,
                    from,
                    to,
                    at: part.at,
                    bytes,
                    cap,
                },
            );
        }
    }
}
