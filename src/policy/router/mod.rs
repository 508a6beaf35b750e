//! Routers.

/// Which router a phase uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouterRule {
    /// Each instance in turn.
    RoundRobin,
    /// The fewest tokens: queued prompt tokens plus context tokens of admitted sequences.
    LeastTokens,
    /// The fewest requests waiting or in a prefill step (prompts), or waiting for their first decode step (decodes).
    LeastQueued,
}
