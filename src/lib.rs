//! pdsim simulates LLM serving clusters with prefill/decode disaggregation.

pub mod cluster;
pub mod ids;
pub mod latency;
pub mod metrics;
pub mod policy;
pub mod report;
pub mod rng;
pub mod sim;
pub mod units;
pub mod workload;
