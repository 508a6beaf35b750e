//! Links and networks: how long a KV transfer takes, in which order transfers go and how they share.

mod fabric;
mod link;
mod max_min;

pub use fabric::{Fabric, Place, Topology};
pub use link::{Link, Shipment};
pub use max_min::{Port, max_min};
