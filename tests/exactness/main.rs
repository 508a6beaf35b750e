//! Exactness: evaluating decode runs in closed form gives what stepping every token gives, bit for bit (law L8).
//!
//! The stepping twin (`fast_forward: false`) is the oracle. Scenarios are random but fixed by their seed; a failure
//! names the seed and prints the smallest set of requests that still fails.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod bytes;
mod errors;
#[path = "../common/facts.rs"]
mod facts;
#[path = "../common/model.rs"]
mod model;
mod modes;
#[path = "../common/pick.rs"]
mod pick;
#[path = "../common/scenario.rs"]
mod scenario;
#[path = "../common/shrink.rs"]
mod shrink;
mod streams;
