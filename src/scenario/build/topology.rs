//! Where instances are: nodes filled in order of instances.

use crate::net::{Place, Topology};

/// The equal instances of a pool, as a network sees them.
pub(super) struct Placed {
    pub(super) instances: u32,
    /// GPUs of an instance.
    pub(super) gpus: u32,
    /// Rate of an instance towards other nodes in bytes per second.
    pub(super) network: f64,
    /// Rate of an instance towards its own node.
    pub(super) inside: f64,
}

/// Puts the instances of `pools` on nodes of `per_node` GPUs, each on the first node with room after the one before; `None`: each on a
/// node of its own, as is an instance larger than a node. `shared`: the rate of all network cards of a node together.
pub(super) fn topology(pools: &[Placed], per_node: Option<u32>, shared: Option<f64>) -> Topology {
    let (mut ports, mut places) = (Vec::new(), Vec::new());
    let mut pair = |rate: f64| {
        let first = u32::try_from(ports.len()).expect("a few ports per instance");
        ports.extend([rate, rate]);
        [first, first + 1]
    };
    let (mut node, mut free, mut cards) = (0, 0, [0, 1]);
    for pool in pools {
        for _ in 0..pool.instances {
            if pool.gpus > free {
                node += 1;
                free = per_node.unwrap_or(pool.gpus).max(pool.gpus);
                if let Some(rate) = shared {
                    let nodes = pool.gpus.div_ceil(per_node.unwrap_or(pool.gpus).max(1));
                    cards = pair(rate * f64::from(nodes.max(1)));
                }
            }
            free -= pool.gpus;
            if per_node.is_none_or(|gpus| pool.gpus > gpus) {
                free = 0;
            }
            places.push(Place {
                node,
                inside: pair(pool.inside),
                network: if shared.is_some() {
                    cards
                } else {
                    pair(pool.network)
                },
            });
        }
    }
    Topology {
        ports,
        most_per_transfer: f64::INFINITY,
        places,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(instances: u32, gpus: u32) -> Placed {
        Placed {
            instances,
            gpus,
            network: 1.0,
            inside: 9.0,
        }
    }

    fn nodes(pools: &[Placed], per_node: Option<u32>) -> Vec<u32> {
        let made = topology(pools, per_node, None);
        made.places.iter().map(|place| place.node).collect()
    }

    #[test]
    fn nodes_are_filled_in_order() {
        assert_eq!(nodes(&[pool(3, 2), pool(2, 4)], Some(8)), [1, 1, 1, 2, 2]);
        assert_eq!(nodes(&[pool(2, 1), pool(1, 1)], None), [1, 2, 3]);
        // An instance larger than a node shares its nodes with nobody.
        assert_eq!(nodes(&[pool(1, 16), pool(1, 1)], Some(8)), [1, 2]);
    }

    #[test]
    fn instances_of_a_node_share_its_cards() {
        let made = topology(&[pool(2, 4), pool(1, 4)], Some(8), Some(50.0));
        let [a, b, c] = [0, 1, 2].map(|i| made.places[i].network);
        assert!(a == b && b != c);
        assert!((made.ports[a[0] as usize] - 50.0).abs() < 1e-12);
    }
}
