//! The network that transfers share.

use crate::cluster::Sharing;
use crate::hardware::{Link, LinkKind};
use crate::net::Topology;
use crate::scenario::defaults;
use crate::scenario::schema::{Contention, Node, Pool, System, Transfer, WordOr};

use super::Builder;
use super::pool::gpus;
use super::staging::Staged;
use super::topology::{Placed, topology};
use super::transfer::{Rates, gpu};

impl Builder<'_> {
    /// The network that transfers share; `Some(None)` for none.
    pub(super) fn sharing(
        &mut self,
        key: &str,
        transfer: &Transfer,
        system: &System,
        rates: Option<&Rates>,
        staged: Option<&Staged>,
    ) -> Option<Option<Sharing>> {
        if transfer.contention != Some(Contention::Fair) {
            self.check_unshared(key, transfer);
            return Some(None);
        }
        let ranks = defaults::posting_ranks(transfer, system);
        let in_flight = transfer.in_flight.unwrap_or(ranks);
        self.require(in_flight > 0, &format!("{key}.in_flight"), || {
            "is 0, so that nothing would ever travel; expected a whole number of at least 1"
                .to_owned()
        });
        let (prefill, decode) = (system.prefill.as_ref()?, system.decode.as_ref()?);
        let (rates, host) = (rates?, staged?.ports());
        let mut placed = |pool, network, host| -> Option<Placed<'_>> {
            let pool: &Pool = pool;
            Some(Placed {
                group: pool.group.as_deref(),
                host,
                instances: pool.instances,
                gpus: gpus(pool),
                network,
                inside: self.inside(key, transfer, pool)?,
            })
        };
        let pools = [
            placed(prefill, rates.out, host.map(|rates| rates.0))?,
            placed(decode, rates.into, host.map(|rates| rates.1))?,
        ];
        let node = transfer.node.as_ref();
        self.check_node(key, node);
        self.check_inside(key, node, prefill, decode);
        let per_node = node.map_or(1, |node| node.gpus.max(1));
        let shared = node.and_then(|node| node.bandwidth).map(|rate| rate.0);
        let most = transfer.most_per_transfer.map_or(
            if ranks > 1 {
                rates.alone
            } else {
                f64::INFINITY
            },
            |rate| rate.0,
        );
        self.require(most > 0.0, &format!("{key}.most_per_transfer"), || {
            "is zero, so that nothing would ever arrive; write a bandwidth such as `100 Gbps`"
                .to_owned()
        });
        let topology = topology(&pools, node.map(|_| per_node), shared);
        if let Some(node) = node {
            self.check_reach(key, transfer, node, &topology, [prefill, decode]);
        }
        Some(Some(Sharing {
            topology: Topology {
                most_per_transfer: most,
                ..topology
            },
            in_flight,
        }))
    }

    /// Refuses what is of use only where transfers share a network.
    fn check_unshared(&mut self, key: &str, transfer: &Transfer) {
        for (name, there) in [
            ("in_flight", transfer.in_flight.is_some()),
            ("most_per_transfer", transfer.most_per_transfer.is_some()),
            ("node", transfer.node.is_some()),
        ] {
            self.require_use(!there, key, &format!("{key}.{name}"), || {
                "is for `contention: fair` only; write that, too, or remove it".to_owned()
            });
        }
    }

    /// Refuses links that do not leave a node where transfers do.
    fn check_reach(
        &mut self,
        key: &str,
        transfer: &Transfer,
        node: &Node,
        topology: &Topology,
        [prefill, decode]: [&Pool; 2],
    ) {
        let word = match &transfer.link {
            WordOr::Word(word) if word == "nvlink" || word == "pcie" => word,
            WordOr::Word(_) | WordOr::Map(_) => return,
        };
        let mut nodes: Vec<u32> = topology.places.iter().map(|place| place.node).collect();
        nodes.dedup();
        let (apart, instead) = if prefill.group == decode.group {
            (
                format!("{} nodes of {} GPUs", nodes.len(), node.gpus),
                format!(
                    ", and `node: {{gpus: {}, inside: {word}}}` for those that share one",
                    node.gpus
                ),
            )
        } else {
            let name = |pool: &Pool| pool.group.clone().unwrap_or_else(|| "none".to_owned());
            let (from, to) = (name(prefill), name(decode));
            (
                format!("different groups of nodes ({from} and {to})"),
                String::new(),
            )
        };
        self.require(nodes.len() < 2, &format!("{key}.link"), || {
            format!(
                "is `{word}`, which does not leave a node, but prefill and decode are on {apart}, with no link between them; write `rdma`, \
                 `ethernet` or a bandwidth{instead}"
            )
        });
    }

    fn check_inside(&mut self, key: &str, node: Option<&Node>, prefill: &Pool, decode: &Pool) {
        let inside = node.is_some_and(|node| node.inside.is_some());
        let apart = prefill.group != decode.group;
        self.require(!(inside && apart), &format!("{key}.node.inside"), || {
            "is of no effect: prefill and decode are on different groups of nodes, so that nothing travels inside a node; remove it, or put \
             both on one `group`"
                .to_owned()
        });
    }

    fn check_node(&mut self, key: &str, node: Option<&Node>) {
        if let Some(node) = node {
            self.require(node.gpus > 0, &format!("{key}.node.gpus"), || {
                "is 0, expected the GPUs of a node, such as 8".to_owned()
            });
            let some = node.bandwidth.is_none_or(|bandwidth| bandwidth.0 > 0.0);
            self.require(some, &format!("{key}.node.bandwidth"), || {
                "is zero; write what all network cards of a node carry, such as `400 Gbps`"
                    .to_owned()
            });
        }
    }

    /// The rate of an instance towards others on its node.
    fn inside(&mut self, key: &str, transfer: &Transfer, pool: &Pool) -> Option<f64> {
        let Some(node) = &transfer.node else {
            return Some(f64::INFINITY);
        };
        let key = format!("{key}.node.inside");
        let gpu = gpu(pool)?;
        let rate = match node.inside.as_deref() {
            None => gpu.intra_node_bandwidth(),
            Some(word) => {
                LinkKind::from_name(word)
                    .and_then(|kind| Link::between(kind, &gpu, &gpu, None))
                    .map_err(|error| self.wrong(&key, error.to_string()))
                    .ok()?
                    .bytes_per_sec
            }
        };
        Some(rate * f64::from(gpus(pool)))
    }

    /// Refuses groups of nodes where nothing asks which node a pool is on.
    pub(super) fn groups(&mut self, path: &str, system: &System, transfer: Option<&Transfer>) {
        for (key, pool) in defaults::pools(system) {
            let Some(group) = &pool.group else { continue };
            let key = format!("{path}.{key}.group");
            self.require(!group.trim().is_empty(), &key, || {
                "is empty, expected the name of a group of nodes, such as `a`".to_owned()
            });
            let Some(transfer) = transfer else {
                self.wrong(&key, "is for disaggregated systems only; remove it");
                continue;
            };
            let asked = transfer.contention == Some(Contention::Fair) && transfer.node.is_some();
            self.require(asked, &key, || {
                "says on which nodes a pool is, which only `transfer: {contention: fair, node: {gpus: 8}}` asks; write that, too, or \
                 remove it"
                    .to_owned()
            });
        }
    }
}
