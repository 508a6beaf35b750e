//! F4: with 1,024 tokens in and 50 out, 1P1D on two L40S had worse TTFT and ITL than two instances with chunked prefill.
//!
//! Not reproduced: the worse ITL. A decode instance of its own has none of the steps that prompts stretch, so here its tokens come
//! faster until prefill is overloaded; the engine of the thread paid for each hand-off on the decode side, which is not modelled.

use pdsim::metrics::{Bottleneck, State};

use crate::{mean_s, metrics, run};

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
