//! GPU profiles: timing surfaces fitted to kernel timings.
//!
//! A surface is a grid of times over a few logarithmic axes, read by multilinear interpolation of ln(time). Because
//! roofline times are log-convex, an interpolant of knots above the roofline stays above it, and because each edge of
//! the grid is monotone, so is everything between. Beyond the grid the time of the nearest point is scaled by
//! the growth of the work. [`fit`] makes surfaces from samples, [`check`] holds them against samples.

mod check;
mod coverage;
mod error;
mod fit;
mod grid;
mod guide;
mod layout;
mod load;
pub mod samples;
mod section;
mod shapes;
mod solver;
mod unaligned;
mod write;

pub use check::{Checked, as_timed, check, predict};
pub use coverage::Coverage;
pub use error::ProfileError;
pub use fit::{FitReport, fit};
pub use grid::{Axis, Grid};
pub use samples::{Sample, Samples, read as read_samples};
pub use section::{ErrorFigures, Surface, SurfaceError, Surfaces, parse};
pub use shapes::{
    CopyPath, Launch, Point, SurfaceKind, collective_point, decode_point, dispatch_point,
    experts_point, gemm_point, latent_point, prefill_point, roofline_seconds, routing_seconds,
};
pub use unaligned::Unaligned;
pub use write::profile_yaml;
