//! The instance with the fewest requests; looks at every instance.

use super::{ClusterView, RequestView, Router, least};

/// Takes the instance with the fewest requests on it, running ones included, the lowest position among equals: join the
/// shortest queue.
#[derive(Debug)]
pub(super) struct LeastRequests;

impl Router for LeastRequests {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        least(view.len(), |i| view.requests(i))
    }
}
