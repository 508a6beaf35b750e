//! What can go wrong when a step-time model is made.

use super::profile::ProfileError;
use crate::hardware::HardwareError;
use crate::model::ModelError;

/// Says why there is no step-time model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LatencyError {
    /// The model cannot be cut that way.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A surface is broken.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A profile cannot be found.
    #[error(transparent)]
    Hardware(#[from] HardwareError),
    /// An efficiency is impossible.
    #[error("efficiency {key}: {value} is not allowed; it must be {allowed}")]
    BadEfficiency {
        /// Which.
        key: &'static str,
        /// The value seen.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A share of the SMs, or a factor that goes with it, is impossible.
    #[error("{key}: {value} is not allowed; it must be {allowed}")]
    BadShare {
        /// Which.
        key: &'static str,
        /// The value seen.
        value: f64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The GPU does not compute in that format.
    #[error("{gpu} has no {precision} peak, which {format} weights need; allowed: {known}")]
    NoPeak {
        /// The GPU.
        gpu: String,
        /// The weight format.
        format: &'static str,
        /// The missing precision.
        precision: &'static str,
        /// Formats it computes in.
        known: String,
    },
}
