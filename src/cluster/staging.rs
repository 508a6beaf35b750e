//! Transfers staged through host memory as a whole: a copy out of the GPUs, the transfer between hosts, a copy into the GPUs.
//!
//! An instance makes one copy each way at a time, first in, first out; both ways at once. Host memory is not limited, and a
//! KV cache keeps its blocks on the prefill instance until it has arrived.

use super::host::Host;
use super::spec::Staging;
use super::state::Cluster;
use crate::ids::{InstanceId, SlotId};
use crate::net::{Link, Shipment};
use crate::units::SimDuration;

/// Which way a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From GPU to host memory.
    Out,
    /// From host to GPU memory.
    Into,
}

/// The copies of one instance.
#[derive(Debug)]
pub(super) struct Copies {
    out: Link,
    into: Link,
    /// The lane of the copies out; that of the copies in follows.
    pub(super) lane: usize,
}

impl Copies {
    /// Idle, at the rates of `staging`.
    pub(super) const fn new(staging: &Staging, lane: usize) -> Self {
        Self {
            out: Link::new(staging.out_bytes_per_sec, 1),
            into: Link::new(staging.into_bytes_per_sec, 1),
            lane,
        }
    }

    fn on(&mut self, way: Way) -> (&mut Link, usize) {
        match way {
            Way::Out => (&mut self.out, self.lane),
            Way::Into => (&mut self.into, self.lane + 1),
        }
    }
}

impl Cluster {
    /// Queues the copy of a KV cache to host memory.
    #[inline(never)]
    pub(super) fn copy_out<H: Host>(&mut self, slot: SlotId, bytes: u64, host: &mut H) {
        let from = self.table[slot].prefill_on;
        self.copy(slot, from, Way::Out, bytes, host);
    }

    /// Queues the copy of a KV cache from host memory.
    #[inline(never)]
    pub(super) fn copy_in<H: Host>(&mut self, slot: SlotId, host: &mut H) {
        let (to, bytes) = (
            self.table[slot].decode_on,
            self.journeys[slot.index()].late(),
        );
        self.copy(slot, to, Way::Into, bytes, host);
    }

    fn copy<H: Host>(&mut self, slot: SlotId, id: InstanceId, way: Way, bytes: u64, host: &mut H) {
        if let Some(copies) = &mut self.instances[id.index()].copies {
            copies.on(way).0.push(Shipment {
                slot,
                bytes,
                posting: SimDuration::ZERO,
            });
        }
        self.start_copies(id, way, host);
    }

    /// A copy has ended: start the next.
    #[inline(never)]
    pub(super) fn end_copying<H: Host>(&mut self, id: InstanceId, way: Way, host: &mut H) {
        self.end_copy(id, way, host);
        self.start_copies(id, way, host);
    }

    fn start_copies<H: Host>(&mut self, id: InstanceId, way: Way, host: &mut H) {
        let now = host.now();
        loop {
            let Some(copies) = &mut self.instances[id.index()].copies else {
                return;
            };
            let (engine, lane) = copies.on(way);
            let Some(next) = engine.start_next() else {
                return;
            };
            let end = now.saturating_add(engine.wire(next.bytes));
            let journey = &mut self.journeys[next.slot.index()];
            match way {
                Way::Out => {
                    journey.departed = now;
                    self.depart(next.slot, host);
                }
                Way::Into => journey.up = now,
            }
            if end > now {
                host.schedule(lane, end);
                return;
            }
            self.end_copy(id, way, host);
        }
    }

    fn end_copy<H: Host>(&mut self, id: InstanceId, way: Way, host: &mut H) {
        let Some(copies) = &mut self.instances[id.index()].copies else {
            return;
        };
        let slot = copies.on(way).0.end().slot;
        match way {
            Way::Out => self.post(slot, host),
            Way::Into => self.arrive_at_decode(slot, host),
        }
    }
}
