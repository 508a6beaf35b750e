//! The figures of one run: plain data, consumed by reports.
//!
//! Fields carry their unit in the name. A figure that does not exist (a percentile of nothing) is `None`, never NaN.

use serde::Serialize;

use super::cost::Cost;
use super::links::LinkMetrics;
use super::records::Records;
use super::series::Series;
use super::warning::Warning;
use crate::units::SimDuration;
use crate::workload::Client;

/// How requests ended. Only `arrived` and `warmup` count requests outside the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// All requests that entered the cluster, warm-up included.
    pub arrived: u64,
    /// Requests left out as warm-up.
    pub warmup: u64,
    /// Requests that arrived in the window: `arrived − warmup = done + rejected + unfinished`.
    pub measured: u64,
    /// Measured requests that emitted every token.
    pub done: u64,
    /// Measured requests the cluster refused.
    pub rejected: u64,
    /// Measured requests cut off by the horizon.
    pub unfinished: u64,
    /// Requests whose planned arrival came before the horizon and that the client could not send, as all it may have in flight were:
    /// in none of the other counts.
    pub never_sent: u64,
}

impl Counts {
    /// Whether there is a verdict to draw: some measured request was let in. A cluster that turns all away is never full.
    #[must_use]
    pub const fn tell_a_verdict(&self) -> bool {
        self.measured > self.rejected
    }
}

/// How many requests met the promise. Rejected and unfinished ones missed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Attainment {
    /// Requests done within every limit.
    pub met: u64,
    /// Requests that arrived in the window.
    pub of: u64,
    /// Requests done within the TTFT limit.
    pub ttft_met: u64,
    /// Requests done within the TPOT limit.
    pub tpot_met: u64,
}

impl Attainment {
    /// `met / of`; none when nothing arrived.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.of > 0).then(|| self.met as f64 / self.of as f64)
    }
}

/// The shape of a latency over the measured requests that have it, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Mean.
    pub mean_ms: f64,
    /// Smallest.
    pub min_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
    /// Whether the percentiles come from a histogram (relative error at most 0.4 %) instead of every value.
    pub binned: bool,
    /// The quantile function at 0, 0.005, … 1 (201 values), for charts.
    #[serde(skip)]
    pub quantiles_ms: Vec<f64>,
}

/// Work done per second of the measured span (window start to the end of the run), as serving benchmarks count it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Throughput {
    /// Measured requests done, per second from the start of the measured window to the end of the run, the drain included.
    pub requests_per_s: f64,
    /// Attainment times the rate of measured arrivals, so that good over offered requests per second is the attainment; absent without a
    /// promise. The drain is no part of its time, so it may exceed `requests_per_s`. Of a client that sends whenever it may: good
    /// requests per second of the same span as `requests_per_s`.
    pub good_requests_per_s: Option<f64>,
    /// Their prompt tokens.
    pub input_tokens_per_s: f64,
    /// Their output tokens.
    pub output_tokens_per_s: f64,
}

/// One pool over the measured span. Shares are of the time of all its stages, in 0..=1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolMetrics {
    /// Name of the pool.
    pub name: String,
    /// `both`, `prefill` or `decode`.
    pub role: &'static str,
    /// GPU type.
    pub gpu: String,
    /// Instances.
    pub instances: u32,
    /// GPUs.
    pub gpus: u32,
    /// Share of time with a step in progress: the sum of the next three.
    pub busy: f64,
    /// Share of time in steps of prompts only.
    pub busy_prefill: f64,
    /// Share of time in steps of decodes only.
    pub busy_decode: f64,
    /// Share of time in steps that mix prompt chunks and decodes, or in two of each at the same time.
    pub busy_mixed: f64,
    /// Whether prompts and decodes run at the same time, in steps of their own.
    #[serde(skip)]
    pub streams: bool,
    /// Steps that started in the measured span.
    pub steps: u64,
    /// Mean sequences in those of them that decode; none without such steps.
    pub mean_decode_batch: Option<f64>,
    /// Mean prompts in those that compute prompts; none without such steps.
    pub mean_prefill_batch: Option<f64>,
    /// Most KV blocks in use on one instance at a time, by any request.
    pub kv_peak_blocks: u64,
    /// KV blocks per instance; `None` for unlimited memory.
    pub kv_capacity_blocks: Option<u64>,
    /// Mean share of the pool's KV blocks in use, over the samples from window start to last arrival.
    pub kv_mean: Option<f64>,
    /// Share of time in which its instances sent a KV cache; 0 when nothing travels from it.
    pub link_busy: f64,
    /// Tokens of transfers queued in the measured span that did not travel to it because its prefix caches had them.
    pub held_tokens: u64,
    /// Preemptions on its instances in the measured span.
    pub preemptions: u64,
    /// Role changes of its instances in the measured span, into and out of the mixed pool included.
    pub role_switches: u64,
    /// Share of its instances' time as prefill, decode and mixed instances, and on the way to another role.
    pub role_shares: [f64; 4],
    /// What measured prompts found in the prefix caches of its instances; none where no cache was asked.
    pub prefix: Option<PrefixHits>,
}

/// Prompt tokens of measured requests by where they were when the prompt was admitted; what is left was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PrefixHits {
    /// All prompt tokens.
    pub prompt_tokens: u64,
    /// Those in the prefix cache of the GPUs.
    pub gpu_tokens: u64,
    /// Those in its CPU tier.
    pub cpu_tokens: u64,
}

/// Mean time of measured, done requests in each stage before decoding, in milliseconds; a stage that a request skips
/// counts as zero, so the means add up.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct StageMeans {
    /// Arrival to an instance's queue.
    pub router_wait_ms: f64,
    /// Instance queue to the first prefill step.
    pub prefill_queue_ms: f64,
    /// First prefill step to the end of the prompt.
    pub prefill_ms: f64,
    /// Prompt done to the start of the KV transfer.
    pub transfer_queue_ms: f64,
    /// The KV transfer.
    pub transfer_ms: f64,
    /// Ready to decode to the first decode step.
    pub decode_queue_ms: f64,
}

/// The KV transfers that were queued in the measured span and have ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferMetrics {
    /// How many.
    pub count: u64,
    /// Bytes that travelled.
    pub bytes: u64,
    /// Of those, bytes that travelled while their prompts were being computed.
    pub early_bytes: u64,
    /// Waiting for a turn on the link, and for copies to and from host memory: mean.
    pub queue_mean_ms: f64,
    /// Copying, posting and flowing after the prompt was done: mean.
    pub exposed_mean_ms: f64,
}

/// Whether the system kept up with the load, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The client keeps the number in the system as it is, so nothing can pile up: the latencies follow from its concurrency.
    Closed,
    /// The number in the system does not grow beyond its own noise.
    Stable,
    /// It grew, but the run is too short or too bursty to tell a passing queue from overload.
    Backlogged,
    /// It grew beyond noise: means and percentiles depend on the length of the run.
    Overloaded,
}

/// What holds a system back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Prompts arrive faster than prefill steps compute them.
    PrefillCompute,
    /// Sequences wait for KV blocks held by those that decode.
    DecodeKv,
    /// Decode steps are too slow for the tokens asked for, with KV blocks to spare.
    DecodeBandwidth,
    /// KV caches wait for the link.
    TransferLink,
    /// A limit on admitted sequences, or the router, holds requests back while the GPUs have room.
    Admission,
}

/// The answer that comes before any mean.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Did it keep up?
    pub state: State,
    /// What holds it back, and in a closed loop the resource that its requests spend most time with; none for a stable
    /// system.
    pub bottleneck: Option<Bottleneck>,
    /// Share of the arriving requests that pile up: growth of the number in the system per arrival over the last
    /// part of the window. Near 0 when stable, `1 − capacity/rate` when overloaded. Of a client that keeps a plan within a
    /// limit, requests it holds back are counted in.
    pub piling_up: f64,
    /// That growth in units of its own standard error.
    pub growth_sigmas: f64,
}

/// Little's law on the run's own numbers (law L13): `L = λ·W` of the measured requests over the measured span.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct LittlesLaw {
    /// Time-average number of them in the system, integrated from arrivals and ends.
    pub mean_in_system: f64,
    /// Arrival rate times mean sojourn (an unfinished request stays until the end), from the request records.
    pub rate_times_sojourn: f64,
    /// Whether both are equal to the picosecond.
    pub exact: bool,
    /// Time-average number in the pools as sampled, what is left of the warm-up included: independent of both, equal up to that and
    /// to sampling noise.
    pub mean_sampled: Option<f64>,
}

/// Every figure of one run of one system with one seed.
#[derive(Debug, Clone, Serialize)]
pub struct RunMetrics {
    /// Did it keep up, and if not, why.
    pub verdict: Verdict,
    /// How requests ended.
    pub counts: Counts,
    /// How many met the promise; none without one.
    pub attainment: Option<Attainment>,
    /// Time to first token.
    pub ttft: Option<Distribution>,
    /// Time per output token.
    pub tpot: Option<Distribution>,
    /// Gaps between tokens, those that start inside the measured window, from a histogram.
    pub itl: Option<Distribution>,
    /// End-to-end latency.
    pub e2e: Option<Distribution>,
    /// How long the client held requests back beyond their planned arrival, from a histogram; no part of the other
    /// latencies. None unless the client keeps a plan within a limit of requests in flight.
    pub client_wait: Option<Distribution>,
    /// Work per second.
    pub throughput: Throughput,
    /// Money and energy.
    pub cost: Cost,
    /// Measured arrivals per second of the arrival window.
    pub offered_per_s: f64,
    /// GPUs of the system.
    pub gpus: u32,
    /// Start of the measured window.
    pub window_start_s: f64,
    /// Last arrival: end of the arrival window.
    pub last_arrival_s: f64,
    /// End of the run.
    pub end_s: f64,
    /// Preemptions of measured requests.
    pub preemptions: u64,
    /// Where the time before decoding went.
    pub stages: StageMeans,
    /// Pools, in the system's order.
    pub pools: Vec<PoolMetrics>,
    /// Links that carried KV caches.
    pub links: Vec<LinkMetrics>,
    /// All KV transfers together; none when nothing travelled.
    pub transfers: Option<TransferMetrics>,
    /// Little's law (L13).
    pub little: LittlesLaw,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// Estimated share of kernel time outside measured ranges, over all pools whose step times are composed of kernels, warm-up included;
    /// none without such pools.
    pub unmeasured_share: Option<f64>,
    /// Queue, running and KV over time.
    #[serde(skip)]
    pub series: Series,
    /// A record per request, warm-up included; none when they were not kept.
    #[serde(skip)]
    pub records: Option<Records>,
    /// The client's wait of every request by id, where there is one and records are kept; otherwise empty.
    #[serde(skip)]
    pub client_waits: Vec<SimDuration>,
    /// Who decided when requests were sent.
    #[serde(skip)]
    pub client: Client,
}
