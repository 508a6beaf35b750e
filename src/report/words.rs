//! Verdicts in words, the same in every output.

use crate::metrics::{Bottleneck, State};

/// The word for a state.
#[must_use]
pub(super) const fn state(state: State) -> &'static str {
    match state {
        State::Closed => "closed loop",
        State::Stable => "stable",
        State::Backlogged => "backlogged",
        State::Overloaded => "overloaded",
    }
}

/// The words for a bottleneck.
#[must_use]
pub(super) const fn bottleneck(bottleneck: Bottleneck) -> &'static str {
    match bottleneck {
        Bottleneck::PrefillCompute => "prefill compute",
        Bottleneck::DecodeKv => "decode KV",
        Bottleneck::DecodeBandwidth => "decode bandwidth",
        Bottleneck::TransferLink => "transfer link",
        Bottleneck::Admission => "admission",
    }
}
