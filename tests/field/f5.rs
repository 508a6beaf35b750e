//! F5: a second decode instance brought +46 % at concurrency 8 and +66 % at 16 with 1,024-token prompts, and −0.3 % with 8,128,
//! where the prefill card was busy all the time.

use pdsim::metrics::Bottleneck;

use crate::{metrics, run};

#[test]
fn f5_one_more_decode_instance_pays_until_prompts_are_long() {
    for concurrency in [8, 16] {
        let flag = format!("workload.concurrency={concurrency}");
        let report = run("f5.yaml", &[&flag]);
        let gain = |point| {
            let rate = |system| metrics(&report, system, point).offered_per_s;
            rate("1p2d") / rate("1p1d") - 1.0
        };
        let (short, long) = (gain(0), gain(1));
        assert!(short > 0.1, "{concurrency}: {short}");
        assert!(long.abs() < short / 3.0, "{concurrency}: {long} {short}");
    }
}

#[test]
fn f5_the_bottleneck_flips_from_decode_to_prefill() {
    let report = run("f5.yaml", &[]);
    let (short, long) = (metrics(&report, "1p1d", 0), metrics(&report, "1p1d", 1));
    assert_eq!(short.verdict.bottleneck, Some(Bottleneck::DecodeBandwidth));
    assert_eq!(long.verdict.bottleneck, Some(Bottleneck::PrefillCompute));
    assert!(long.pools[0].busy > 0.95, "{}", long.pools[0].busy);
}
