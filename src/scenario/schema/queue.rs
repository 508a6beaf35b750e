//! Keys of queue orders.

use serde::Deserialize;

use super::value::Span;

/// In which order prompts wait, with its figures.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// The shortest prompt first.
    ShortestPrompt(Unfairness),
    /// The lowest request class first.
    Priority(Unfairness),
    /// The earliest deadline first.
    EarliestDeadline(Deadlines),
}

/// How far an order may be unfair.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfairness {
    /// How many later prompts may pass a waiting one.
    pub most_passes: Option<u32>,
}

/// What is promised to whom.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// TTFT promised to each request class, from class 0; the last one holds for classes beyond.
    pub ttft: Vec<Span>,
    /// How many later prompts may pass a waiting one.
    pub most_passes: Option<u32>,
}

/// A cap of long prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompts {
    /// A prompt of more tokens is long.
    pub above: u32,
    /// Most of them in a step.
    pub most: Option<u32>,
    /// Whether one may interrupt decodes by itself.
    pub interrupts: Option<bool>,
}
