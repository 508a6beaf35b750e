//! Workloads: recorded traces and generated arrivals.
//!
//! Whatever the source, the simulation sees an iterator of [`RequestSpec`] in order of arrival and pulls it one
//! request ahead, so a generated workload of any length needs no memory.

mod request;

pub use request::RequestSpec;
