//! Links: how long a KV transfer takes and in which order transfers go.

mod link;

pub use link::Link;
