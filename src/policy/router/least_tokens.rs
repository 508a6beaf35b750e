//! The instance with the fewest tokens; looks at every instance.

use super::{ClusterView, RequestView, Router, least};

/// Takes the instance with the fewest tokens queued and in context, the lowest position among equals.
#[derive(Debug)]
pub(super) struct LeastTokens;

impl Router for LeastTokens {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        least(view.len(), |i| view.tokens(i))
    }
}
