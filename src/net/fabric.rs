//! A network that transfers share.

use super::max_min::{Port, max_min};
use crate::ids::{InstanceId, SlotId};
use crate::units::{SimDuration, SimTime};

/// Which ports an instance has. Both directions are apart: what leaves does not slow down what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node it is on; instances larger than a node have one of their own.
    pub node: u32,
    /// Ports towards instances on the same node: out, in.
    pub inside: [Port; 2],
    /// Ports towards other nodes: out, in. Instances of a node share them where its network cards are shared.
    pub network: [Port; 2],
}

/// Nodes, ports and who is where.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// Capacity of each port in bytes per second; infinite is allowed.
    pub ports: Vec<f64>,
    /// Most that one transfer gets: what a single connection can carry. Infinite is allowed.
    pub most_per_transfer: f64,
    /// Where each instance is, by its number.
    pub places: Vec<Place>,
}

impl Topology {
    /// The ports a transfer passes.
    fn path(&self, from: InstanceId, to: InstanceId) -> [Port; 2] {
        let (from, to) = (self.places[from.index()], self.places[to.index()]);
        if from.node == to.node {
            [from.inside[0], to.inside[1]]
        } else {
            [from.network[0], to.network[1]]
        }
    }
}

/// A transfer whose bytes flow.
#[derive(Debug, Clone, Copy)]
struct Flow {
    slot: SlotId,
    path: [Port; 2],
    /// Bytes left at `since`, at `rate` from then on.
    left: f64,
    since: SimTime,
    rate: f64,
    end: SimTime,
}

/// The transfers in flight; each has its max-min fair share of the ports it passes.
///
/// Rates change when a transfer starts or ends. A transfer whose rate stays as it is is not touched, so its end stays, too.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    flows: Vec<Flow>,
}

impl Fabric {
    /// An idle network.
    #[must_use]
    pub const fn new(topology: Topology) -> Self {
        Self {
            topology,
            flows: Vec::new(),
        }
    }

    /// Lets the bytes of a transfer flow from `now` on.
    pub fn start(
        &mut self,
        now: SimTime,
        slot: SlotId,
        from: InstanceId,
        to: InstanceId,
        bytes: u64,
    ) {
        self.flows.push(Flow {
            slot,
            path: self.topology.path(from, to),
            left: bytes as f64,
            since: now,
            rate: 0.0,
            end: SimTime::NEVER,
        });
        self.share(now);
    }

    /// When the next transfer ends; [`SimTime::NEVER`] when none is in flight.
    #[must_use]
    pub fn next_end(&self) -> SimTime {
        let ends = self.flows.iter().map(|flow| flow.end);
        ends.min().unwrap_or(SimTime::NEVER)
    }

    /// Takes out the transfers that have ended by `now`, in the order in which they started.
    pub fn end_due(&mut self, now: SimTime) -> Vec<SlotId> {
        let due = self.flows.iter().filter(|flow| flow.end <= now);
        let ended: Vec<SlotId> = due.map(|flow| flow.slot).collect();
        self.flows.retain(|flow| flow.end > now);
        self.share(now);
        ended
    }

    fn share(&mut self, now: SimTime) {
        let paths: Vec<[Port; 2]> = self.flows.iter().map(|flow| flow.path).collect();
        let rates = max_min(
            &self.topology.ports,
            self.topology.most_per_transfer,
            &paths,
        );
        for (flow, rate) in self.flows.iter_mut().zip(rates) {
            if rate.to_bits() == flow.rate.to_bits() {
                continue;
            }
            let elapsed = now.saturating_since(flow.since);
            if elapsed > SimDuration::ZERO {
                flow.left = (flow.left - flow.rate * elapsed.as_secs_f64()).max(0.0);
            }
            (flow.since, flow.rate) = (now, rate);
            let time = SimDuration::from_secs_f64(flow.left / rate)
                .unwrap_or(SimDuration::from_ps(u64::MAX / 4));
            flow.end = now.saturating_add(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    /// `out` and `into` ports of instances that are each on a node of their own.
    fn apart(ports: &[(f64, f64)]) -> Topology {
        let place = |i: usize| {
            let port = |k: usize| u32::try_from(2 * i + k).unwrap();
            Place {
                node: port(0),
                inside: [port(0), port(1)],
                network: [port(0), port(1)],
            }
        };
        Topology {
            most_per_transfer: f64::INFINITY,
            ports: ports.iter().flat_map(|&(out, into)| [out, into]).collect(),
            places: (0..ports.len()).map(place).collect(),
        }
    }

    fn secs(at: SimTime) -> f64 {
        at.as_secs_f64()
    }

    #[test]
    fn two_into_one_share_its_port_and_the_last_gets_all_of_it() {
        let mut fabric = Fabric::new(apart(&[(10.0, 10.0), (10.0, 10.0), (10.0, 10.0)]));
        let id = InstanceId::new;
        fabric.start(SimTime::ZERO, SlotId::new(0), id(0), id(2), 50);
        fabric.start(SimTime::ZERO, SlotId::new(1), id(1), id(2), 100);
        // Five each per second: the first ends at 10 s, the other has 50 left and ends at 15 s.
        assert!((secs(fabric.next_end()) - 10.0).abs() < 1e-9);
        assert_eq!(fabric.end_due(fabric.next_end()), [SlotId::new(0)]);
        assert!((secs(fabric.next_end()) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn neighbours_do_not_use_the_network() {
        let mut topology = apart(&[(1.0, 1.0), (1.0, 1.0)]);
        topology.ports.extend([100.0, 100.0]);
        for place in &mut topology.places {
            (place.node, place.inside) = (0, [4, 5]);
        }
        let mut fabric = Fabric::new(topology);
        fabric.start(
            SimTime::ZERO,
            SlotId::new(0),
            InstanceId::new(0),
            InstanceId::new(1),
            100,
        );
        assert!((secs(fabric.next_end()) - 1.0).abs() < 1e-9);
    }

    proptest! {
        /// The slow twin forgets nothing and keeps nothing: at every event all bytes are moved on and all rates found anew.
        #[test]
        fn ends_agree_with_a_twin_that_moves_every_byte_at_every_event(
            ports in proptest::collection::vec((1u32..9, 1u32..9), 2..5),
            starts in proptest::collection::vec((0u64..40, 0usize..5, 0usize..5, 1u64..60), 1..15),
        ) {
            let ports: Vec<(f64, f64)> = ports.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let topology = apart(&ports);
            let n = ports.len();
            let mut starts: Vec<_> = starts.iter().map(|&(at, from, to, bytes)| (at, from % n, (from + 1 + to % (n - 1)) % n, bytes)).collect();
            starts.sort_unstable();
            let mut fabric = Fabric::new(topology.clone());
            let mut slow: Vec<(SlotId, [Port; 2], f64)> = Vec::new();
            let mut slow_now = 0.0;
            let mut next = 0;
            loop {
                let arrival = starts.get(next).map_or(SimTime::NEVER, |s| SimTime::ZERO + SimDuration::from_ms(1000 * s.0));
                let now = fabric.next_end().min(arrival);
                if now == SimTime::NEVER { break; }
                let rates = max_min(&topology.ports, f64::INFINITY, &slow.iter().map(|f| f.1).collect::<Vec<_>>());
                for (flow, rate) in slow.iter_mut().zip(rates) { flow.2 -= rate * (secs(now) - slow_now); }
                slow_now = secs(now);
                for slot in fabric.end_due(now) {
                    let at = slow.iter().position(|f| f.0 == slot).unwrap();
                    let left = slow.remove(at).2;
                    prop_assert!(left.abs() < 1e-6, "{left} bytes left at {now:?}");
                }
                prop_assert!(slow.iter().all(|f| f.2 > -1e-6));
                if now == arrival {
                    let (_, from, to, bytes) = starts[next];
                    let (from, to) = (InstanceId::new(from), InstanceId::new(to));
                    fabric.start(now, SlotId::new(next), from, to, bytes);
                    slow.push((SlotId::new(next), topology.path(from, to), bytes as f64));
                    next += 1;
                }
            }
            prop_assert!(slow.is_empty() && next == starts.len());
        }
    }
}
