//! `pdsim calibrate`: measure a GPU of this machine.

#[cfg(feature = "cuda")]
mod finish;
#[cfg(feature = "cuda")]
mod fit;
#[cfg(feature = "cuda")]
mod measure;

use std::path::PathBuf;

use super::Outcome;
#[cfg(not(feature = "cuda"))]
use super::exit::Failure;

/// What to measure, and where to keep it.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
#[cfg_attr(
    not(feature = "cuda"),
    expect(dead_code, reason = "read by the CUDA build only")
)]
pub(super) struct CalibrateArgs {
    /// Index of the GPU, as --list shows it
    #[arg(long, value_name = "INDEX", default_value_t = 0)]
    gpu: usize,
    /// List the GPUs of this machine, measure nothing
    #[arg(long)]
    list: bool,
    /// Measure fewer points: at most 2 minutes instead of at most 15
    #[arg(long)]
    quick: bool,
    /// Only these formats of matrix products and KV cache, separated by commas [default: all the GPU has]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ["bf16", "fp16", "fp8"])]
    dtype: Vec<String>,
    /// Name of the profile [default: by the GPU's name]
    #[arg(long)]
    name: Option<String>,
    /// Folder for samples and profile [default: profiles/gpus/<name>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the samples that an interrupted run left
    #[arg(long)]
    resume: bool,
    /// Leave the machine's other GPUs alone: no copies between GPUs, no all-reduce
    #[arg(long)]
    no_peers: bool,
    /// Print results only: no progress, no notes
    #[arg(long, short)]
    quiet: bool,
}

/// Measures a GPU, or lists them.
#[cfg(feature = "cuda")]
pub(super) fn calibrate(args: &CalibrateArgs) -> Outcome {
    measure::calibrate(args)
}

/// Says that this build cannot.
#[cfg(not(feature = "cuda"))]
pub(super) fn calibrate(_: &CalibrateArgs) -> Outcome {
    Err(Failure::NoGpu(
        "this pdsim was built without CUDA; build it with the feature `cuda`".to_owned(),
    ))
}
