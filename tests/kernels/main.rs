//! Runs the CUDA kernels on the CPU, under an emulator, against their references.
//!
//! The emulator is C++; without a C++ compiler the tests skip visibly.

mod emulator;
mod results;
