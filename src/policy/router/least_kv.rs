//! The instance with the most room for KV caches; looks at every instance.

use super::{ClusterView, RequestView, Router, least};

/// Takes the instance with the smallest share of its KV blocks in use; among equals (all of them, where memory is unlimited) the
/// one with the fewest tokens, then the lowest position.
#[derive(Debug)]
pub(super) struct LeastKv;

impl Router for LeastKv {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        least(view.len(), |i| (view.kv_share(i), view.tokens(i)))
    }
}
