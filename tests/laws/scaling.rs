//! L10: scaling all times scales all results.

use std::sync::Arc;

use pdsim::cluster::{Overlap, Preemption, QueueOrder, RequestRecord};
use pdsim::latency::{DecodeCurve, LatencyModel, Segment, Stage, StepShape};
use pdsim::units::{FINE_BITS, Fine, SimDuration, SimTime};

use crate::facts::Facts;
use crate::scenario::Scenario;

/// A model in whole picoseconds (at least one), times a factor: rounding then commutes with scaling.
#[derive(Debug)]
struct Whole {
    model: Arc<dyn LatencyModel>,
    factor: u64,
}

impl LatencyModel for Whole {
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration {
        self.model
            .step_time(shape, stage)
            .max(SimDuration::from_ps(1))
            * self.factor
    }

    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve {
        let whole = |fine: Fine| (fine.0 >> FINE_BITS << FINE_BITS) * self.factor;
        let curve = self.model.decode_curve(batch, stage);
        let scale = |s: &Segment| Segment {
            from: s.from,
            base: Fine(whole(s.base).max(self.factor << FINE_BITS)),
            slope: Fine(whole(s.slope)),
        };
        DecodeCurve::from_segments(curve.segments().iter().map(scale).collect())
    }
}

/// `scenario` in whole picoseconds, slowed down `factor` times.
fn slowed(scenario: &Scenario, factor: u64) -> Scenario {
    let mut slow = scenario.clone();
    for pool in &mut slow.spec.pools {
        let whole = |model: &mut Arc<dyn LatencyModel>| {
            let model_of_whole = Arc::clone(model);
            *model = Arc::new(Whole {
                model: model_of_whole,
                factor,
            });
        };
        whole(&mut pool.latency);
        if let Some(streams) = &mut pool.multiplex {
            streams.prefill.iter_mut().for_each(whole);
            streams.decode.iter_mut().for_each(whole);
        }
        if let Preemption::Swap { bytes_per_sec } = &mut pool.kv.preemption
            && bytes_per_sec.is_finite()
        {
            *bytes_per_sec = 4096.0 / factor as f64;
        }
        if let QueueOrder::EarliestDeadline(promises) = &mut pool.queue.order {
            *promises = promises.iter().map(|&promise| promise * factor).collect();
        }
    }
    for request in &mut slow.requests {
        request.arrival = SimTime::from_ps(request.arrival.as_ps() * factor);
    }
    let transfer = &mut slow.spec.transfer;
    transfer.base = transfer.base * factor;
    transfer.per_block = transfer.per_block * factor;
    // Shares of a network, and layers of a step, do not end on whole picoseconds.
    transfer.sharing = None;
    if let Overlap::Layerwise { layers } = &mut transfer.overlap {
        *layers = 1;
    }
    if transfer.per_block > SimDuration::ZERO {
        // Nor do descriptors of parts of blocks.
        transfer.overlap = Overlap::None;
    }
    if let Some(staging) = &mut transfer.staging {
        for rate in [
            &mut staging.out_bytes_per_sec,
            &mut staging.into_bytes_per_sec,
        ] {
            if rate.is_finite() {
                *rate = 4096.0 / factor as f64;
            }
        }
    }
    if transfer.bytes_per_sec.is_finite() {
        // A byte then takes a whole number of picoseconds, exactly.
        transfer.bytes_per_sec = 4096.0 / factor as f64;
    }
    slow
}

fn stretched(record: &RequestRecord, factor: u64) -> RequestRecord {
    let mut r = *record;
    for at in [
        &mut r.arrival,
        &mut r.routed,
        &mut r.prefill_start,
        &mut r.prefill_end,
        &mut r.transfer_start,
        &mut r.transfer_end,
        &mut r.decode_start,
        &mut r.first_token,
        &mut r.last_token,
    ] {
        if *at != SimTime::NEVER {
            *at = SimTime::from_ps(at.as_ps() * factor);
        }
    }
    r
}

#[test]
fn l10_slowing_everything_down_stretches_every_instant() {
    for seed in 8_000_000..8_000_300 {
        let scenario = Scenario::random(seed);
        let base = Facts::of(&slowed(&scenario, 1), true, None);
        for factor in [2, 8] {
            let slow = Facts::of(&slowed(&scenario, factor), true, None);
            let expected: Vec<_> = base.records.iter().map(|r| stretched(r, factor)).collect();
            assert_eq!(slow.records, expected, "L10, seed {seed}");
            let gaps: Vec<_> = base
                .gaps
                .iter()
                .map(|(gap, n)| (gap * u128::from(factor), *n))
                .collect();
            assert!(slow.gaps.into_iter().eq(gaps), "L10, seed {seed}: gaps");
        }
    }
}
