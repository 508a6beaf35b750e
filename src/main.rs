//! The `pdsim` binary.

fn main() {}
