//! Scenarios: strict YAML in, validated and resolved experiments out.
mod document;
mod problem;
mod schema;
pub use document::Document;
pub use problem::{Error, Problem, did_you_mean};
