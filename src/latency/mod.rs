//! Step-time models.
//!
//! A model answers two questions, both pure: how long one step of a given shape takes, and how the time of a
//! decode-only step of `n` sequences depends on their total context. The second answer is a piecewise-linear curve
//! with integer coefficients, from which the engine sums whole runs of decode steps in closed form.

pub mod calibrated;
mod chunks;
pub mod compose;
mod curve;
mod error;
pub mod fixed;
pub mod kernels;
pub mod polynomial;
pub mod profile;
pub mod roofline;
mod shape;
pub mod share;

pub use curve::{DecodeCurve, Segment};
pub use error::LatencyError;
pub use shape::{Chunk, Stage, StepShape};

use std::fmt::Debug;
use std::sync::Arc;

use compose::{Formats, Operator};
use share::Slowdown;

use crate::units::SimDuration;

/// Kernel seconds of a step, over all `pp` stages: inside measured ranges, and all; none for models that are not composed of
/// kernels. The engine's time has a source of its own and does not count.
#[must_use]
pub fn kernel_seconds(
    model: &dyn LatencyModel,
    shape: &StepShape<'_>,
    pp: u32,
) -> Option<(f64, f64)> {
    let (mut measured, mut all) = (0.0, 0.0);
    for index in 0..pp {
        for operator in model.breakdown(shape, Stage { index, of: pp })? {
            if operator.is_engine() {
                continue;
            }
            all += operator.seconds();
            if operator.each.measured {
                measured += operator.seconds();
            }
        }
    }
    Some((measured, all))
}

/// Share of the kernel time of a step, over all `pp` stages, that lies inside measured ranges; none for models that are
/// not composed of kernels and for steps without any.
#[must_use]
pub fn measured_share(model: &dyn LatencyModel, shape: &StepShape<'_>, pp: u32) -> Option<f64> {
    let (measured, all) = kernel_seconds(model, shape, pp)?;
    (all > 0.0).then(|| measured / all)
}

/// Times the steps of one instance (a model on a GPU type at a parallelism).
///
/// Contract: pure; finite; a step without prefill chunks takes exactly `decode_curve(n).at(context)` rounded up to a
/// picosecond; times never decrease when a chunk, a sequence or a context grows.
pub trait LatencyModel: Debug + Send + Sync {
    /// The time `stage` needs for one step of this shape.
    fn step_time(&self, shape: &StepShape<'_>, stage: Stage) -> SimDuration;

    /// The time `stage` needs for a decode-only step of `batch` sequences (at least 1) as a function of their total context.
    fn decode_curve(&self, batch: u32, stage: Stage) -> DecodeCurve;

    /// The number formats the times are of, for models that know them.
    fn formats(&self) -> Option<Formats> {
        None
    }

    /// The kernels of one step on `stage` with their times, for models that are composed of kernels.
    fn breakdown(&self, _shape: &StepShape<'_>, _stage: Stage) -> Option<Vec<Operator>> {
        None
    }

    /// The same on part of the SMs, for models that know which kernels that slows down; [`share::slowed`] scales the steps of others.
    fn on_shared_gpu(&self, _slowdown: Slowdown) -> Option<Arc<dyn LatencyModel>> {
        None
    }
}
