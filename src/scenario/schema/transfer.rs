//! The `transfer:` section: how KV caches travel.

use serde::Deserialize;

use super::value::{Bandwidth, HostRate, Span, WordOr};

/// The hand-off of a disaggregated system.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The link KV caches travel over.
    pub link: Link,
    /// What travels while the prompt is being computed.
    pub overlap: Option<Overlap>,
    /// Time to post one descriptor.
    pub descriptor_time: Option<Span>,
    /// Who posts transfers.
    pub mode: Option<TransferMode>,
    /// The way through host memory, if they take it.
    pub staging: Option<WordOr<Staging>>,
    /// Whether transfers slow each other down.
    pub contention: Option<Contention>,
    /// Most transfers that an instance which posts them has in flight.
    pub in_flight: Option<u32>,
    /// Most that one transfer gets of a shared network.
    pub most_per_transfer: Option<Bandwidth>,
    /// What a node is.
    pub node: Option<Node>,
}

/// What of a KV cache travels while its prompt is still being computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Nothing.
    None,
    /// The chunks before the last.
    Chunk,
    /// Layer after layer.
    Layerwise,
}

/// Who posts transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferMode {
    /// The prefill instance.
    Push,
    /// The decode instance.
    Pull,
}

/// Copies to and from host memory on either side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Staging {
    /// Rate of an instance's copies, each way.
    pub bandwidth: Option<HostRate>,
    /// How copies and transfer follow each other.
    pub copy: Option<Copying>,
}

/// How copies to and from host memory and the transfer between them follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copying {
    /// Piece by piece, all at the same time.
    Pipelined,
    /// One after the other.
    Whole,
}

/// Whether transfers slow each other down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    /// No: each prefill instance has a link of its own, and receivers take all that comes.
    None,
    /// Yes: max-min fair shares at both ends.
    Fair,
}

/// What a node is, for transfers that share the network.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// GPUs of a node.
    pub gpus: u32,
    /// Rate of all its network cards together; without it each GPU has a card of its own.
    pub bandwidth: Option<Bandwidth>,
    /// The link between GPUs of a node.
    pub inside: Option<String>,
}

/// A link by name (`nvlink`, `pcie`, `rdma`, `none`) or by its figures.
pub type Link = WordOr<LinkSpeed>;

/// What a link carries.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpeed {
    /// Bytes or bits per second of one prefill instance.
    pub bandwidth: Bandwidth,
    /// Fixed time per transfer.
    pub latency: Option<Span>,
}
