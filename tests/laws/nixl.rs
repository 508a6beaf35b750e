//! What a NIXL transfer costs, against three public reports (vllm-project/vllm#34054, #50913, #55434): `base + descriptors × 3.5 µs + bytes / rate`.

use pdsim::cluster::{TransferFact, TransferSpec};
use pdsim::units::SimDuration;

use crate::facts::Facts;
use crate::transfers::{prompts, simple};

/// 3.5 µs.
const POST: u64 = 3_500_000;

/// The transfer of one prompt of so many blocks, each with so many descriptors and bytes, over a link of `bytes_per_sec`.
fn one(blocks: u32, descriptors: u64, bytes: f64, bytes_per_sec: f64) -> TransferFact {
    let mut scenario = simple(1, SimDuration::from_ps(1_000_000));
    scenario.requests = prompts(&[blocks * 4], SimDuration::ZERO);
    let per_token = (bytes / f64::from(blocks * 4)).round();
    for pool in &mut scenario.spec.pools {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some thousand bytes"
        )]
        let bytes = per_token as u64;
        pool.kv.bytes_per_token = bytes;
    }
    scenario.spec.transfer = TransferSpec {
        per_block: SimDuration::from_ps(POST * descriptors),
        ..TransferSpec::link(SimDuration::from_ps(10_000_000), bytes_per_sec)
    };
    Facts::of(&scenario, true, None).ways[0]
}

/// Milliseconds of posting and in all.
fn cost(fact: &TransferFact) -> (f64, f64) {
    let span = |from, to: pdsim::units::SimTime| to.saturating_since(from).as_ms_f64();
    (span(fact.turn, fact.wire), span(fact.turn, fact.ended))
}

#[test]
fn f7_posting_dominates_on_one_host_as_vllm_34054_measured() {
    // 313 MB, 40 064 descriptors, 173.8 ms, of which posting 129.1; the rest is 7.0 GB/s.
    let (posting, total) = cost(&one(626, 64, 313e6, 313e6 / 44.7e-3));
    assert!((total / 173.8 - 1.0).abs() < 0.08, "{total}");
    assert!(
        (posting / total - 129.1 / 173.8).abs() < 0.03,
        "{posting} of {total}"
    );
}

#[test]
fn f7_the_wire_dominates_with_large_blocks_as_vllm_50913_measured() {
    // 167 MB, 1 785 descriptors, 38.7 ms, of which posting 6.7; the rest is 5.2 GB/s.
    let (posting, total) = cost(&one(1785, 1, 167e6, 167e6 / 32e-3));
    assert!((total / 38.7 - 1.0).abs() < 0.03, "{total}");
    assert!(
        (posting / total - 6.7 / 38.7).abs() < 0.02,
        "{posting} of {total}"
    );
}

#[test]
fn f7_a_rank_of_17_gb_per_s_posts_57_percent_of_the_time_as_vllm_55434_measured() {
    // 4.9 GB and 91 000 to 120 000 descriptors a rank; 56.9 % of the time is posting.
    let share = |blocks| {
        let (posting, total) = cost(&one(blocks, 100, 4.9e9, 17.5e9));
        posting / total
    };
    let (few, many) = (share(910), share(1200));
    assert!(
        few < 0.569 && 0.569 < many && many - few < 0.1,
        "{few} {many}"
    );
}

#[test]
fn f7_block_sizes_move_ttft_through_the_number_of_descriptors_alone() {
    let ttft = |block_tokens| {
        let mut scenario = simple(1, SimDuration::from_ps(1_000_000));
        scenario.requests = prompts(&[8192], SimDuration::ZERO);
        for pool in &mut scenario.spec.pools {
            pool.kv.block_tokens = block_tokens;
        }
        scenario.spec.transfer = TransferSpec {
            // Keys and values of 32 layers.
            per_block: SimDuration::from_ps(POST * 64),
            ..TransferSpec::link(SimDuration::ZERO, 1e9)
        };
        Facts::of(&scenario, true, None).records[0].ttft().unwrap()
    };
    let base = ttft(16);
    for block_tokens in [32, 64, 128] {
        let fewer = u64::from(8192 / 16 - 8192 / block_tokens);
        let saved = base.as_ps() - ttft(block_tokens).as_ps();
        assert_eq!(saved, fewer * 64 * POST, "{block_tokens}");
    }
}
