//! The instance with the least prompt work; looks at every instance. It is the "pending tokens" rule of Splitwise (arXiv 2311.18677,
//! section IV-A), which counts what is still to be computed and not what is held in memory.

use super::{ClusterView, RequestView, Router, least};

/// Takes the instance with the fewest tokens of prompts that are not done, plus one per request on it; the lowest position among
/// equals.
#[derive(Debug)]
pub(super) struct LeastPromptTokens;

impl Router for LeastPromptTokens {
    fn route(&mut self, _request: &RequestView, view: &dyn ClusterView) -> usize {
        least(view.len(), |i| view.prompt_tokens(i) + view.requests(i))
    }
}
