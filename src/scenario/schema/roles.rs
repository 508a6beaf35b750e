//! Keys of role rules: when instances change what they do.

use serde::Deserialize;

use super::value::Span;

/// When instances change roles. The first two are keys of `mixed_pool`, the others of `dynamic`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roles {
    /// Most pending prompt tokens of an instance on which prompts wait.
    pub prompt_tokens: Option<u64>,
    /// Share of the KV blocks that may be committed to decodes.
    pub kv_share: Option<f64>,
    /// Prompt tokens waiting or in progress, per prefill instance.
    pub prefill_queue: Option<Marks>,
    /// Share of the KV blocks of decode instances that is committed.
    pub decode_kv: Option<Marks>,
    /// Requests on decode instances, per instance.
    pub decode_sequences: Option<Marks>,
    /// Instances that a role keeps.
    pub at_least: Option<AtLeast>,
    /// How long an instance keeps a role at least.
    pub dwell: Option<Span>,
    /// How long an instance without work needs to take its new role.
    pub switch_time: Option<Span>,
}

/// Marks between which nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Marks {
    /// Below: room to spare.
    pub low: Option<f64>,
    /// Above: pressure.
    pub high: Option<f64>,
}

/// Instances that a role keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AtLeast {
    /// Prefill instances.
    pub prefill: Option<u32>,
    /// Decode instances.
    pub decode: Option<u32>,
}
