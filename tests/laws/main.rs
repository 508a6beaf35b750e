//! The laws of the simulator, checked on random scenarios. Tests are named after the law they hold.
//!
//! L1 every request ends once. L2 the clock never goes back. L3 phases in order. L4 KV blocks balance. L5 transfers
//! balance. L6 no idle instance with runnable work. L7 determinism. L8 is `tests/exactness`. L9 policies do not see output
//! lengths. L10 time scales. L11 labels are labels. L12 a free hand-off is none. L13 Little's law.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod blind;
mod books;
mod closed_loop;
mod conservation;
mod determinism;
#[path = "../common/facts.rs"]
mod facts;
mod handoff;
mod idle;
mod labels;
mod little;
#[path = "../common/model.rs"]
mod model;
mod nixl;
#[path = "../common/pick.rs"]
mod pick;
mod prefixes;
mod queues;
mod scaling;
#[path = "../common/scenario.rs"]
mod scenario;
mod streams;
mod transfers;
