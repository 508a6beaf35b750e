//! GPU and link facts.
//!
//! Facts come from `profiles/gpus/<name>/profile.yaml`; the shipped ones are embedded in the binary. A profile file
//! also holds fitted timing surfaces, which this module carries along unread: they belong to [`crate::latency`].

mod error;
mod file;
mod gpu;
mod link;
mod registry;

pub use error::HardwareError;
pub use file::{FORMAT, HardwareSection, PeakSection, ProfileFile, Provenance};
pub use gpu::{GpuSpec, Peaks, Precision};
pub use link::{Link, LinkKind};
pub use registry::{gpu, gpu_names, has_surfaces, load, profile};
