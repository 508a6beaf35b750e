//! A network that transfers share.

use super::early::Early;
use super::flow::Flow;
use super::max_min::{Path, Port, max_min};
use crate::ids::{InstanceId, SlotId};
use crate::units::SimTime;

/// Which ports an instance has. Both directions are apart: what leaves does not slow down what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node it is on; instances larger than a node have one of their own.
    pub node: u32,
    /// Ports towards instances on the same node: out, in.
    pub inside: [Port; 2],
    /// Ports towards other nodes: out, in. Instances of a node share them where its network cards are shared.
    pub network: [Port; 2],
    /// Ports to and from host memory, if transfers are staged there: out of the GPUs, into them.
    pub host: Option<[Port; 2]>,
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
    #[must_use]
    pub fn path(&self, from: InstanceId, to: InstanceId) -> Path {
        let (from, to) = (self.places[from.index()], self.places[to.index()]);
        let [out, into] = if from.node == to.node {
            [from.inside[0], to.inside[1]]
        } else {
            [from.network[0], to.network[1]]
        };
        match (from.host, to.host) {
            (Some([down, _]), Some([_, up])) => Path::through(&[down, out, into, up]),
            _ => Path::through(&[out, into]),
        }
    }
}

/// The transfers in flight; each has its max-min fair share of the ports it passes.
///
/// Rates change when a transfer starts or ends. A transfer whose rate stays as it is is not touched, so its end stays, too.
/// What travels while its prompt is still being computed shares, max-min fair as well, what these transfers leave.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    flows: Vec<Flow>,
    early: Early,
}

impl Fabric {
    /// An idle network.
    #[must_use]
    pub const fn new(topology: Topology) -> Self {
        Self {
            topology,
            flows: Vec::new(),
            early: Early::new(),
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
        let path = self.topology.path(from, to);
        let cap = self.topology.most_per_transfer;
        self.flows
            .push(Flow::new(slot, path, bytes as f64, cap, now));
        self.share(now);
    }

    /// Lets `bytes` of the KV cache of an unfinished prompt flow from `at` on, at most at `cap` bytes per second, behind
    /// whole transfers.
    pub fn feed(&mut self, now: SimTime, feed: Feed) {
        let path = self.topology.path(feed.from, feed.to);
        let cap = feed.cap.min(self.topology.most_per_transfer);
        let flow = Flow::new(feed.slot, path, feed.bytes as f64, cap, feed.at.max(now));
        self.early.feed(now, flow);
        self.share(now);
    }

    /// What was fed of a prompt is there by now: only `cap` holds its bytes back from here on.
    pub fn lift(&mut self, now: SimTime, slot: SlotId, cap: f64) {
        let cap = cap.min(self.topology.most_per_transfer);
        self.early.lift(now, slot, cap);
        self.share(now);
    }

    /// Takes out what was fed of a prompt; answers how many bytes have not been sent.
    pub fn withdraw(&mut self, now: SimTime, slot: SlotId) -> u64 {
        let unsent = self.early.withdraw(now, slot);
        self.share(now);
        unsent
    }

    /// When rates change next unless somebody comes; [`SimTime::NEVER`] when nothing is in flight.
    #[must_use]
    pub fn next_event(&self) -> SimTime {
        let ends = self.flows.iter().map(|flow| flow.end);
        ends.min().unwrap_or(SimTime::NEVER).min(self.early.next())
    }

    /// Takes out the transfers that have ended by `now`, in the order in which they started.
    pub fn end_due(&mut self, now: SimTime) -> Vec<SlotId> {
        let due = self.flows.iter().filter(|flow| flow.end <= now);
        let ended: Vec<SlotId> = due.map(|flow| flow.slot).collect();
        self.flows.retain(|flow| flow.end > now);
        self.early.turn(now);
        self.share(now);
        ended
    }

    fn share(&mut self, now: SimTime) {
        let ports = &self.topology.ports;
        set_rates(ports, &mut self.flows, now);
        if self.early.is_empty() {
            return;
        }
        let mut left = ports.clone();
        for flow in &self.flows {
            for &port in flow.path.ports() {
                left[port as usize] -= flow.rate;
            }
        }
        for (left, all) in left.iter_mut().zip(ports) {
            // A port that is full to the last bits of rounding is full; infinity less infinity is nothing for an instant.
            if left.is_nan() || *left < 1e-9 * all {
                *left = 0.0;
            }
        }
        set_rates(&left, self.early.flows(), now);
    }
}

/// Part of the KV cache of a prompt that is still being computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feed {
    /// Whose it is.
    pub slot: SlotId,
    /// Where it is computed.
    pub from: InstanceId,
    /// Where it goes.
    pub to: InstanceId,
    /// When the first of it is there.
    pub at: SimTime,
    /// How much it is.
    pub bytes: u64,
    /// How fast it comes, at most, in bytes per second.
    pub cap: f64,
}

/// Gives flows their shares of ports with so much room.
fn set_rates(room: &[f64], flows: &mut [Flow], now: SimTime) {
    let paths: Vec<Path> = flows.iter().map(|flow| flow.path).collect();
    let caps: Vec<f64> = flows.iter().map(|flow| flow.cap).collect();
    for (flow, rate) in flows.iter_mut().zip(max_min(room, &caps, &paths)) {
        flow.set_rate(now, rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SimDuration;
    use proptest::prelude::{prop_assert, proptest};

    /// `out` and `into` ports of instances that are each on a node of their own.
    fn apart(ports: &[(f64, f64)]) -> Topology {
        let place = |i: usize| {
            let port = |k: usize| u32::try_from(2 * i + k).unwrap();
            Place {
                node: port(0),
                inside: [port(0), port(1)],
                network: [port(0), port(1)],
                host: None,
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
        assert!((secs(fabric.next_event()) - 10.0).abs() < 1e-9);
        assert_eq!(fabric.end_due(fabric.next_event()), [SlotId::new(0)]);
        assert!((secs(fabric.next_event()) - 15.0).abs() < 1e-9);
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
        assert!((secs(fabric.next_event()) - 1.0).abs() < 1e-9);
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
            let mut slow: Vec<(SlotId, Path, f64)> = Vec::new();
            let mut slow_now = 0.0;
            let mut next = 0;
            loop {
                let arrival = starts.get(next).map_or(SimTime::NEVER, |s| SimTime::ZERO + SimDuration::from_ms(1000 * s.0));
                let now = fabric.next_event().min(arrival);
                if now == SimTime::NEVER { break; }
                let rates = max_min(&topology.ports, &vec![f64::INFINITY; slow.len()], &slow.iter().map(|f| f.1).collect::<Vec<_>>());
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

    /// The slow twin of a network with early parts: all rates anew at every instant at which anything begins, ends or is told.
    struct Slow {
        topology: Topology,
        now: f64,
        /// Slot, path, bytes left, cap, whether whole.
        flows: Vec<(SlotId, Path, f64, f64, bool)>,
    }

    impl Slow {
        fn rates(&self) -> Vec<f64> {
            let of = |whole: bool, room: &[f64]| {
                let mine: Vec<_> = self.flows.iter().filter(|f| f.4 == whole).collect();
                let caps: Vec<f64> = mine.iter().map(|f| f.3).collect();
                let paths: Vec<Path> = mine.iter().map(|f| f.1).collect();
                max_min(room, &caps, &paths)
            };
            let whole = of(true, &self.topology.ports);
            let mut room = self.topology.ports.clone();
            let of_whole = self.flows.iter().filter(|f| f.4);
            for (flow, rate) in of_whole.zip(&whole) {
                for &port in flow.1.ports() {
                    room[port as usize] -= rate;
                }
            }
            let full = |(left, all): (f64, &f64)| if left < 1e-9 * all { 0.0 } else { left };
            let room: Vec<f64> = room
                .into_iter()
                .zip(&self.topology.ports)
                .map(full)
                .collect();
            let (mut whole, mut early) = (whole.into_iter(), of(false, &room).into_iter());
            let flows = self.flows.iter();
            flows
                .map(|f| if f.4 { whole.next() } else { early.next() }.unwrap())
                .collect()
        }

        /// Moves every byte up to `to`.
        fn go(&mut self, to: f64) {
            let rates = self.rates();
            for (flow, rate) in self.flows.iter_mut().zip(rates) {
                flow.2 -= rate * (to - self.now);
            }
            self.now = to;
            self.flows.retain(|f| f.4 || f.2 > 1e-9);
        }
    }

    proptest! {
        #[test]
        fn early_parts_get_what_whole_transfers_leave_as_in_the_twin(
            ports in proptest::collection::vec((1u32..9, 1u32..9), 2..4),
            starts in proptest::collection::vec((0u64..40, 0usize..4, 0usize..4, 1u64..60, 0u32..6, 1u64..30), 1..12),
        ) {
            let ports: Vec<(f64, f64)> = ports.iter().map(|&(a, b)| (f64::from(a), f64::from(b))).collect();
            let topology = apart(&ports);
            let n = ports.len();
            // Start, ends, bytes, cap of an early part (0: a whole transfer), and for how long it is early.
            let mut starts: Vec<_> = starts.iter().map(|&(at, from, to, bytes, cap, span)| (at, from % n, (from + 1 + to % (n - 1)) % n, bytes, cap, span)).collect();
            starts.sort_unstable();
            let at = |s: u64| SimTime::ZERO + SimDuration::from_ms(1000 * s);
            let mut changes: Vec<(u64, usize, bool)> = Vec::new();
            for (i, s) in starts.iter().enumerate() {
                changes.push((s.0, i, true));
                if s.4 > 0 { changes.push((s.0 + s.5, i, false)); }
            }
            changes.sort_unstable();
            let mut fabric = Fabric::new(topology.clone());
            let mut slow = Slow { topology: topology.clone(), now: 0.0, flows: Vec::new() };
            let mut next = 0;
            loop {
                let change = changes.get(next).map_or(SimTime::NEVER, |c| at(c.0));
                let now = fabric.next_event().min(change);
                if now == SimTime::NEVER { break; }
                slow.go(secs(now));
                for slot in fabric.end_due(now) {
                    let at = slow.flows.iter().position(|f| f.0 == slot && f.4).unwrap();
                    let left = slow.flows.remove(at).2;
                    prop_assert!(left.abs() < 1e-6, "{left} bytes left at {now:?}");
                }
                prop_assert!(slow.flows.iter().all(|f| f.2 > -1e-6));
                if now != change { continue; }
                let (_, i, begins) = changes[next];
                next += 1;
                let (_, from, to, bytes, cap, _) = starts[i];
                let (slot, from, to) = (SlotId::new(i), InstanceId::new(from), InstanceId::new(to));
                let path = topology.path(from, to);
                if begins && cap > 0 {
                    // A cap of 5 is none.
                    let cap = if cap < 5 { f64::from(cap) } else { f64::INFINITY };
                    fabric.feed(now, Feed { slot, from, to, at: now, bytes, cap });
                    slow.flows.push((slot, path, bytes as f64, cap, false));
                } else if begins {
                    fabric.start(now, slot, from, to, bytes);
                    slow.flows.push((slot, path, bytes as f64, f64::INFINITY, true));
                } else {
                    let unsent = fabric.withdraw(now, slot) as f64;
                    let at = slow.flows.iter().position(|f| f.0 == slot && !f.4);
                    let left = at.map_or(0.0, |at| slow.flows.remove(at).2);
                    prop_assert!(left - 1e-6 <= unsent && unsent <= left + 1.0 + 1e-6, "{unsent} {left}");
                }
            }
            prop_assert!(slow.flows.is_empty() && next == changes.len());
        }
    }

    #[test]
    fn an_early_part_waits_while_a_whole_transfer_fills_its_port() {
        let mut fabric = Fabric::new(apart(&[(10.0, 10.0), (10.0, 10.0), (10.0, 10.0)]));
        let [a, b, c] = [0, 1, 2].map(InstanceId::new);
        let feed = |from, bytes, cap| Feed {
            slot: SlotId::new(0),
            from,
            to: c,
            at: SimTime::ZERO,
            bytes,
            cap,
        };
        fabric.feed(SimTime::ZERO, feed(a, 100, f64::INFINITY));
        fabric.start(SimTime::ZERO, SlotId::new(1), b, c, 50);
        // The whole one has all ten per second for five seconds.
        assert!((secs(fabric.next_event()) - 5.0).abs() < 1e-9);
        let now = fabric.next_event();
        assert_eq!(fabric.end_due(now), [SlotId::new(1)]);
        let later = now + SimDuration::from_ms(3000);
        assert_eq!(fabric.withdraw(later, SlotId::new(0)), 70);
        assert_eq!(fabric.next_event(), SimTime::NEVER);
        // Computed at two bytes per second, it is sent at two bytes per second.
        fabric.feed(later, feed(a, 100, 2.0));
        fabric.lift(later + SimDuration::from_ms(10_000), SlotId::new(0), 5.0);
        let end = later + SimDuration::from_ms(20_000);
        assert_eq!(fabric.withdraw(end, SlotId::new(0)), 30);
    }
}
