//! Peer parity: the published cases of simdistserve, time by time; vLLM as measured.
//!
//! The cases lie outside the repository (`PDSIM_REFERENCE`, default `../shared/reference`); without them the test
//! says SKIPPED. The peer's conventions are expressed with ordinary keys of pdsim: a per-step overhead, a decode
//! context cap, the least-queued router, a large-batch coefficient set, unlimited KV memory and an instant hand-off. Its `output_tokens`
//! do not count the token of the prefill, so this test asks for one more.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panic and say what they skip"
)]

mod cases;
mod small;
mod splitwise;
mod vllm;

use std::path::PathBuf;

/// Largest difference allowed in any TTFT or finish time, in ms.
const TOLERANCE_MS: f64 = 0.001;

/// The reference folder, if it is there.
fn reference() -> Option<PathBuf> {
    let named = std::env::var_os("PDSIM_REFERENCE").map(PathBuf::from);
    let folder = named
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"));
    folder
        .join("simdistserve")
        .is_dir()
        .then(|| folder.join("simdistserve"))
}
