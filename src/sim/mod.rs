//! The discrete-event core: clock, event queue, loop.

mod observer;

pub use observer::{Gaps, Observer, PoolSample, StepFact};
