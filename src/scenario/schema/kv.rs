//! Words of KV memory.

use serde::Deserialize;

use super::value::{Bandwidth, Size};

/// How many KV blocks a sequence is given where it decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvReserve {
    /// Those of its prompt, then one at a time.
    Paged,
    /// At once for its prompt and the longest output the client allows.
    MaxOutput,
    /// At once for what it will need, known by an oracle.
    Oracle,
    /// For the prompt, and before its first decode step for all it will need, known by an oracle.
    OracleAtDecode,
}

/// What becomes of a sequence that loses its KV blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preemption {
    /// It is computed again where it was.
    Recompute,
    /// Its KV cache moves to host memory and back.
    Swap,
    /// It is computed again on a prefill instance.
    ReturnToPrefill,
}

/// Host memory for what the prefix cache drops, per instance.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuCache {
    /// How much, in bytes.
    pub size: Option<Size>,
    /// How much, in KV blocks.
    pub blocks: Option<u64>,
    /// Rate at which an instance loads from it.
    pub bandwidth: Option<Bandwidth>,
}

/// When the decode instance is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecodeChoice {
    /// When the request comes.
    Arrival,
    /// When its prompt is done.
    Handoff,
}

/// When decode blocks are reserved, when the KV cache travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// When the prompt is done.
    AtHandoff,
    /// At arrival.
    Early,
}

/// Which prompts are computed on a decode instance instead of the prefill pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipPrefill {
    /// Those of fewer tokens.
    pub below: Option<u32>,
    /// Those of which fewer tokens are missing in the prefix cache of their decode instance.
    pub uncached_below: Option<u32>,
    /// All, while so many prompts are on the prefill instance that the router would take.
    pub at_queue: Option<u64>,
}
