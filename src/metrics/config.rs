//! What to measure.

use crate::units::SimDuration;
use crate::workload::Client;

/// The latency promise: a request is good when it is done and within every limit given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slo {
    /// Most time to the first token.
    pub ttft: Option<SimDuration>,
    /// Most time per output token after the first; a one-token output has none and meets it.
    pub tpot: Option<SimDuration>,
    /// Most time to the last token.
    pub e2e: Option<SimDuration>,
    /// Share of arrived requests promised to be good, in 0..=1.
    pub attainment: f64,
}

/// The first part of a run, simulated but left out of every figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Warmup {
    /// Measure from the first request on.
    #[default]
    None,
    /// Leave out the first `n` requests; the window starts at the arrival of the next one.
    Requests(u64),
    /// Leave out requests that arrive before this much time has passed; the window starts then.
    Time(SimDuration),
}

/// What a [`Collector`](super::Collector) measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The promise; without one there is no attainment.
    pub slo: Option<Slo>,
    /// What to leave out at the start.
    pub warmup: Warmup,
    /// Keep a record per request (112 bytes each): exact percentiles and `requests.csv`. Without, percentiles of
    /// TTFT, TPOT and E2E come from histograms (relative error at most 0.4 %) and memory does not grow with the run.
    pub keep_requests: bool,
    /// Who decides when requests are sent.
    pub client: Client,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            slo: None,
            warmup: Warmup::None,
            keep_requests: true,
            client: Client::Open,
        }
    }
}
