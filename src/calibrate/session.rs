//! A whole calibration: check, measure, keep.

use super::build::{Target, build};
use super::check::{Verdict, check_all, refused};
use super::device::{Device, DeviceError};
use super::measure::{Settings, measure};
use super::samples::{Sample, kernel};
use super::store::{Store, StoreError};
use super::work::{Kind, Work};

/// Why a calibration stopped.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Samples could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The device gave up.
    #[error(
        "{work:?}: {source}; the {measured} points measured before are kept, --resume goes on after this one"
    )]
    Device {
        /// The point it gave up on.
        work: Work,
        /// Why.
        source: DeviceError,
        /// Points measured by then.
        measured: usize,
    },
}

/// Something a watcher may want to hear of.
#[derive(Debug)]
pub enum Event<'a> {
    /// A kernel was held against its reference.
    Checked(&'a Verdict),
    /// A kind gets no samples, since one of its kernels is wrong.
    Refused(Kind),
    /// A point was measured.
    Measured(&'a Sample),
    /// A point was skipped.
    Skipped(&'a Work, &'a DeviceError),
}

/// How far a calibration came.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the checks found.
    pub verdicts: Vec<Verdict>,
    /// Points measured now.
    pub measured: usize,
    /// Points an earlier run had measured or given up.
    pub resumed: usize,
    /// Points that could not be measured now, with the reason.
    pub skipped: Vec<(Work, DeviceError)>,
    /// Points that time did not suffice for.
    pub left: usize,
}

/// How to calibrate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// How long a point is measured.
    pub settings: Settings,
    /// Seconds after which no new point is begun.
    pub time_s: f64,
}

/// Checks every kernel, then measures the plan's points in order until all are done or time is up. `clock` gives seconds
/// since the start.
///
/// # Errors
/// When samples cannot be kept or the device cannot go on.
pub fn run(
    device: &mut dyn Device,
    plan: &[Work],
    store: &mut Store,
    limits: &Limits,
    clock: &dyn Fn() -> f64,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Outcome, SessionError> {
    let target = Target::of(device.facts());
    let verdicts = check_all(device, &target);
    for verdict in &verdicts {
        watch(&Event::Checked(verdict));
    }
    if let Some((work, source)) = fatal(&verdicts) {
        let measured = 0;
        return Err(SessionError::Device {
            work,
            source,
            measured,
        });
    }
    let refused = refused(&verdicts);
    for kind in &refused {
        watch(&Event::Refused(*kind));
    }
    let mut outcome = Outcome {
        verdicts,
        measured: 0,
        resumed: 0,
        skipped: Vec::new(),
        left: 0,
    };
    for work in plan.iter().filter(|w| !refused.contains(&w.kind())) {
        if store.has(work) {
            outcome.resumed += 1;
        } else if clock() >= limits.time_s {
            outcome.left += 1;
        } else {
            point(device, work, store, (&target, limits), &mut outcome, watch)?;
        }
    }
    Ok(outcome)
}

/// The first check after which nothing more can run.
fn fatal(verdicts: &[Verdict]) -> Option<(Work, DeviceError)> {
    verdicts.iter().find_map(|v| match &v.failure {
        Some(e @ DeviceError::Stuck { .. }) => Some((v.work, e.clone())),
        _ => None,
    })
}

fn point(
    device: &mut dyn Device,
    work: &Work,
    store: &mut Store,
    (target, limits): (&Target, &Limits),
    outcome: &mut Outcome,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<(), SessionError> {
    let measured =
        build(work, target).and_then(|program| measure(device, work, &program, &limits.settings));
    match measured {
        Ok(measured) => {
            let kernel = kernel(work, target.library).to_owned();
            let sample = Sample {
                work: *work,
                kernel,
                measured,
            };
            store.append(sample.clone())?;
            outcome.measured += 1;
            watch(&Event::Measured(&sample));
            Ok(())
        }
        Err(source) => {
            // What did not fit may fit when the GPU is free; trying costs nothing.
            if !matches!(source, DeviceError::OutOfMemory { .. }) {
                store.skip(work, &source.to_string())?;
            }
            watch(&Event::Skipped(work, &source));
            if source.goes_on() {
                outcome.skipped.push((*work, source));
                Ok(())
            } else {
                let measured = outcome.measured;
                Err(SessionError::Device {
                    work: *work,
                    source,
                    measured,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
