//! The shape of a step: all that a step-time model may look at.

/// One piece of a prompt that is computed in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Tokens computed in this step.
    pub new: u32,
    /// Tokens of the same sequence already in the KV cache (earlier chunks, cached prefix).
    pub past: u32,
    /// Whether the prompt is complete after this chunk, so that a token is sampled from it.
    pub last: bool,
}

/// The work of one step: prefill chunks and decoding sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepShape<'a> {
    /// Prefill chunks, one per request.
    pub chunks: &'a [Chunk],
    /// Sequences that decode one token each.
    pub decodes: u32,
    /// Tokens those sequences hold in the KV cache before the step, summed; the step reads these and writes
    /// `decodes` more.
    pub context: u64,
}

impl StepShape<'_> {
    /// Prompt tokens computed in the step.
    #[must_use]
    pub fn prefill_tokens(&self) -> u64 {
        self.chunks.iter().map(|c| u64::from(c.new)).sum()
    }
}

/// A pipeline stage: `index` of `of`, counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Which stage.
    pub index: u32,
    /// How many stages the instance has (its pipeline-parallel degree).
    pub of: u32,
}

impl Stage {
    /// The only stage of an instance without pipeline parallelism.
    pub const ONLY: Self = Self { index: 0, of: 1 };

    /// Whether the stage holds the embedding and takes work from the scheduler.
    #[must_use]
    pub const fn is_first(self) -> bool {
        self.index == 0
    }

    /// Whether the stage holds the LM head and samples tokens.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.index + 1 == self.of
    }
}
