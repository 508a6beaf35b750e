//! F1: 6.82 requests/s, TTFT 1,385 ms, ITL 19.42 ms (p99 19.79), E2E 4,278.6 ms from a closed loop of about 30.
//!
//! Not reproduced: the band of 30 to 60 tokens/s per user in which the thread claims an advantage, because the topology that was
//! measured and that it was compared with are not told.

use crate::{in_flight, mean_s, metrics, near, run};

#[test]
fn f1_a_closed_loop_of_30_obeys_the_identities_of_its_benchmark() {
    // Long enough for its first and last requests not to matter.
    let report = run("f1.yaml", &["workload.requests=6000"]);
    for system in ["4p1d", "aggregated"] {
        let m = metrics(&report, system, 0);
        // (a) Output tokens per second are requests per second times the output length.
        near(
            m.throughput.output_tokens_per_s,
            150.0 * m.throughput.requests_per_s,
            1e-9,
        );
        // (b) Little's law gives back the concurrency.
        near(in_flight(m), 30.0, 0.02);
        near(m.little.mean_in_system, 30.0, 0.02);
        // (c) E2E = TTFT + 149 gaps of the mean TPOT, since all outputs are equally long.
        near(
            mean_s(&m.e2e),
            mean_s(&m.ttft) + 149.0 * mean_s(&m.tpot),
            1e-6,
        );
    }
    // (d) Nothing interferes with decodes on an instance of their own; beside prefills they stall.
    let ratio = |system| {
        let itl = metrics(&report, system, 0).itl.clone().unwrap();
        itl.max_ms / itl.mean_ms
    };
    assert!(ratio("4p1d") < 2.0, "{}", ratio("4p1d"));
    assert!(ratio("aggregated") > 5.0, "{}", ratio("aggregated"));
}

#[test]
fn f1_comes_out_within_a_factor_of_two_of_the_measured_run_with_the_topology_of_the_advice() {
    let report = run("f1.yaml", &[]);
    let m = metrics(&report, "4p1d", 0);
    // Nothing was fitted to these numbers; the measured run is the slower one in each: 6.82 requests/s against 9.8 here, TTFT 1,385 ms
    // against 761, TPOT 19.4 ms against 14.3.
    let slower = |seen: f64, measured: f64| {
        let share = measured / seen;
        assert!(share > 1.0 && share < 2.0, "{seen} {measured}");
    };
    slower(1.0 / m.throughput.requests_per_s, 1.0 / 6.82);
    slower(mean_s(&m.ttft), 1.385);
    slower(mean_s(&m.tpot), 0.019_42);
    slower(mean_s(&m.e2e), 4.2786);
}
