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
mod session_affinity;

use std::fmt::Debug;

use crate::ids::InstanceId;
use crate::rng::Rng;

pub use prefix_aware::LoadPenalty;

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
    /// The fewest tokens to compute: the prompt's uncached ones plus those already there, weighted.
    PrefixAware(LoadPenalty),
    /// The one that served the session before.
    SessionAffinity {
        /// Where the first request of a session goes, and those for whom the session's instance has too many requests.
        fallback: &'static Self,
        /// How many requests the session's instance may have more than the one with the fewest; `None`: any number.
        most_above_least: Option<u32>,
    },
}

impl RouterRule {
    /// Whether it asks what prefix caches hold.
    #[must_use]
    pub fn looks_into_caches(self) -> bool {
        match self {
            Self::PrefixAware(_) => true,
            Self::SessionAffinity { fallback, .. } => fallback.looks_into_caches(),
            _ => false,
        }
    }

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
            Self::PrefixAware(penalty) => Box::new(prefix_aware::PrefixAware(penalty)),
            Self::SessionAffinity {
                fallback,
                most_above_least,
            } => Box::new(session_affinity::SessionAffinity::new(
                fallback.build(rng),
                most_above_least,
            )),
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
    /// A number that the requests of one session share; 0 for none.
    pub session: u64,
}

/// The instances a request may go to, as they are at this instant, by position.
pub trait ClusterView {
    /// How many there are, at least 1.
    fn len(&self) -> usize;

    /// Whether there are none; a phase always has an instance.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The instance at position `i`.
    fn id(&self, i: usize) -> InstanceId;

    /// The position of an instance, if requests may go to it at present.
    fn position(&self, id: InstanceId) -> Option<usize>;

    /// Requests waiting on the `i`-th: queued or computing prompts where prompts are routed, sequences waiting for a
    /// decode step where decodes are.
    fn queued(&self, i: usize) -> u64;

    /// The position with the smallest [`ClusterView::queued`], the lowest among equals, without looking at each.
    fn least_queued(&self) -> usize;

    /// Tokens on the `i`-th: prompt tokens queued or in progress plus context tokens of its sequences, runs of
    /// decode steps advanced to this instant.
    fn tokens(&self, i: usize) -> u64;

    /// The position with the smallest [`ClusterView::tokens`], the lowest among equals.
    fn least_tokens(&self) -> usize {
        least(self.len(), |i| self.tokens(i))
    }

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

/// The same, where a lower bound of each load costs little and the load itself much: it is asked only of those that may be the least.
#[must_use]
pub fn least_bounded<L: Ord + Copy>(
    len: usize,
    at_least: impl Fn(usize) -> L,
    load: impl Fn(usize) -> L,
) -> usize {
    let first = least(len, &at_least);
    let mut lowest = (load(first), first);
    for i in 0..len {
        if i != first && (at_least(i), i) < lowest {
            lowest = lowest.min((load(i), i));
        }
    }
    lowest.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::stream;
    use proptest::prelude::{prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn bounds_do_not_change_which_is_least(loads in proptest::collection::vec((0u64..6, 0u64..4), 1..9)) {
            // Half of the bounds are met, and there are many ties.
            let load = |i: usize| loads[i].0 + loads[i].1.saturating_sub(1);
            let chosen = least_bounded(loads.len(), |i| loads[i].0, load);
            prop_assert_eq!(chosen, least(loads.len(), load));
        }
    }

    /// Instances by requests and share of KV blocks in use.
    struct Loads(Vec<(u64, u64)>);

    impl ClusterView for Loads {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn id(&self, i: usize) -> InstanceId {
            InstanceId::new(i + 7)
        }
        fn position(&self, id: InstanceId) -> Option<usize> {
            (0..self.len()).find(|&i| self.id(i) == id)
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
        session: 0,
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

    #[test]
    fn a_session_stays_where_it_was_until_that_instance_has_too_many_requests() {
        let rule = RouterRule::SessionAffinity {
            fallback: &RouterRule::LeastRequests,
            most_above_least: Some(3),
        };
        let mut router = rule.build(stream(1, "test"));
        let mut route = |session, loads: &[(u64, u64)]| {
            let request = RequestView { session, ..REQUEST };
            router.route(&request, &Loads(loads.to_vec()))
        };
        assert_eq!(route(9, &[(5, 0), (2, 0), (4, 0)]), 1, "the fallback's");
        assert_eq!(route(9, &[(2, 0), (5, 0), (4, 0)]), 1, "3 above the fewest");
        assert_eq!(route(8, &[(2, 0), (5, 0), (4, 0)]), 0, "another session");
        assert_eq!(route(9, &[(2, 0), (6, 0), (1, 0)]), 2, "5 above the fewest");
        assert_eq!(route(9, &[(0, 0), (0, 0), (2, 0)]), 2, "it has moved");
        assert_eq!(route(0, &[(1, 0), (0, 0), (0, 0)]), 1, "no session");
        assert_eq!(route(9, &[(0, 0), (0, 0)]), 0, "its instance is away");
    }

    #[test]
    fn the_load_penalty_weighs_prompts_and_contexts() {
        // `tokens` and `prompt_tokens` of these instances are 100 minus the first number.
        let rule = |prompt_milli, context_milli| {
            RouterRule::PrefixAware(LoadPenalty {
                prompt_milli,
                context_milli,
            })
        };
        assert_eq!(chosen(rule(1000, 0), &[(1, 0), (2, 0)], 1), [1]);
        assert_eq!(chosen(rule(0, 0), &[(1, 0), (2, 0)], 1), [0]);
        assert!(rule(0, 0).looks_into_caches());
    }
}
