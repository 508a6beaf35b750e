//! A real GPU, through the driver, NVRTC and cuBLASLt, all loaded at run time.
//!
//! cudarc panics when a library or a symbol is missing, and a release build aborts on a panic. So `libraries` looks
//! for every library and every symbol used here before the first call into it.

mod compile;
mod device;
mod driver;
mod gpu;
mod libraries;
mod library;

pub use compile::{CompileError, Compiled, assembly, compile, supported_architectures};
pub use device::Cuda;
pub use gpu::{Listed, list};
pub use libraries::{Missing, probe_compiler, probe_driver};
