//! Links and networks: how long a KV transfer takes, in which order transfers go and how they share.

mod early;
mod fabric;
mod flow;
mod link;
mod max_min;

pub use fabric::{Fabric, Feed, Place, Topology};
pub use link::{Link, Shipment};
pub use max_min::{Path, Port, max_min};
