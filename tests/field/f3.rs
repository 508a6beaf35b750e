//! F3: TTFT against concurrency 1 → 0.1 s, 10 → 2, 50 → 6.5, 100 → 10, 250 → 25: prompts served one after another.

use pdsim::metrics::Bottleneck;

use crate::{mean_s, metrics, near, run};

const CONCURRENCY: [f64; 5] = [1.0, 10.0, 50.0, 100.0, 250.0];

#[test]
fn f3_prompts_one_by_one_give_a_ladder_and_batches_far_less() {
    let report = run("f3.yaml", &[]);
    let ttft = |system, point| mean_s(&metrics(&report, system, point).ttft);
    // Once prefill is saturated a place more costs one prompt's time: the ladder is a line.
    let slope = |from: usize, to: usize| {
        (ttft("one-by-one", to) - ttft("one-by-one", from)) / (CONCURRENCY[to] - CONCURRENCY[from])
    };
    near(slope(3, 4), slope(2, 3), 0.02);
    let most = metrics(&report, "one-by-one", 4);
    near(slope(3, 4), 1.0 / most.offered_per_s, 0.02);
    // The thread has ten requests a second, and so 0.1 s a place. Kernels alone are faster: 18.6 a second.
    assert!(
        (10.0..20.0).contains(&most.offered_per_s),
        "{}",
        most.offered_per_s
    );
    // At 100 a fifth; at 250 prefill is saturated with batches, too, and what is left is the ratio of what it serves.
    for (point, most) in [(3, 0.25), (4, 0.6)] {
        let share = ttft("batched", point) / ttft("one-by-one", point);
        assert!(share < most, "{point}: {share}");
    }
}

#[test]
fn f3_the_batch_and_the_queue_say_why() {
    let report = run("f3.yaml", &["sweep.workload.concurrency=[1, 100]"]);
    let (first, most) = (
        metrics(&report, "one-by-one", 0),
        metrics(&report, "one-by-one", 1),
    );
    let alone = mean_s(&first.ttft);
    assert!(
        (0.05..0.1).contains(&alone),
        "{alone} s, 0.1 s in the thread"
    );
    assert_eq!(most.verdict.bottleneck, Some(Bottleneck::PrefillCompute));
    assert_eq!(most.pools[0].mean_prefill_batch, Some(1.0));
    let queue = most.stages.prefill_queue_ms / 1e3 / mean_s(&most.ttft);
    assert!(queue > 0.9, "{queue}");
    let batched = metrics(&report, "batched", 1);
    assert!(batched.pools[0].mean_prefill_batch > Some(5.0));
}
