//! Workloads: recorded traces and generated arrivals.
//!
//! Whatever they come from, the simulation takes [`RequestSpec`]s from a [`Source`] in order of arrival, one request
//! ahead, so a generated workload of any length needs no memory. A source is an iterator, or a closed loop around one
//! that is also told when requests end.

pub mod arrivals;
pub mod closed_loop;
mod draw;
mod error;
pub mod fit;
mod generate;
pub mod lengths;
mod prefixes;
mod request;
mod source;
pub mod stats;
pub mod trace;

pub use arrivals::ArrivalProcess;
pub use error::WorkloadError;
pub use generate::{Generated, Workload};
pub use lengths::LengthModel;
pub(crate) use prefixes::PrefixBuilder;
pub use prefixes::Prefixes;
pub use request::RequestSpec;
pub use source::{Client, Sent, Source};
pub use trace::{Format, ReadOptions, ReadReport, Trace, TraceError, read_trace};
