//! F4: with 1,024 tokens in and 50 out, 1P1D on two L40S had worse TTFT and ITL than two instances with chunked prefill.
//!
//! Not reproduced: the worse ITL. A decode instance of its own has none of the steps that prompts stretch, so here its tokens come
//! faster until prefill is overloaded; the engine of the thread paid for each hand-off on the decode side, which is not modelled.

use pdsim::metrics::{Bottleneck, State};

use pdsim::report::balance;

use crate::{experiment, mean_s, metrics, near, run};

const RATES: [f64; 3] = [4.0, 12.0, 20.0];

#[test]
fn f4_one_of_each_loses_to_two_that_share_the_work() {
    let report = run("f4.yaml", &[]);
    for (point, rate) in RATES.iter().enumerate() {
        let ttft = |system| mean_s(&metrics(&report, system, point).ttft);
        assert!(ttft("1p1d") > 1.2 * ttft("chunked"), "{rate} /s");
    }
    // The load that two shared instances still carry is too much for one prefill instance.
    let (shared, split) = (metrics(&report, "chunked", 2), metrics(&report, "1p1d", 2));
    assert_eq!(shared.verdict.state, State::Stable);
    assert_eq!(split.verdict.state, State::Overloaded);
    assert_eq!(split.verdict.bottleneck, Some(Bottleneck::PrefillCompute));
}

#[test]
fn f4_the_best_split_of_eight_follows_the_ratio_of_the_work() {
    for output in [6, 50, 400] {
        let lengths = format!("workload.lengths={{fixed: {{input: 1024, output: {output}}}}}");
        let experiment = experiment("f4-splits.yaml", &[&lengths]);
        let report = pdsim::sweep::run(&experiment, None, &|| ()).unwrap();
        let point = &experiment.points[0];
        let splits: Vec<(f64, f64)> = point
            .systems
            .iter()
            .map(|system| {
                let work = balance(system, point.workload.stream(1).take(100)).unwrap();
                let (p, d) = (work.prefill, work.decode);
                let most = p.requests_per_s().min(d.requests_per_s());
                let served = metrics(&report, &system.name, 0).throughput.requests_per_s;
                // What each phase costs says what the split carries.
                near(served, most, 0.08);
                (most, served)
            })
            .collect();
        let best = splits
            .iter()
            .fold(0.0, |best: f64, split| best.max(split.1));
        let (_, chosen) = splits.iter().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        near(*chosen, best, 0.02);
    }
}
