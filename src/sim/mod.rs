//! The discrete-event core: clock, calendar, loop.

mod calendar;
mod run;

pub use crate::cluster::{Gaps, Observer, PoolSample, StepFact};
pub use calendar::Calendar;
pub use run::{Error, Options, simulate, simulate_from};
