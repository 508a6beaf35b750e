//! What a run was like: an observer that turns the facts of a simulation into figures.
//!
//! [`Collector`] watches one run of one system. It keeps counters, an exact log-linear histogram of the gaps between
//! tokens, a time series at an interval that adapts itself, and (unless told otherwise) one record per request.
//! [`Collector::into_metrics`] closes the books: [`RunMetrics`] holds every figure the reports print.
//!
//! Symbols: arrival `a`, token times `t_1 … t_n`. TTFT = `t_1 − a`; TPOT = `(t_n − t_1)/(n − 1)`, none for `n = 1`;
//! ITL = `{t_k − t_(k−1)}`; E2E = `t_n − a`. Attainment = requests done within every limit / requests *arrived* in the
//! measured window. Not modelled here: anything that would feed back into the simulation.

mod client;
mod close;
mod collector;
mod config;
mod cost;
mod grounds;
mod histogram;
mod kv_peak;
mod links;
mod overlap;
mod percentile;
mod records;
mod replicate;
mod result;
mod series;
mod sojourn;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verdict;
mod warning;

pub use collector::{Collector, meets};
pub use config::{Config, Slo, Warmup};
pub use cost::Cost;
pub use histogram::Histogram;
pub use links::{LinkKind, LinkMetrics};
pub use percentile::{quantile, quantile_by};
pub use records::Records;
pub use replicate::Estimate;
pub use result::{
    Attainment, Bottleneck, Counts, Distribution, LittlesLaw, PoolMetrics, PrefixHits, RunMetrics,
    StageMeans, State, Throughput, TransferMetrics, Verdict,
};
pub use series::{Point, Series};
pub use warning::{TooLarge, Warning};
