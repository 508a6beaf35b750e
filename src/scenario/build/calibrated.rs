//! Step times from the kernel timings of GPU profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Role;
use crate::hardware::{self, ProfileFile};
use crate::latency::calibrated::{Calibrated, calibrated};
use crate::latency::compose::Overhead;
use crate::latency::share::{SmSplit, Streams};
use crate::latency::{Chunk, LatencyError, LatencyModel, StepShape, measured_share};
use crate::model::ModelSpec;
use crate::scenario::schema::{CalibratedLatency, Pool};

use super::Builder;
use super::latency::Model;
use super::pool::{Machine, PoolContext};

/// Steps whose share of measured time the resolved scenario states.
const TYPICAL_PROMPT: u32 = 1024;
const TYPICAL_BATCH: u32 = 32;
const TYPICAL_CONTEXT: u32 = 1024;

/// Models by all they depend on: the points of a sweep mostly ask for the same few, and each tabulates thousands of
/// step sizes.
#[derive(Default)]
pub(in crate::scenario) struct ModelCache {
    calibrated: BTreeMap<String, Model>,
    /// Those made for two streams, by the model of the whole GPU and the split.
    pub(super) streams: Vec<(Model, SmSplit, Streams)>,
}

impl Builder<'_> {
    /// Kernel timings of the pool's GPU, or of the one its profile borrows from.
    pub(super) fn calibrated(
        &mut self,
        context: &PoolContext<'_>,
        (path, pool_path): (&str, &str),
        pool: &Pool,
        terms: &CalibratedLatency,
        machine: Machine<'_>,
        published: bool,
    ) -> Option<Model> {
        let skew = terms.expert_skew.unwrap_or(0.0);
        // The steepest routing that anybody timed; steeper ones would be guesses.
        let good = (0.0..=1.2).contains(&skew);
        self.require(good, &format!("{path}.calibrated.expert_skew"), || {
            format!("is {skew}, expected 0 (even) to 1.2 (the steepest power law measured)")
        })
        .then_some(())?;
        let profile = hardware::profile(&pool.gpu)
            .map_err(|error| self.wrong(&format!("{pool_path}.gpu"), error.to_string()))
            .ok()?;
        let has_surfaces = profile.surfaces.is_some() || profile.surfaces_from.is_some();
        self.require(has_surfaces, path, || {
            format!(
                "the profile of {} has no kernel timings, its own or borrowed; use `roofline`, or measure the GPU with `pdsim calibrate`",
                profile.name
            )
        })
        .then_some(())?;
        self.fact(pool_path, told(&profile, published));
        let overhead = self.overhead(
            context,
            pool_path,
            terms.step_overhead,
            terms.step_overhead_per_sequence,
        );
        let model = context
            .system
            .model
            .as_ref()
            .or(self.scenario.model.as_ref());
        let key = format!(
            "{:?}",
            (
                model,
                &pool.gpu,
                machine.parallelism,
                machine.formats,
                overhead,
                skew
            )
        );
        if let Some(model) = self.models.calibrated.get(&key) {
            return Some(Arc::clone(model));
        }
        match make(context.model, &profile, &pool.gpu, machine, skew, overhead) {
            Ok(model) => {
                self.models.calibrated.insert(key, Arc::clone(&model));
                Some(model)
            }
            Err(error) => {
                self.wrong(path, error.to_string());
                None
            }
        }
    }

    /// States how much of the time of typical steps comes from inside the measured ranges.
    pub(super) fn measured_fact(
        &mut self,
        path: &str,
        role: Role,
        pp: u32,
        model: &dyn LatencyModel,
    ) {
        let prompt = [Chunk {
            new: TYPICAL_PROMPT,
            past: 0,
            last: true,
        }];
        let prefill = StepShape {
            chunks: &prompt,
            decodes: 0,
            context: 0,
        };
        let decode = StepShape {
            chunks: &[],
            decodes: TYPICAL_BATCH,
            context: u64::from(TYPICAL_BATCH) * u64::from(TYPICAL_CONTEXT),
        };
        let mut least = 1.0f64;
        let mut share = |shape| {
            let share = measured_share(model, shape, pp)?;
            least = least.min(share);
            Some((share * 100.0).round())
        };
        let mut steps = Vec::new();
        if role != Role::Decode {
            steps.extend(share(&prefill).map(|share| {
                format!("{share} % of the time of a prompt of {TYPICAL_PROMPT} tokens")
            }));
        }
        if role != Role::Prefill {
            steps.extend(share(&decode).map(|share| {
                format!(
                    "{share} % of that of {TYPICAL_BATCH} decodes of {TYPICAL_CONTEXT} tokens each"
                )
            }));
        }
        if !steps.is_empty() {
            self.measured.push((path.to_owned(), least));
            self.fact(
                path,
                format!("inside measured ranges: {}", steps.join(", ")),
            );
        }
    }
}

fn make(
    model: &ModelSpec,
    profile: &ProfileFile,
    gpu: &str,
    machine: Machine<'_>,
    skew: f64,
    overhead: Overhead,
) -> Result<Model, LatencyError> {
    let kernels = Calibrated::new(profile, gpu)?.with_skew(skew);
    let made = calibrated(
        model,
        kernels,
        machine.parallelism,
        machine.formats,
        overhead,
    )?;
    Ok(Arc::new(made))
}

/// Which timings, and why they were taken.
fn told(profile: &ProfileFile, published: bool) -> String {
    let borrowed = profile
        .surfaces_from
        .as_ref()
        .filter(|_| profile.surfaces.is_none())
        .map_or_else(String::new, |from| {
            format!(", kernel timings borrowed from {from} and scaled by the data sheets")
        });
    let why = if published {
        "as the scenario says; published coefficients exist"
    } else {
        "no published coefficients for this pool"
    };
    format!(
        "calibrated step times ({} profile of {}{borrowed}; {why})",
        profile.provenance.name(),
        profile.name
    )
}
