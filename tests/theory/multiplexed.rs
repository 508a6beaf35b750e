//! Two streams on one GPU, worked out by hand.

use std::sync::Arc;

use pdsim::cluster::{Observer, PoolSpec, RequestRecord, Role};
use pdsim::latency::LatencyModel;
use pdsim::latency::fixed::Fixed;
use pdsim::latency::share::{IdleSms, SmCurve, SmSplit};
use pdsim::metrics::{Collector, Config};
use pdsim::policy::batch::BatchRule;
use pdsim::sim::{Options, simulate};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;

use crate::system::{pool, system};

#[derive(Default)]
struct Keep(Vec<RequestRecord>);

impl Observer for Keep {
    fn ended(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

/// On the whole GPU prompts take 10 ms and decode steps 4 ms; on half of it 20 ms and 6 ms.
fn halves(contention: f64, idle: IdleSms) -> PoolSpec {
    let split = SmSplit {
        prefill_share: 0.5,
        contention,
        idle,
        curve: SmCurve {
            compute_saturation: 1.0,
            bandwidth_saturation: 0.75,
        },
    };
    split.validate().unwrap();
    let fixed = Fixed {
        prefill: SimDuration::from_ms(10),
        decode: SimDuration::from_ms(4),
        ..Fixed::default()
    };
    let whole: Arc<dyn LatencyModel> = Arc::new(fixed);
    PoolSpec {
        multiplex: Some(split.streams(&whole)),
        batch: BatchRule::SharedSm { chunks: false },
        ..pool(Role::Both, 1, 1, fixed)
    }
}

/// A request of 10 prompt tokens by its arrival in ms and its output tokens.
fn made(&(ms, output_tokens): &(u64, u32)) -> RequestSpec {
    RequestSpec {
        arrival: SimTime::ZERO + SimDuration::from_ms(ms),
        input_tokens: 10,
        output_tokens,
        max_output: output_tokens,
        class: 0,
        session: 0,
    }
}

/// First and last tokens in ms, by request, in both modes.
fn tokens(pool: &PoolSpec, requests: &[(u64, u32)]) -> Vec<(u64, u64)> {
    let [fast, stepping] = [true, false].map(|fast_forward| {
        let mut spec = system(vec![pool.clone()], f64::INFINITY);
        spec.fast_forward = fast_forward;
        let mut kept = Keep::default();
        simulate(
            &spec,
            requests.iter().map(made),
            Options::default(),
            &mut kept,
        )
        .unwrap();
        kept.0.sort_by_key(|record| record.id);
        let ms = |at: SimTime| {
            assert_eq!(at.as_ps() % 1_000_000_000, 0);
            at.as_ps() / 1_000_000_000
        };
        let pair = |r: &RequestRecord| (ms(r.first_token), ms(r.last_token));
        kept.0.iter().map(pair).collect::<Vec<_>>()
    });
    assert_eq!(fast, stepping);
    fast
}

#[test]
fn steps_in_progress_are_not_timed_anew_when_the_other_stream_begins_or_ends() {
    // A: prompt 0-10, decode steps 10-14 alone, then 14-20 and 20-26 beside the prompt of B. B: comes at 12, prompt 12-32 beside the step
    // in progress and as long although A is done at 26, then a decode step alone, 32-36.
    let pool = halves(1.0, IdleSms::Lent);
    assert_eq!(tokens(&pool, &[(0, 4), (12, 2)]), [(10, 26), (32, 36)]);
}

#[test]
fn time_in_steps_of_both_streams_is_counted_once() {
    // The same: prompts 0-10 and 12-32, decodes 10-26 and 32-36, both in 12-26.
    let spec = system(vec![halves(1.0, IdleSms::Lent)], f64::INFINITY);
    let mut collector = Collector::new(&Config::default(), &spec);
    let requests = [(0, 4), (12, 2)];
    simulate(
        &spec,
        requests.iter().map(made),
        Options::default(),
        &mut collector,
    )
    .unwrap();
    let pool = &collector.into_metrics().pools[0];
    let shares = [
        pool.busy_prefill,
        pool.busy_decode,
        pool.busy_mixed,
        pool.busy,
    ];
    for (share, ms) in shares.into_iter().zip([16.0, 6.0, 14.0, 36.0]) {
        assert!((share - ms / 36.0).abs() < 1e-12, "{shares:?}");
    }
}

#[test]
fn streams_that_start_together_see_each_other_and_kept_sms_stay_idle() {
    // Contention 1.5: beside the other stream 30 ms and 9 ms, alone on half of the GPU 20 ms and 6 ms. A: prompt 0-20, decode steps 20-26,
    // 26-35, 35-44. B: prompt 22-52, decode step 52-61. C: comes at 50, prompt 52-82, beside the step of B that starts with it.
    let pool = halves(1.5, IdleSms::Kept);
    let requests = [(0, 4), (22, 2), (50, 1)];
    assert_eq!(tokens(&pool, &requests), [(20, 44), (52, 61), (82, 82)]);
}

#[test]
fn a_sequence_joins_the_decodes_at_the_next_step_after_its_prompt() {
    // A: prompt 0-10, steps 10-14, 14-20, 20-26, 26-32 beside the prompt of B (11-31), then 32-36 with B, alone, and 36-40.
    let pool = halves(1.0, IdleSms::Lent);
    assert_eq!(tokens(&pool, &[(0, 7), (11, 2)]), [(10, 40), (31, 36)]);
}
