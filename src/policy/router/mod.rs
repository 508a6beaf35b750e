//! Routers: the contract and the registry.

mod least_queued;
mod least_tokens;
mod prefix_aware;
mod round_robin;

use std::fmt::Debug;

/// Which router a phase uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouterRule {
    /// Each instance in turn.
    RoundRobin,
    /// The fewest tokens: queued prompt tokens plus context tokens of admitted sequences.
    LeastTokens,
    /// The fewest requests waiting or in a prefill step (prompts), or waiting for a decode step (decodes).
    LeastQueued,
    /// The fewest tokens to compute: the prompt's uncached ones plus the prompt tokens already there.
    PrefixAware,
}

impl RouterRule {
    /// Makes the router. Adding one: a file beside this one, a variant and a line here.
    #[must_use]
    pub fn build(self) -> Box<dyn Router> {
        match self {
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::LeastTokens => Box::new(least_tokens::LeastTokens),
            Self::LeastQueued => Box::new(least_queued::LeastQueued),
            Self::PrefixAware => Box::new(prefix_aware::PrefixAware),
        }
    }
}

/// A request as a router sees it; the true output length is not in it (law L9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestView {
    /// Prompt tokens.
    pub input_tokens: u32,
    /// The client's limit on output tokens.
    pub max_output: u32,
    /// Request class.
    pub class: u16,
}

/// The instances a request may go to, as they are at this instant, by position.
pub trait ClusterView {
    /// How many there are, at least 1.
    fn len(&self) -> usize;

    /// Whether there are none; a phase always has an instance.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests waiting on the `i`-th: queued or computing prompts where prompts are routed, sequences waiting for a
    /// decode step where decodes are.
    fn queued(&self, i: usize) -> u64;

    /// The position with the smallest [`ClusterView::queued`], the lowest among equals, without looking at each.
    fn least_queued(&self) -> usize;

    /// Tokens on the `i`-th: prompt tokens queued or in progress plus context tokens of its sequences, runs of
    /// decode steps advanced to this instant.
    fn tokens(&self, i: usize) -> u64;

    /// Prompt tokens queued or in progress on the `i`-th, and tokens of sequences that wait for their first decode step.
    fn prompt_tokens(&self, i: usize) -> u64;

    /// Tokens of the request's prompt in the prefix cache of the `i`-th.
    fn cached_tokens(&self, i: usize) -> u64;

    /// Prompt blocks in the prefix cache of the `i`-th.
    fn cached_blocks(&self, i: usize) -> u64;
}

/// Chooses an instance for a request, once for its prompt and, when the KV cache travels, once for its decode.
pub trait Router: Debug + Send {
    /// The position of the chosen instance.
    fn route(&mut self, request: &RequestView, view: &dyn ClusterView) -> usize;
}

/// The position with the smallest load; the lowest position among equals.
#[must_use]
pub fn least<L: Ord>(len: usize, load: impl Fn(usize) -> L) -> usize {
    (0..len).min_by_key(|&i| load(i)).unwrap_or(0)
}
