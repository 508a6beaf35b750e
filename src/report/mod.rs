//! Consumers of results: files, charts and the terminal.
//!
//! The caller fills a [`Report`] with the runs of an experiment; everything here only reads it. Files are written
//! beside their final name and renamed when complete, so nothing half-written is ever left under it.

mod input;

pub use input::{Axis, AxisValue, Report, Run, SystemInfo};
