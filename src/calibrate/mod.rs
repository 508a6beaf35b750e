//! Measures the kernel times of a real GPU.
//!
//! A [`plan`] lists the points to measure. Each point ([`Work`]) becomes a [`Program`]: buffers, what fills them, and
//! rounds of launches, all worked out here, so that a [`Device`] has only to allocate, launch and time. Before anything
//! is timed every kernel runs on small inputs and is held against a CPU reference ([`check`]); a kernel that is wrong
//! gives no samples. [`session`] then measures point by point until each median is stable and appends a row per point
//! to the samples ([`store`]), so that an interrupted run goes on where it stopped.
//!
//! ```text
//! plan ── Work ── program ── Device ── measure ── store ── samples/*.csv
//!                   │          ├ cuda   a real GPU; CUDA is loaded at run time
//!                   └ launch   └ fake   known parameters, for tests
//! ```
//!
//! Not measured: latent attention, fused experts, sliding windows, and whatever an engine adds between kernels.

pub mod build;
pub mod check;
#[cfg(feature = "cuda")]
pub mod cuda;
mod device;
pub mod fake;
mod float;
pub mod kernels;
pub mod launch;
mod measure;
pub mod name;
pub mod plan;
mod program;
pub mod record;
mod reference;
pub mod samples;
pub mod session;
pub mod smi;
pub mod store;
pub mod summary;
pub mod surfaces;
mod work;

pub use device::{Device, DeviceError, GpuFacts};
pub use float::{bf16_from_f32, bf16_to_f32, e4m3_to_f32};
pub use measure::{Measured, Settings, measure};
pub use program::{Buffer, Fill, MatrixProduct, Mode, Place, Program, Round, Step};
pub use work::{
    Collective, Copy, CopyKind, Decode, Elementwise, ElementwiseOp, Gemm, GemmDtype, Kind,
    LaunchKind, Prefill, Work,
};
