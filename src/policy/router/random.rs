//! Any instance, by chance.

use rand::RngExt;

use super::{ClusterView, RequestView, Router};
use crate::rng::Rng;

/// Takes each instance with equal chance.
#[derive(Debug)]
pub(super) struct Random(pub(super) Rng);

impl Router for Random {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        self.0.random_range(0..view.len())
    }
}
