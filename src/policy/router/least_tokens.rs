//! The instance with the fewest tokens.

use super::{ClusterView, RequestView, Router};

/// Takes the instance with the fewest tokens queued and in context, the lowest position among equals.
#[derive(Debug)]
pub(super) struct LeastTokens;

impl Router for LeastTokens {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        view.least_tokens()
    }
}
