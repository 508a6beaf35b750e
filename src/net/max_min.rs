//! Max-min fair rates.

/// A port by its number.
pub type Port = u32;

/// The ports a transfer passes, at most four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    ports: [Port; 4],
    len: u8,
}

impl Path {
    /// A way through `ports`.
    ///
    /// # Panics
    /// When there are more than four.
    #[must_use]
    pub fn through(ports: &[Port]) -> Self {
        let mut path = Self::default();
        path.ports[..ports.len()].copy_from_slice(ports);
        path.len = u8::try_from(ports.len()).expect("at most four");
        path
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &[Port] {
        &self.ports[..usize::from(self.len)]
    }
}

/// The max-min fair rates of flows: every flow has its own cap as rate, or passes a port that is full and on which no other flow is
/// faster (Bertsekas and Gallager, *Data Networks*, section 6.5.2).
///
/// `caps` are the flows' own; they may be infinite. Progressive filling: the rates of all flows rise together until a port is full
/// or a cap is reached, the flows concerned keep that rate, and so on. What stops in a round is dealt with together and
/// counted, not subtracted flow by flow, so that the order of flows does not matter to the last bit.
#[must_use]
pub fn max_min(capacity: &[f64], caps: &[f64], paths: &[Path]) -> Vec<f64> {
    let mut users = vec![0_u32; capacity.len()];
    let ports = paths.iter().flat_map(Path::ports);
    let mut used: Vec<usize> = ports.map(|&port| port as usize).collect();
    used.iter().for_each(|&port| users[port] += 1);
    used.sort_unstable();
    used.dedup();
    let mut room = capacity.to_vec();
    let mut rates = caps.to_vec();
    let mut leaving = vec![0_u32; capacity.len()];
    let mut rising: Vec<usize> = (0..paths.len()).collect();
    while !rising.is_empty() {
        let share = |port: usize| room[port] / f64::from(users[port]);
        let busy = used.iter().filter(|&&port| users[port] > 0);
        let level = busy
            .map(|&port| share(port))
            .chain(rising.iter().map(|&flow| caps[flow]))
            .fold(f64::INFINITY, f64::min);
        let full = |port: Port| share(port as usize) <= level;
        let (stopped, on): (Vec<usize>, Vec<usize>) = rising.iter().partition(|&&flow| {
            caps[flow] <= level || paths[flow].ports().iter().any(|&p| full(p))
        });
        for &flow in &stopped {
            rates[flow] = level;
            let ports = paths[flow].ports();
            ports.iter().for_each(|&port| leaving[port as usize] += 1);
        }
        for &port in &used {
            users[port] -= leaving[port];
            room[port] = (room[port] - level * f64::from(leaving[port])).max(0.0);
            leaving[port] = 0;
        }
        rising = on;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_assert, proptest};

    /// Ports, and flows by their caps and paths; half of the caps bind nothing.
    fn network() -> impl Strategy<Value = (Vec<f64>, Vec<f64>, Vec<Path>)> {
        let ports = proptest::collection::vec((1u32..20).prop_map(f64::from), 2..8);
        ports.prop_flat_map(|ports| {
            let n = u32::try_from(ports.len()).unwrap();
            let half = n / 2;
            let path = (0..half, half..n).prop_map(|(a, b)| Path::through(&[a, b]));
            let cap = (1u32..20).prop_map(|c| if c < 10 { f64::from(c) } else { f64::INFINITY });
            let flows = proptest::collection::vec((cap, path), 1..12);
            (proptest::strategy::Just(ports), flows).prop_map(|(ports, flows)| {
                let (caps, paths) = flows.into_iter().unzip();
                (ports, caps, paths)
            })
        })
    }

    /// The slow twin: rates rise in small steps until a port of theirs is full.
    fn slow(capacity: &[f64], caps: &[f64], paths: &[Path], step: f64) -> Vec<f64> {
        let mut rates = vec![0.0; paths.len()];
        let mut rising = vec![true; paths.len()];
        while rising.iter().any(|&r| r) {
            for flow in 0..paths.len() {
                if rising[flow] {
                    rates[flow] += step;
                    rising[flow] = rates[flow] < caps[flow];
                }
            }
            for (port, &capacity) in capacity.iter().enumerate() {
                let through =
                    |flow: &usize| paths[*flow].ports().iter().any(|&p| p as usize == port);
                let users: Vec<usize> = (0..paths.len()).filter(through).collect();
                let load: f64 = users.iter().map(|&flow| rates[flow]).sum();
                if load >= capacity {
                    users.iter().for_each(|&flow| rising[flow] = false);
                }
            }
        }
        rates
    }

    proptest! {
        #[test]
        fn every_flow_has_its_cap_or_a_full_port_on_which_none_is_faster((capacity, caps, paths) in network()) {
            let rates = max_min(&capacity, &caps, &paths);
            let load = |port: Port| -> f64 {
                paths.iter().zip(&rates).filter(|(path, _)| path.ports().contains(&port)).map(|(_, rate)| rate).sum()
            };
            for ((path, &rate), &cap) in paths.iter().zip(&rates).zip(&caps) {
                prop_assert!(rate <= cap);
                prop_assert!(path.ports().iter().all(|&port| load(port) <= capacity[port as usize] + 1e-9));
                let held = |port: Port| {
                    let others = paths.iter().zip(&rates).filter(|(path, _)| path.ports().contains(&port));
                    let fastest = others.map(|(_, &rate)| rate).fold(0.0, f64::max);
                    load(port) >= capacity[port as usize] - 1e-9 && fastest <= rate + 1e-9
                };
                prop_assert!(rate >= cap || path.ports().iter().any(|&port| held(port)), "{rates:?}");
            }
        }

        #[test]
        fn rising_in_small_steps_gives_the_same((capacity, caps, paths) in network()) {
            let step = 2e-3;
            // Each round of the slow twin overshoots by a step per flow at most, and there are as many rounds as ports and caps.
            let error = step * paths.len() as f64 * (capacity.len() + caps.len()) as f64;
            for (fast, slow) in max_min(&capacity, &caps, &paths).iter().zip(slow(&capacity, &caps, &paths, step)) {
                prop_assert!((fast - slow).abs() <= error, "{fast} {slow}");
            }
        }

        #[test]
        fn the_order_of_flows_changes_no_bit((capacity, caps, paths) in network()) {
            let rates = max_min(&capacity, &caps, &paths);
            let turned: Vec<Path> = paths.iter().rev().copied().collect();
            let caps: Vec<f64> = caps.iter().rev().copied().collect();
            let back: Vec<f64> = max_min(&capacity, &caps, &turned).into_iter().rev().collect();
            prop_assert!(rates.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    #[test]
    fn a_cap_holds_where_ports_do_not() {
        let capacity = [f64::INFINITY, f64::INFINITY, 6.0];
        let paths = [[0, 1], [0, 2], [0, 2]].map(|ports| Path::through(&ports));
        let rates = |cap| max_min(&capacity, &[cap; 3], &paths);
        assert_eq!(rates(f64::INFINITY), [f64::INFINITY, 3.0, 3.0]);
        assert_eq!(rates(5.0), [5.0, 3.0, 3.0]);
        assert_eq!(rates(2.0), [2.0; 3]);
    }
}
