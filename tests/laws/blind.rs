//! L9: no policy sees the true output length, and none sees the future.

use pdsim::cluster::{KvReserve, Outcome, RequestRecord};
use pdsim::units::SimTime;

use crate::facts::Facts;
use crate::pick::Pick;
use crate::scenario::Scenario;

/// What is known of a request before `until`: its instants, and where it was sent.
fn known(record: &RequestRecord, until: SimTime) -> [Option<SimTime>; 8] {
    let r = record;
    let instants = [
        r.routed,
        r.prefill_start,
        r.prefill_end,
        r.transfer_start,
        r.transfer_end,
        r.decode_start,
        r.first_token,
        if r.outcome == Outcome::Done {
            r.last_token
        } else {
            SimTime::NEVER
        },
    ];
    instants.map(|at| (at < until).then_some(at))
}

/// Asserts that two runs are the same in all that happened before `until`.
fn assert_same_past(a: &Facts, b: &Facts, until: SimTime, what: &str) {
    let by_id = |facts: &Facts| {
        let mut records = facts.records.clone();
        records.sort_by_key(|r| r.id);
        records
    };
    for (a, b) in by_id(a).iter().zip(&by_id(b)) {
        assert_eq!(known(a, until), known(b, until), "{what}:\n{a:?}\n{b:?}");
        if a.prefill_start < until {
            assert_eq!(a.prefill_instance, b.prefill_instance, "{what}");
        }
        if a.prefill_end < until {
            assert_eq!(
                a.decode_instance.is_none(),
                b.decode_instance.is_none(),
                "{what}"
            );
        }
        if a.transfer_start < until || a.decode_start < until {
            assert_eq!(a.decode_instance, b.decode_instance, "{what}");
        }
    }
    let before = |facts: &Facts| {
        let transfers: Vec<_> = facts
            .transfers
            .iter()
            .filter(|t| t.1 < until)
            .copied()
            .collect();
        let preemptions: Vec<_> = facts
            .preemptions
            .iter()
            .filter(|p| p.0 < until)
            .copied()
            .collect();
        let samples: Vec<_> = facts
            .samples
            .iter()
            .filter(|s| s.0 < until)
            .cloned()
            .collect();
        (transfers, preemptions, samples)
    };
    assert_eq!(before(a), before(b), "{what}");
}

#[test]
fn l9_a_longer_output_changes_nothing_before_the_shorter_one_ends() {
    let mut tested = 0;
    for seed in 7_000_000..7_000_450 {
        let mut shorter = Scenario::random(seed);
        for pool in &mut shorter.spec.pools {
            // The one rule that says by its name that it looks.
            if matches!(
                pool.kv.reserve,
                KvReserve::Oracle | KvReserve::OracleAtDecode
            ) {
                pool.kv.reserve = KvReserve::MaxOutput;
            }
        }
        let pick = &mut Pick::new(seed, "longer");
        let chosen = usize::try_from(pick.from(0, shorter.requests.len() as u64 - 1)).unwrap();
        let mut longer = shorter.clone();
        // Two tokens or more, so that both have decoding to do.
        let mut short = shorter.clone();
        short.requests[chosen].output_tokens = pick.small(2, 40);
        longer.requests[chosen].output_tokens =
            short.requests[chosen].output_tokens + pick.small(1, 60);
        for scenario in [&mut short, &mut longer] {
            scenario.requests[chosen].max_output = 200;
        }
        let (a, b) = (
            Facts::of(&short, true, None),
            Facts::of(&longer, true, None),
        );
        let refused = |facts: &Facts| {
            facts
                .records
                .iter()
                .any(|r| matches!(r.outcome, Outcome::Rejected(_)))
        };
        if refused(&a) || refused(&b) {
            // The cluster, not a policy, refuses what can never fit, and does so by the true length.
            continue;
        }
        let record = a.records.iter().find(|r| r.id.index() == chosen).unwrap();
        assert_same_past(
            &a,
            &b,
            record.last_token,
            &format!("L9, seed {seed}, request {chosen}"),
        );
        tested += 1;
    }
    assert!(tested > 250, "only {tested} scenarios without rejections");
}

#[test]
fn what_arrives_later_changes_nothing_earlier() {
    for seed in 7_100_000..7_100_300 {
        let whole = Scenario::random(seed);
        let mut start = whole.clone();
        start.requests.truncate(whole.requests.len().div_ceil(2));
        let Some(next) = whole.requests.get(start.requests.len()) else {
            continue;
        };
        let (a, b) = (Facts::of(&start, true, None), Facts::of(&whole, true, None));
        let mut known = b.clone();
        known
            .records
            .retain(|r| r.id.index() < start.requests.len());
        // Samples end with a run.
        let last = a.samples.last().map(|s| s.0);
        known.samples.retain(|s| Some(s.0) <= last);
        assert_same_past(&a, &known, next.arrival, &format!("seed {seed}"));
    }
}
