//! Runs the CUDA kernels on the CPU, under an emulator, against their references.
//!
//! The emulator is C++; without a C++ compiler the tests skip visibly.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panic and say what they skip"
)]

mod compiler;
mod emulator;
mod results;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod whole;
