//! The verdict on a system whose client bounds the number of requests in it.
//!
//! A client that sends whenever it may cannot overload anything: the state is *closed*. A client that keeps a plan within a limit of
//! requests in flight hides growth in its own queue, so the growth of its wait is judged beside that of N, and the worse one counts.
//!
//! **Bottleneck.** The stage is the queue with most requests, or, when less than a tenth of all requests wait in queues, whatever most
//! requests are busy with.

use super::{
    Evidence, Growth, SATURATED, Stages, bottleneck, classify, does_both, mean_stages, positive,
    queued, total,
};
use crate::metrics::result::{Bottleneck, State, Verdict};
use crate::metrics::series::Point;
use crate::sim::PoolSample;

/// Share of a bounded number of requests from which their queues say what holds them.
const LEAST_QUEUED: f64 = 0.1;

/// The verdict on a system whose client bounds the number in it.
pub(super) fn verdict(
    evidence: &Evidence<'_>,
    inside: Growth,
    rows: &[(&Point, &[PoolSample])],
    full: &[bool],
) -> Verdict {
    let held = evidence.held_back;
    let (state, growth) = if evidence.client.is_saturating() {
        (State::Closed, Growth::default())
    } else if classify(held) > classify(inside) {
        (classify(held), held)
    } else {
        (classify(inside), inside)
    };
    let quarters = rows.len().div_ceil(4);
    let most = mean_stages(&rows[quarters.min(rows.len().saturating_sub(1))..]);
    Verdict {
        state,
        bottleneck: (state != State::Stable).then(|| holding(evidence, most, full)),
        piling_up: positive(growth.share),
        growth_sigmas: growth.sigmas,
    }
}

/// What holds most of a bounded number of requests, by their mean number in each stage.
pub(super) fn holding(evidence: &Evidence<'_>, most: Stages, full: &[bool]) -> Bottleneck {
    let queues = Stages {
        prefilling: 0.0,
        decoding: 0.0,
        ..most
    };
    if queued(queues) < LEAST_QUEUED * total(most) {
        return if most.prefilling > most.decoding {
            Bottleneck::PrefillCompute
        } else {
            Bottleneck::DecodeBandwidth
        };
    }
    match bottleneck(evidence, Stages::default(), queues, full) {
        // Nobody limits what a busy GPU takes in: prompts wait for the work that fills its time.
        Bottleneck::Admission => busiest(evidence).unwrap_or(Bottleneck::Admission),
        other => other,
    }
}

/// The phase that fills the time of the busiest pool that does both, if one is saturated.
fn busiest(evidence: &Evidence<'_>) -> Option<Bottleneck> {
    let both = evidence
        .roles
        .iter()
        .zip(evidence.pools)
        .filter(|(role, pool)| does_both(**role, pool) && pool.busy >= SATURATED)
        .map(|(_, pool)| pool)
        .max_by(|a, b| a.busy.total_cmp(&b.busy))?;
    let prompts = both.busy_prefill + both.busy_mixed;
    Some(if prompts >= both.busy_decode {
        Bottleneck::PrefillCompute
    } else {
        Bottleneck::DecodeBandwidth
    })
}
