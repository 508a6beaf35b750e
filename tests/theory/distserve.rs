//! DistServe's TTFT formulas for a prefill instance (arXiv 2401.09670, section 3.1), D the step time and R the rate:
//! one GPU `D + R D²/(2(1 − R D))`, two pipeline stages `D + R D²/(4(2 − R D))`, tensor parallelism with speed-up K
//! `D/K + R D²/(2K(K − R D))`.

use pdsim::cluster::{RequestRecord, Role};
use pdsim::latency::fixed::Fixed;
use pdsim::units::SimDuration;

use crate::estimate::assert_mean;
use crate::system::{Experiment, Tokens, pool, system};

/// A prefill instance of `stages`, its whole prompt in `milliseconds`, with a decode instance behind it.
fn prefill(stages: u32, milliseconds: u64, rate: f64) -> Experiment {
    let latency = Fixed {
        prefill: SimDuration::from_ms(milliseconds),
        ..Fixed::default()
    };
    let pools = vec![
        pool(Role::Prefill, 1, stages, latency),
        pool(Role::Decode, 1, 1, Fixed::default()),
    ];
    Experiment {
        spec: system(pools, f64::INFINITY),
        rate,
        count: 20_000,
        inputs: Tokens::Constant(512),
        outputs: Tokens::Constant(1),
    }
}

#[test]
fn ttft_on_one_gpu() {
    let (d, r) = (0.04, 18.0);
    let theory = d + r * d * d / (2.0 * (1.0 - r * d));
    assert_mean(
        "TTFT, one GPU",
        &prefill(1, 40, r),
        RequestRecord::ttft,
        theory,
        0.05,
    );
}

#[test]
fn ttft_on_two_pipeline_stages() {
    let (d, r) = (0.04, 36.0);
    let theory = d + r * d * d / (4.0 * (2.0 - r * d));
    assert_mean(
        "TTFT, two stages",
        &prefill(2, 40, r),
        RequestRecord::ttft,
        theory,
        0.05,
    );
}

#[test]
fn ttft_with_tensor_parallelism() {
    let (d, k, r) = (0.04, 1.6, 28.0);
    let theory = d / k + r * d * d / (2.0 * k * (k - r * d));
    assert_mean(
        "TTFT, tensor parallel",
        &prefill(1, 25, r),
        RequestRecord::ttft,
        theory,
        0.05,
    );
}
