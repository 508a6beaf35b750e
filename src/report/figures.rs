//! The figures of a run by name: one list for every table, file and JSON document.

use crate::metrics::{Distribution, PrefixHits, RunMetrics};

/// A named figure of a run. The name carries the unit.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Name, as the column of `summary.csv`.
    pub name: &'static str,
    /// Its value; none when the run has none.
    pub of: fn(&RunMetrics) -> Option<f64>,
}

macro_rules! latency {
    ($($name:literal, $field:ident, $stat:ident;)*) => {
        [$(Figure { name: $name, of: |m| stat(m.$field.as_ref(), |d| d.$stat) }),*]
    };
}

fn stat(distribution: Option<&Distribution>, of: fn(&Distribution) -> f64) -> Option<f64> {
    distribution.map(of)
}

/// Latencies.
const LATENCIES: [Figure; 24] = latency! {
    "ttft_mean_ms", ttft, mean_ms;
    "ttft_p50_ms", ttft, p50_ms;
    "ttft_p90_ms", ttft, p90_ms;
    "ttft_p95_ms", ttft, p95_ms;
    "ttft_p99_ms", ttft, p99_ms;
    "tpot_mean_ms", tpot, mean_ms;
    "tpot_p50_ms", tpot, p50_ms;
    "tpot_p90_ms", tpot, p90_ms;
    "tpot_p95_ms", tpot, p95_ms;
    "tpot_p99_ms", tpot, p99_ms;
    "itl_mean_ms", itl, mean_ms;
    "itl_p50_ms", itl, p50_ms;
    "itl_p90_ms", itl, p90_ms;
    "itl_p95_ms", itl, p95_ms;
    "itl_p99_ms", itl, p99_ms;
    "e2e_mean_ms", e2e, mean_ms;
    "e2e_p50_ms", e2e, p50_ms;
    "e2e_p90_ms", e2e, p90_ms;
    "e2e_p95_ms", e2e, p95_ms;
    "e2e_p99_ms", e2e, p99_ms;
    "client_wait_mean_ms", client_wait, mean_ms;
    "client_wait_p50_ms", client_wait, p50_ms;
    "client_wait_p90_ms", client_wait, p90_ms;
    "client_wait_p99_ms", client_wait, p99_ms;
};

/// Shares, rates and counts.
const OTHERS: [Figure; 25] = [
    figure("attainment", |m| m.attainment.and_then(|a| a.share())),
    figure("attainment_ttft", |m| {
        m.attainment.and_then(|a| share(a.ttft_met, a.of))
    }),
    figure("attainment_tpot", |m| {
        m.attainment.and_then(|a| share(a.tpot_met, a.of))
    }),
    figure("offered_requests_per_s", |m| Some(m.offered_per_s)),
    figure("requests_per_s", |m| Some(m.throughput.requests_per_s)),
    figure("good_requests_per_s", |m| m.throughput.good_requests_per_s),
    figure("input_tokens_per_s", |m| {
        Some(m.throughput.input_tokens_per_s)
    }),
    figure("output_tokens_per_s", |m| {
        Some(m.throughput.output_tokens_per_s)
    }),
    figure("requests_per_s_per_gpu", |m| {
        Some(m.throughput.requests_per_s / f64::from(m.gpus))
    }),
    figure("good_requests_per_s_per_gpu", |m| {
        m.throughput
            .good_requests_per_s
            .map(|rate| rate / f64::from(m.gpus))
    }),
    figure("output_tokens_per_s_per_gpu", |m| {
        Some(m.throughput.output_tokens_per_s / f64::from(m.gpus))
    }),
    figure("busy_share", busy_share),
    figure("kv_peak_share", kv_peak_share),
    figure("mean_in_system", |m| Some(m.little.mean_in_system)),
    figure("role_switches", role_switches),
    figure("gpu_cached_share", |m| prefix_share(m, |p| p.gpu_tokens)),
    figure("cpu_cached_share", |m| prefix_share(m, |p| p.cpu_tokens)),
    figure("gpu_hours", |m| Some(m.cost.gpu_hours)),
    figure("usd_per_hour", |m| m.cost.usd_per_hour),
    figure("usd", |m| m.cost.usd),
    figure("energy_kwh", |m| Some(m.cost.energy_kwh)),
    figure("usd_per_million_output_tokens", |m| {
        m.cost.usd_per_million_output_tokens
    }),
    figure("usd_per_million_good_tokens", |m| {
        m.cost.usd_per_million_good_tokens
    }),
    figure("kwh_per_million_output_tokens", |m| {
        m.cost.kwh_per_million_output_tokens
    }),
    figure("unmeasured_share", |m| m.unmeasured_share),
];

/// Where the time before decoding goes: means per request.
const STAGES: [Figure; 6] = [
    figure("router_wait_mean_ms", |m| Some(m.stages.router_wait_ms)),
    figure("prefill_queue_mean_ms", |m| Some(m.stages.prefill_queue_ms)),
    figure("prefill_mean_ms", |m| Some(m.stages.prefill_ms)),
    figure("transfer_queue_mean_ms", |m| {
        Some(m.stages.transfer_queue_ms)
    }),
    figure("transfer_mean_ms", |m| Some(m.stages.transfer_ms)),
    figure("decode_queue_mean_ms", |m| Some(m.stages.decode_queue_ms)),
];

/// What the hand-off costs; none when nothing travels.
const TRANSFERS: [Figure; 3] = [
    figure("busiest_link_share", |m| {
        let shares = m.links.iter().map(|link| link.utilisation);
        shares.max_by(f64::total_cmp)
    }),
    figure("link_queue_mean_ms", |m| {
        m.transfers.as_ref().map(|t| t.queue_mean_ms)
    }),
    figure("transfer_exposed_mean_ms", |m| {
        m.transfers.as_ref().map(|t| t.exposed_mean_ms)
    }),
];

const fn figure(name: &'static str, of: fn(&RunMetrics) -> Option<f64>) -> Figure {
    Figure { name, of }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Share of the prompt tokens that were found in prefix caches; none where no cache was asked.
fn prefix_share(m: &RunMetrics, of: fn(&PrefixHits) -> u64) -> Option<f64> {
    let pools = m.pools.iter().filter_map(|pool| pool.prefix.as_ref());
    let (part, all) = pools.fold((0, 0), |(part, all), hits| {
        (part + of(hits), all + hits.prompt_tokens)
    });
    share(part, all)
}

/// Share of GPU time with a step in progress.
fn busy_share(m: &RunMetrics) -> Option<f64> {
    let gpus: u32 = m.pools.iter().map(|p| p.gpus).sum();
    let busy: f64 = m.pools.iter().map(|p| p.busy * f64::from(p.gpus)).sum();
    (gpus > 0).then(|| busy / f64::from(gpus))
}

/// The fullest any instance's KV pool ever was; none when all are unlimited.
fn kv_peak_share(m: &RunMetrics) -> Option<f64> {
    m.pools
        .iter()
        .filter_map(|p| share(p.kv_peak_blocks, p.kv_capacity_blocks?))
        .max_by(f64::total_cmp)
}

/// Role changes of all instances.
fn role_switches(m: &RunMetrics) -> Option<f64> {
    Some(m.pools.iter().map(|p| p.role_switches as f64).sum())
}

/// Every figure, in the order of the columns.
pub fn figures() -> impl Iterator<Item = &'static Figure> {
    OTHERS
        .iter()
        .chain(&LATENCIES)
        .chain(&STAGES)
        .chain(&TRANSFERS)
}

/// The value of a figure by name.
#[must_use]
pub fn value(metrics: &RunMetrics, name: &str) -> Option<f64> {
    let figure = figures().find(|figure| figure.name == name)?;
    (figure.of)(metrics)
}
