//! Keys of two streams that share a GPU.

use serde::Deserialize;

/// How prompts and decodes share the GPUs of a multiplexed system.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Multiplex {
    /// Share of the SMs of the prefill stream while both run; decodes have the rest.
    pub prefill_share: Option<f64>,
    /// The SMs of a stream without work.
    pub idle_sms: Option<IdleSms>,
    /// Factor on all kernels while both streams run.
    pub contention: Option<f64>,
    /// Share of the SMs beyond which computing gets no faster.
    pub compute_saturation: Option<f64>,
    /// Share of the SMs that saturates the memory bandwidth.
    pub bandwidth_saturation: Option<f64>,
}

/// What becomes of the SMs of a stream without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleSms {
    /// The other stream gets them.
    Lent,
    /// Nobody uses them.
    Kept,
}
