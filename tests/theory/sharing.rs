//! Processor sharing: M/G/1-PS.

use pdsim::cluster::{RequestRecord, Role};
use pdsim::latency::fixed::Fixed;
use pdsim::units::SimDuration;

use crate::estimate::assert_mean;
use crate::system::{Experiment, Tokens, pool, system};

#[test]
fn decoding_at_a_cost_per_sequence_is_processor_sharing() {
    // A step takes 10 µs per sequence and gives each a token: everyone gets an equal share of one server. The mean sojourn
    // S/(1 − ρ) depends on the mean length only (insensitivity).
    let token = SimDuration::from_ps(10_000_000);
    let (load, mean_tokens) = (0.6, 2_000_u32);
    let service = f64::from(mean_tokens) * 1e-5;
    for outputs in [
        Tokens::Constant(mean_tokens),
        Tokens::Exponential(f64::from(mean_tokens)),
    ] {
        let shared = pool(
            Role::Both,
            1,
            1,
            Fixed {
                decode_per_sequence: token,
                ..Fixed::default()
            },
        );
        let experiment = Experiment {
            spec: system(vec![shared], f64::INFINITY),
            rate: load / service,
            count: 16_000,
            inputs: Tokens::Constant(1),
            outputs,
        };
        assert_mean(
            "M/G/1-PS sojourn",
            &experiment,
            RequestRecord::e2e,
            service / (1.0 - load),
            0.08,
        );
    }
}
