//! What travels while its prompt is still being computed.
//!
//! What a part gets of a link changes with whatever else is sent, so parts are handed over as they come to be. A prefill instance's
//! own link is a network of one port to whole transfers and early parts alike:
//!
//! ```text
//! chunk       ├── chunk 1 ──┤├── chunk 2 ──┤├── last ──┤
//! network                    [chunk 1 flows ………………………][rest posted, then flows]
//! layerwise   ├──────────── step ────────────┤
//! network          [all layers but the last flow,   ][rest posted, then flows]
//!                   no faster than they are computed
//! ```

use super::host::Host;
use super::spec::{Overlap, Sharing, TransferSpec};
use super::state::Cluster;
use crate::ids::SlotId;
use crate::net::{Feed, Place, Topology};
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

/// The network that early parts and whole transfers share: the scenario's or, where each prefill instance has a link of its own, one
/// port for each, out of which one transfer goes at a time. None where nothing travels early over links that nobody shares.
pub(super) fn network(transfer: &TransferSpec, instances: u32) -> Option<Sharing> {
    if transfer.sharing.is_some() || transfer.overlap == Overlap::None {
        return transfer.sharing.clone();
    }
    let place = |i: u32| Place {
        node: i,
        inside: [2 * i, 2 * i + 1],
        network: [2 * i, 2 * i + 1],
        host: None,
    };
    let ports = (0..instances).flat_map(|_| [transfer.bytes_per_sec, f64::INFINITY]);
    Some(Sharing {
        topology: Topology {
            ports: ports.collect(),
            most_per_transfer: f64::INFINITY,
            places: (0..instances).map(place).collect(),
        },
        in_flight: 1,
    })
}

impl Cluster {
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
    #[inline(never)]
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
