//! pdsim simulates LLM serving clusters with prefill/decode disaggregation.

pub mod calibrate;
pub mod cli;
pub mod cluster;
pub mod hardware;
pub mod ids;
pub mod kv;
pub mod latency;
pub mod metrics;
pub mod model;
mod names;
pub mod net;
pub mod policy;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod sim;
pub mod sweep;
pub mod tournament;
pub mod units;
pub mod workload;

/// Compiles and runs the examples of the README.
#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
