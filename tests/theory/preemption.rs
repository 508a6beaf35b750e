//! First come, first served holds across a preemption.

use pdsim::cluster::{KvSpec, Observer, RequestRecord, Role};
use pdsim::latency::fixed::Fixed;
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

fn at(ms: u64) -> SimTime {
    SimTime::ZERO + SimDuration::from_ms(ms)
}

#[test]
fn a_preempted_sequence_waits_in_front_of_later_prompts() {
    // Every step takes 10 ms; 25 blocks of one token. A and B hold 20 blocks after their prompts and take two more per
    // step, so the third step (at 40 ms) preempts B with 3 tokens out: it needs 13 blocks to come back. C, there since
    // 35 ms, would fit into the 12 blocks that A leaves, but came later.
    let ten = SimDuration::from_ms(10);
    let steps = Fixed {
        prefill: ten,
        decode: ten,
        ..Fixed::default()
    };
    let mut one = pool(Role::Both, 1, 1, steps);
    one.kv = KvSpec {
        block_tokens: 1,
        blocks: Some(25),
        ..one.kv
    };
    let request = |ms, input_tokens, output_tokens| RequestSpec {
        arrival: at(ms),
        input_tokens,
        output_tokens,
        max_output: output_tokens,
        class: 0,
        session: 0,
    };
    let requests = [request(0, 10, 10), request(0, 10, 10), request(35, 12, 1)];
    for fast_forward in [true, false] {
        let mut spec = system(vec![one.clone()], f64::INFINITY);
        spec.fast_forward = fast_forward;
        let mut kept = Keep::default();
        simulate(&spec, requests, Options::default(), &mut kept).unwrap();
        kept.0.sort_by_key(|record| record.id);
        let [a, b, c] = &kept.0[..] else {
            panic!("three requests end")
        };
        assert_eq!((a.preemptions, b.preemptions, c.preemptions), (0, 1, 0));
        assert_eq!(a.last_token, at(110));
        // B is computed again from 110 ms, C after it.
        assert_eq!((b.prefill_start, c.prefill_start), (at(10), at(120)));
    }
}
