//! Workloads: recorded traces and generated arrivals.
//!
//! Whatever the source, the simulation sees an iterator of [`RequestSpec`] in order of arrival and pulls it one
//! request ahead, so a generated workload of any length needs no memory.

pub mod arrivals;
pub mod closed_loop;
mod draw;
mod error;
pub mod fit;
mod generate;
pub mod lengths;
mod prefixes;
mod request;
pub mod stats;
pub mod trace;

pub use arrivals::ArrivalProcess;
pub use error::WorkloadError;
pub use generate::{Generated, Workload};
pub use lengths::LengthModel;
pub(crate) use prefixes::PrefixBuilder;
pub use prefixes::Prefixes;
pub use request::RequestSpec;
pub use trace::{Format, ReadOptions, ReadReport, Trace, TraceError, read_trace};
