//! `calibration.yaml`: under what circumstances the samples were measured.

use serde::{Deserialize, Serialize};

use super::device::GpuFacts;
use super::session::Outcome;
use super::smi::Conditions;

/// The circumstances of one calibration run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of pdsim.
    pub pdsim: String,
    /// Name of the GPU as its driver gives it.
    pub gpu: String,
    /// Compute capability, as in `9.0`.
    pub compute_capability: String,
    /// CUDA version the driver supports, as in `12.8`.
    pub driver_cuda: String,
    /// Device memory in MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Level-2 cache in KiB.
    pub l2_kib: u64,
    /// Whose matrix products: `cublaslt` or `pdsim`.
    pub matrix_products: String,
    /// GPUs measured together.
    pub gpus: u32,
    /// `quick` or `full`.
    pub plan: String,
    /// Seconds it took.
    pub seconds: f64,
    /// Points measured in this run.
    pub points_measured: usize,
    /// Points taken over from earlier runs.
    pub points_resumed: usize,
    /// Points that could not be measured.
    pub points_skipped: usize,
    /// Points left for lack of time.
    pub points_left: usize,
    /// Largest relative error of each kernel against its CPU reference.
    pub checks: Vec<CheckLine>,
    /// State of the GPU at the start.
    pub at_start: Conditions,
    /// And at the end.
    pub at_end: Conditions,
}

/// The checks of one kind of kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckLine {
    /// The kind, as its samples file.
    pub kind: String,
    /// Cases run.
    pub cases: usize,
    /// Cases that were wrong.
    pub wrong: usize,
    /// Largest relative error of those that ran.
    pub largest_error: f64,
}

/// A CUDA version of 1000 · major + 10 · minor as text.
#[must_use]
pub fn cuda_version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

impl Record {
    /// Draws up the record of a run.
    #[must_use]
    pub fn new(
        facts: &GpuFacts,
        outcome: &Outcome,
        quick: bool,
        seconds: f64,
        (at_start, at_end): (Conditions, Conditions),
    ) -> Self {
        Self {
            pdsim: env!("CARGO_PKG_VERSION").to_owned(),
            gpu: facts.name.clone(),
            compute_capability: format!("{}.{}", facts.capability.0, facts.capability.1),
            driver_cuda: cuda_version(facts.driver_cuda),
            memory_mib: facts.memory_bytes >> 20,
            multiprocessors: facts.multiprocessors,
            l2_kib: facts.l2_bytes >> 10,
            matrix_products: if facts.library { "cublaslt" } else { "pdsim" }.to_owned(),
            gpus: facts.gpus,
            plan: if quick { "quick" } else { "full" }.to_owned(),
            seconds: (seconds * 10.0).round() / 10.0,
            points_measured: outcome.measured,
            points_resumed: outcome.resumed,
            points_skipped: outcome.skipped.len(),
            points_left: outcome.left,
            checks: checks(outcome),
            at_start,
            at_end,
        }
    }
}

fn checks(outcome: &Outcome) -> Vec<CheckLine> {
    let mut lines: Vec<CheckLine> = Vec::new();
    for verdict in &outcome.verdicts {
        let kind = verdict.work.kind().name();
        let place = lines
            .iter()
            .position(|l| l.kind == kind)
            .unwrap_or_else(|| {
                lines.push(CheckLine {
                    kind: kind.to_owned(),
                    cases: 0,
                    wrong: 0,
                    largest_error: 0.0,
                });
                lines.len() - 1
            });
        let line = &mut lines[place];
        line.cases += 1;
        line.wrong += usize::from(!verdict.right());
        // `max` passes over the NaN of a case that did not run.
        line.largest_error = line.largest_error.max(verdict.relative_error);
    }
    lines
}
