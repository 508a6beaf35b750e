//! Keys of routers.

use serde::Deserialize;

use super::value::WordOr;

/// Router rules by phase.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterPair {
    /// Chooses where a prompt is computed.
    pub prefill: Option<WordOr<RouterKind>>,
    /// Chooses where tokens are decoded, when the KV cache travels.
    pub decode: Option<WordOr<RouterKind>>,
}

/// A router with its figures.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterKind {
    /// The instance that served the session before.
    SessionAffinity(Affinity),
    /// The fewest tokens to compute.
    PrefixAware(Penalty),
}

/// How far a session stays where it was.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affinity {
    /// The router of first requests and of those that may not stay.
    pub fallback: Option<String>,
    /// How many requests the session's instance may have more than the one with the fewest.
    pub most_above_least: Option<u32>,
}

/// What load counts against cached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Penalty {
    /// Tokens that a prompt token queued or in progress counts for.
    pub prompt_weight: Option<f64>,
    /// Tokens that a context token of a decoding sequence counts for.
    pub context_weight: Option<f64>,
}
