//! Batch policies.

/// Which batch policy a pool runs, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchRule {
    /// Whole prompts first; decodes stall behind them (Orca, vLLM V0).
    PrefillFirst,
    /// Decodes first, prompts cut into chunks that fill the rest of the step's token budget (Sarathi-Serve, vLLM V1).
    DecodeFirst,
    /// Whole prompts only.
    PrefillOnly,
    /// Decodes only; recomputes what it has preempted first.
    DecodeOnly,
}
