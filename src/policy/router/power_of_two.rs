//! The better of two: most of what looking at every instance buys, for two looks.

use rand::RngExt;

use super::{ClusterView, RequestView, Router};
use crate::rng::Rng;

/// Draws two different instances and takes the one with fewer requests, the lower position among equals (Mitzenmacher, "The
/// power of two choices in randomized load balancing", IEEE TPDS 12(10), 2001).
#[derive(Debug)]
pub(super) struct PowerOfTwo(pub(super) Rng);

impl Router for PowerOfTwo {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        let len = view.len();
        if len == 1 {
            return 0;
        }
        let one = self.0.random_range(0..len);
        // The other is drawn from the rest, so that two looks are never the same one.
        let step = self.0.random_range(1..len);
        let other = (one + step) % len;
        let load = |i: usize| (view.requests(i), i);
        if load(one) < load(other) { one } else { other }
    }
}
