//! The instance that will have the prompt done soonest, as far as tokens tell: those it must still compute.

use super::{ClusterView, RequestView, Router, least};

/// What load counts against the tokens that a cached prefix saves, in thousandths of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoadPenalty {
    /// For each prompt token queued or in progress on the instance.
    pub prompt_milli: u32,
    /// For each context token of a sequence that decodes there.
    pub context_milli: u32,
}

impl Default for LoadPenalty {
    /// The prompt tokens in front, one by one: what is to be computed before this prompt is done.
    fn default() -> Self {
        Self {
            prompt_milli: 1000,
            context_milli: 0,
        }
    }
}

/// Takes the instance with the fewest tokens to compute: the prompt's own that are not in its prefix cache, plus those that
/// are there already, weighted. Looks at every instance.
///
/// Without the penalty one popular prefix would draw all requests to one instance. Among equals the instance with the
/// fewest cached blocks is taken, so that prefixes nobody has yet spread over the instances.
#[derive(Debug)]
pub(super) struct PrefixAware(pub(super) LoadPenalty);

impl Router for PrefixAware {
    fn route(&mut self, request: &RequestView, view: &dyn ClusterView) -> usize {
        let input = u64::from(request.input_tokens);
        least(view.len(), |i| {
            let own = (input - view.cached_tokens(i)).saturating_mul(1000);
            let prompts = view.prompt_tokens(i);
            let waiting = prompts.saturating_mul(u64::from(self.0.prompt_milli));
            let decoding = match self.0.context_milli {
                0 => 0,
                milli => (view.tokens(i) - prompts).saturating_mul(u64::from(milli)),
            };
            let tokens = own.saturating_add(waiting).saturating_add(decoding);
            (tokens, view.cached_blocks(i))
        })
    }
}
