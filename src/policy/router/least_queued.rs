//! The instance with the shortest queue.

use super::{ClusterView, RequestView, Router};

/// Takes the instance with the fewest waiting requests, the lowest position among equals; sequences in the running decode batch
/// do not count (DistServe's rule).
#[derive(Debug)]
pub(super) struct LeastQueued;

impl Router for LeastQueued {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        view.least_queued()
    }
}
