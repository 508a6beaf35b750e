//! Scenarios: strict YAML in, validated and resolved experiments out.
//!
//! A scenario goes through four steps. [`Document`] holds the file's tree and applies overrides (`--set`, sweep
//! values) to it. `schema` types the tree and refuses what it does not know. `defaults` fills in every key that was
//! left out, in the tree, so that the resolved scenario can state it. `build` turns names into GPUs, models, step-time
//! models and workloads, checks what types cannot, and collects every problem. The outcome is an [`Experiment`].
//!
//! Nothing is simulated and nothing is printed here.

mod axis;
mod build;
mod defaults;
mod document;
mod engine;
mod experiment;
mod load;
mod problem;
mod resolved;
pub mod schema;
mod warning;

pub use document::Document;
pub use experiment::{Axis, Experiment, OutputChoice, Point};
pub use load::{load, resolve};
pub use problem::{Error, Problem};
pub use warning::{StepTimes, Warning};
