//! Routers: the contract and the registry.

mod least_kv;
mod least_prompt_tokens;
mod least_queued;
mod least_requests;
mod least_tokens;
mod power_of_two;
mod prefix_aware;
mod random;
mod round_robin;

use std::fmt::Debug;

use crate::rng::Rng;

/// Which router a phase uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouterRule {
    /// Each instance in turn.
    RoundRobin,
    /// The fewest tokens: queued prompt tokens plus context tokens of admitted sequences.
    LeastTokens,
    /// Fewest prompt tokens not yet computed, plus one per request.
    LeastPromptTokens,
    /// The fewest requests waiting or in a prefill step (prompts), or waiting for a decode step (decodes).
    LeastQueued,
    /// The fewest requests, running ones included.
    LeastRequests,
    /// The smallest share of KV blocks in use.
    LeastKv,
    /// Any, by chance.
    Random,
    /// The one with fewer requests of two drawn by chance.
    PowerOfTwo,
    /// The fewest tokens to compute: the prompt's uncached ones plus the prompt tokens already there.
    PrefixAware,
}

impl RouterRule {
    /// Makes the router; `rng` is the stream of those that draw. Adding one: a file beside this one, a variant and a line here.
    #[must_use]
    pub fn build(self, rng: Rng) -> Box<dyn Router> {
        match self {
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::LeastPromptTokens => Box::new(least_prompt_tokens::LeastPromptTokens),
            Self::LeastTokens => Box::new(least_tokens::LeastTokens),
            Self::LeastQueued => Box::new(least_queued::LeastQueued),
            Self::LeastRequests => Box::new(least_requests::LeastRequests),
            Self::LeastKv => Box::new(least_kv::LeastKv),
            Self::Random => Box::new(random::Random(rng)),
            Self::PowerOfTwo => Box::new(power_of_two::PowerOfTwo(rng)),
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

    /// Requests on the `i`-th: waiting, in progress, or on their way to it.
    fn requests(&self, i: usize) -> u64;

    /// Share of the `i`-th's KV blocks in use at this instant, in 2⁻³²; 0 where memory is unlimited.
    fn kv_share(&self, i: usize) -> u64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;

    /// Instances by requests and share of KV blocks in use.
    struct Loads(Vec<(u64, u64)>);

    impl ClusterView for Loads {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn queued(&self, i: usize) -> u64 {
            self.0[i].0
        }
        fn least_queued(&self) -> usize {
            least(self.len(), |i| self.queued(i))
        }
        fn tokens(&self, i: usize) -> u64 {
            100 - self.0[i].0
        }
        fn requests(&self, i: usize) -> u64 {
            self.0[i].0
        }
        fn kv_share(&self, i: usize) -> u64 {
            self.0[i].1
        }
        fn prompt_tokens(&self, i: usize) -> u64 {
            self.tokens(i)
        }
        fn cached_tokens(&self, _: usize) -> u64 {
            0
        }
        fn cached_blocks(&self, _: usize) -> u64 {
            0
        }
    }

    const REQUEST: RequestView = RequestView {
        input_tokens: 1,
        max_output: 1,
        class: 0,
    };

    fn chosen(rule: RouterRule, loads: &[(u64, u64)], times: usize) -> Vec<usize> {
        let mut router = rule.build(stream(1, "test"));
        let view = Loads(loads.to_vec());
        (0..times).map(|_| router.route(&REQUEST, &view)).collect()
    }

    #[test]
    fn least_kv_breaks_ties_by_tokens() {
        assert_eq!(
            chosen(RouterRule::LeastKv, &[(1, 9), (2, 5), (3, 7)], 1),
            [1]
        );
        assert_eq!(
            chosen(RouterRule::LeastKv, &[(1, 0), (2, 0), (3, 0)], 1),
            [2]
        );
    }

    #[test]
    fn random_takes_each_about_equally_often() {
        let chosen = chosen(RouterRule::Random, &[(0, 0); 4], 4000);
        for i in 0..4 {
            // 1000 expected, standard deviation 27.
            let count = chosen.iter().filter(|&&c| c == i).count();
            assert!((890..1110).contains(&count), "{i}: {count}");
        }
    }

    #[test]
    fn power_of_two_takes_the_better_of_two_different_ones() {
        let chosen = chosen(RouterRule::PowerOfTwo, &[(5, 0), (2, 0), (9, 0)], 3000);
        let count = |i| chosen.iter().filter(|&&c| c == i).count();
        // The best wins two of the three pairs, the worst none.
        assert_eq!(count(2), 0);
        assert!((1880..2120).contains(&count(1)), "{}", count(1));
        assert_eq!(count(0) + count(1), 3000);
    }

    #[test]
    fn power_of_two_with_one_instance_has_no_choice() {
        assert_eq!(chosen(RouterRule::PowerOfTwo, &[(5, 0)], 3), [0, 0, 0]);
    }
}
