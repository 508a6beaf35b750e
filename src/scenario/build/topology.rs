//! Where instances are: nodes filled in order of instances.

use crate::net::{Place, Topology};

/// The equal instances of a pool, as a network sees them.
pub(super) struct Placed<'s> {
    /// The group of nodes it stands on.
    pub(super) group: Option<&'s str>,
    pub(super) instances: u32,
    /// GPUs of an instance.
    pub(super) gpus: u32,
    /// Rate of an instance towards other nodes in bytes per second.
    pub(super) network: f64,
    /// Rate of an instance towards its own node.
    pub(super) inside: f64,
    /// Rate of its copies to and from host memory, if every transfer takes that way.
    pub(super) host: Option<f64>,
}

/// The node that is being filled in a group of nodes.
struct Filling<'s> {
    group: Option<&'s str>,
    node: u32,
    free: u32,
    cards: [u32; 2],
}

/// Puts the instances of `pools` on nodes of `per_node` GPUs, each on the first node with room after the one before; `None`: each on a
/// node of its own, as is an instance larger than a node. Groups have nodes of their own. `shared`: the rate of all network cards of a node together.
pub(super) fn topology(
    pools: &[Placed<'_>],
    per_node: Option<u32>,
    shared: Option<f64>,
) -> Topology {
    let (mut ports, mut places) = (Vec::new(), Vec::new());
    let mut pair = |rate: f64| {
        let first = u32::try_from(ports.len()).expect("a few ports per instance");
        ports.extend([rate, rate]);
        [first, first + 1]
    };
    let mut nodes = 0;
    let mut groups: Vec<Filling<'_>> = Vec::new();
    for pool in pools {
        let at = groups.iter().position(|known| known.group == pool.group);
        let at = at.unwrap_or_else(|| {
            groups.push(Filling {
                group: pool.group,
                node: 0,
                free: 0,
                cards: [0, 1],
            });
            groups.len() - 1
        });
        let filling = &mut groups[at];
        for _ in 0..pool.instances {
            if pool.gpus > filling.free {
                nodes += 1;
                filling.node = nodes;
                filling.free = per_node.unwrap_or(pool.gpus).max(pool.gpus);
                if let Some(rate) = shared {
                    let nodes = pool.gpus.div_ceil(per_node.unwrap_or(pool.gpus).max(1));
                    filling.cards = pair(rate * f64::from(nodes.max(1)));
                }
            }
            filling.free -= pool.gpus;
            if per_node.is_none_or(|gpus| pool.gpus > gpus) {
                filling.free = 0;
            }
            places.push(Place {
                node: filling.node,
                inside: pair(pool.inside),
                network: if shared.is_some() {
                    filling.cards
                } else {
                    pair(pool.network)
                },
                host: pool.host.map(&mut pair),
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

    fn pool(instances: u32, gpus: u32) -> Placed<'static> {
        Placed {
            group: None,
            instances,
            gpus,
            network: 1.0,
            inside: 9.0,
            host: None,
        }
    }

    fn nodes(pools: &[Placed<'_>], per_node: Option<u32>) -> Vec<u32> {
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

    #[test]
    fn groups_have_nodes_of_their_own() {
        let of = |group| Placed {
            group: Some(group),
            ..pool(1, 2)
        };
        assert_eq!(nodes(&[of("a"), of("b"), of("a")], Some(8)), [1, 2, 1]);
    }
}
