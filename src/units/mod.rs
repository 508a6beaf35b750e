//! Physical quantities: the integer clock and the newtypes of the API boundaries.
//!
//! Time is `u64` picoseconds (213 days of range), so equality is exact and a sum does not depend on
//! its path. Inside a run of decode steps the engine sums [`Fine`] durations, 2⁻¹⁶ ps, so that thousands of
//! steps do not gather rounding. Floating point lives in the latency and network models only and enters the
//! clock through one fallible constructor that rounds up.

mod fine;
pub mod parse;
mod time;

pub use fine::{FINE_BITS, Fine, FineSum};
pub use time::{PS_PER_S, SimDuration, SimTime, UnitError};
