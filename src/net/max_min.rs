//! Max-min fair rates.

/// A port by its number.
pub type Port = u32;

/// The max-min fair rates of flows that each pass two ports: every flow has a port that is full and on which no other flow is
/// faster (Bertsekas and Gallager, *Data Networks*, section 6.5.2).
///
/// No flow is faster than `cap`; it may be infinite. Progressive filling: the rates of all flows rise together until a port is full, its flows keep that rate, and so on. Full ports
/// of a round are dealt with together and counted, not subtracted flow by flow, so that the order of flows does not matter to the
/// last bit. A flow through two ports of unlimited capacity has the rate `cap`.
#[must_use]
pub fn max_min(capacity: &[f64], cap: f64, paths: &[[Port; 2]]) -> Vec<f64> {
    let mut users = vec![0_u32; capacity.len()];
    let mut used: Vec<usize> = paths.iter().flatten().map(|&port| port as usize).collect();
    used.iter().for_each(|&port| users[port] += 1);
    used.sort_unstable();
    used.dedup();
    let mut room = capacity.to_vec();
    let mut rates = vec![cap; paths.len()];
    let mut rising: Vec<usize> = (0..paths.len()).collect();
    while !rising.is_empty() {
        let share = |port: usize| room[port] / f64::from(users[port]);
        let level = used
            .iter()
            .filter(|&&port| users[port] > 0)
            .map(|&port| share(port))
            .fold(f64::INFINITY, f64::min);
        if level >= cap {
            // All that still rise reach the cap before another port is full.
            break;
        }
        let full = |port: Port| share(port as usize) <= level;
        let (stopped, on): (Vec<usize>, Vec<usize>) = rising
            .iter()
            .partition(|&&flow| paths[flow].iter().any(|&port| full(port)));
        let mut leaving = vec![
            0_u32;
            if stopped.is_empty() {
                0
            } else {
                capacity.len()
            }
        ];
        for &flow in &stopped {
            rates[flow] = level;
            paths[flow]
                .iter()
                .for_each(|&port| leaving[port as usize] += 1);
        }
        for &port in &used {
            users[port] -= leaving[port];
            room[port] = (room[port] - level * f64::from(leaving[port])).max(0.0);
        }
        rising = on;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_assert, proptest};

    fn network() -> impl Strategy<Value = (Vec<f64>, Vec<[Port; 2]>)> {
        let ports = proptest::collection::vec((1u32..20).prop_map(f64::from), 2..8);
        ports.prop_flat_map(|ports| {
            let n = u32::try_from(ports.len()).unwrap();
            let half = n / 2;
            let paths =
                proptest::collection::vec((0..half, half..n).prop_map(|(a, b)| [a, b]), 1..12);
            (proptest::strategy::Just(ports), paths)
        })
    }

    /// The slow twin: rates rise in small steps until a port of theirs is full.
    fn slow(capacity: &[f64], paths: &[[Port; 2]], step: f64) -> Vec<f64> {
        let mut rates = vec![0.0; paths.len()];
        let mut rising = vec![true; paths.len()];
        while rising.iter().any(|&r| r) {
            for flow in 0..paths.len() {
                if rising[flow] {
                    rates[flow] += step;
                }
            }
            for (port, &capacity) in capacity.iter().enumerate() {
                let through = |flow: &usize| paths[*flow].iter().any(|&p| p as usize == port);
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
        fn every_flow_has_a_full_port_on_which_none_is_faster((capacity, paths) in network()) {
            let rates = max_min(&capacity, f64::INFINITY, &paths);
            let load = |port: Port| -> f64 {
                paths.iter().zip(&rates).filter(|(path, _)| path.contains(&port)).map(|(_, rate)| rate).sum()
            };
            for (path, &rate) in paths.iter().zip(&rates) {
                prop_assert!(path.iter().all(|&port| load(port) <= capacity[port as usize] + 1e-9));
                let held = |port: Port| {
                    let others = paths.iter().zip(&rates).filter(|(path, _)| path.contains(&port));
                    let fastest = others.map(|(_, &rate)| rate).fold(0.0, f64::max);
                    load(port) >= capacity[port as usize] - 1e-9 && fastest <= rate + 1e-9
                };
                prop_assert!(path.iter().any(|&port| held(port)), "{rates:?}");
            }
        }

        #[test]
        fn rising_in_small_steps_gives_the_same((capacity, paths) in network()) {
            let step = 2e-3;
            // Each round of the slow twin overshoots by a step per flow at most, and there are as many rounds as ports.
            let error = step * paths.len() as f64 * capacity.len() as f64;
            for (fast, slow) in max_min(&capacity, f64::INFINITY, &paths).iter().zip(slow(&capacity, &paths, step)) {
                prop_assert!((fast - slow).abs() <= error, "{fast} {slow}");
            }
        }

        #[test]
        fn the_order_of_flows_changes_no_bit((capacity, paths) in network()) {
            let rates = max_min(&capacity, f64::INFINITY, &paths);
            let turned: Vec<[Port; 2]> = paths.iter().rev().copied().collect();
            let back: Vec<f64> = max_min(&capacity, f64::INFINITY, &turned).into_iter().rev().collect();
            prop_assert!(rates.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }

    #[test]
    fn a_cap_holds_where_ports_do_not() {
        let capacity = [f64::INFINITY, f64::INFINITY, 6.0];
        let paths = [[0, 1], [0, 2], [0, 2]];
        let rates = |cap| max_min(&capacity, cap, &paths);
        assert_eq!(rates(f64::INFINITY), [f64::INFINITY, 3.0, 3.0]);
        assert_eq!(rates(5.0), [5.0, 3.0, 3.0]);
        assert_eq!(rates(2.0), [2.0; 3]);
    }
}
