//! Each instance in turn.

use super::{ClusterView, RequestView, Router};

/// Counts requests and takes the count modulo the instances.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    next: usize,
}

impl Router for RoundRobin {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        let chosen = self.next % view.len();
        self.next = chosen + 1;
        chosen
    }
}
