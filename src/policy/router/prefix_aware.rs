//! The instance that will have the prompt done soonest, as far as tokens tell: those it must still compute.

use super::{ClusterView, RequestView, Router, least};

/// Takes the instance with the fewest tokens to compute: the prompt's own that are not in its prefix cache, plus the prompt
/// tokens already there. Looks at every instance.
///
/// Without the second term one popular prefix would draw all requests to one instance. Among equals the instance with the
/// fewest cached blocks is taken, so that prefixes nobody has yet spread over the instances.
#[derive(Debug)]
pub(super) struct PrefixAware;

impl Router for PrefixAware {
    fn route(&mut self, request: &RequestView, view: &dyn ClusterView) -> usize {
        let input = u64::from(request.input_tokens);
        least(view.len(), |i| {
            let tokens = input - view.cached_tokens(i) + view.prompt_tokens(i);
            (tokens, view.cached_blocks(i))
        })
    }
}
