//! F2: 3.2 requests/s offered, 2.56 served, 561.7 in flight, E2E 219.5 s; 64 prompts at once took 32.92 s.
//!
//! Not reproduced: the mean TTFT of 24.8 s, which depends on the length of the run, and the start-up in the burst of prompts
//! (7,963 tokens/s against 10,480 in the long run).

use pdsim::metrics::{Bottleneck, State};

use crate::{mean_s, metrics, near, run};

#[test]
fn f2_an_overloaded_client_with_a_limit_is_called_overloaded_and_prefill_is_named() {
    let report = run("f2.yaml", &[]);
    let m = metrics(&report, "2p1d", 0);
    // (a) Less is served than offered, and the verdict says so instead of a mean TTFT alone.
    assert_eq!(m.verdict.state, State::Overloaded, "{:?}", m.verdict);
    near(m.throughput.requests_per_s, 2.56, 0.1);
    near(1.0 - m.verdict.piling_up, m.offered_per_s / 3.2, 0.05);
    // (b) In flight / served = E2E.
    near(
        m.little.mean_in_system / m.throughput.requests_per_s,
        mean_s(&m.e2e),
        1e-3,
    );
    near(m.little.mean_in_system, 561.7, 0.1);
    // (d) The prefill pool is the answer.
    assert_eq!(m.verdict.bottleneck, Some(Bottleneck::PrefillCompute));
    assert!(m.pools[0].busy > 0.9, "{}", m.pools[0].busy);
    // What the client holds back is no part of TTFT.
    let wait = m.client_wait.as_ref().unwrap();
    assert!(wait.max_ms > 60_000.0, "{wait:?}");
}

#[test]
fn f2_ttft_depends_on_the_length_of_the_run() {
    let ttft = |requests: u32| {
        let flag = format!("workload.requests={requests}");
        mean_s(&metrics(&run("f2.yaml", &[&flag]), "2p1d", 0).ttft)
    };
    assert!(ttft(2048) > 2.0 * ttft(512));
}

#[test]
fn f2_a_burst_of_prompts_measures_the_prefill_pool_and_both_runs_agree() {
    let burst = [
        "workload.arrivals=closed",
        "workload.rate=null",
        "workload.requests=64",
        "workload.concurrency=64",
        "workload.lengths.fixed.output=1",
    ];
    let burst = run("f2.yaml", &burst);
    let burst = metrics(&burst, "2p1d", 0);
    // (c) The last prompt ends the run, the mean lies between half of that and all of it: prompts are computed in batches.
    let e2e = burst.e2e.as_ref().unwrap();
    let makespan = e2e.max_ms / 1e3;
    let share = mean_s(&burst.e2e) / makespan;
    assert!((0.5..0.7).contains(&share), "{share}");
    // The tokens per second of the burst are what the long run gets: prefill is the bottleneck of both.
    let prompts_per_s = 64.0 / makespan;
    let long = run("f2.yaml", &[]);
    near(metrics(&long, "2p1d", 0).offered_per_s, prompts_per_s, 0.1);
}
