//! Routers, and whether the workload has what they look for.

use crate::cluster::{Role, SystemSpec};
use crate::names::did_you_mean;
use crate::policy::router::{LoadPenalty, RouterRule};
use crate::scenario::schema::{Affinity, Penalty, RouterKind, System, WordOr};
use crate::workload::{RequestSpec, Workload};

use super::Builder;

/// Router rules without figures of their own, by the word in a scenario.
static PLAIN: [(&str, RouterRule); 8] = [
    ("round_robin", RouterRule::RoundRobin),
    ("least_tokens", RouterRule::LeastTokens),
    ("least_queued", RouterRule::LeastQueued),
    ("least_requests", RouterRule::LeastRequests),
    ("least_prompt_tokens", RouterRule::LeastPromptTokens),
    ("least_kv", RouterRule::LeastKv),
    ("power_of_two", RouterRule::PowerOfTwo),
    ("random", RouterRule::Random),
];

/// The others.
const TUNED: [&str; 2] = ["prefix_aware", "session_affinity"];

/// Where a session starts when nobody says so.
pub(in crate::scenario) const FALLBACK: &str = "least_requests";

/// A weight beyond this is a slip of the keyboard; tokens times it stay within the clock's integers.
const MAX_WEIGHT: f64 = 1000.0;

impl Builder<'_> {
    /// The routers of both phases.
    pub(super) fn routers(
        &mut self,
        path: &str,
        system: &System,
    ) -> (Option<RouterRule>, Option<RouterRule>) {
        let path = format!("{path}.router");
        match &system.router {
            Some(WordOr::Word(word)) => {
                let rule = self.named_router(&path, word);
                (rule, rule)
            }
            Some(WordOr::Map(pair)) => {
                if !system.policy.splits() && pair.decode.is_some() {
                    self.wrong(
                        &format!("{path}.decode"),
                        "is for disaggregated systems only; remove it",
                    );
                }
                let mut phase = |key: &str, choice: &Option<WordOr<RouterKind>>| match choice {
                    Some(choice) => self.router(&format!("{path}.{key}"), choice),
                    None => Some(RouterRule::LeastTokens),
                };
                (
                    phase("prefill", &pair.prefill),
                    phase("decode", &pair.decode),
                )
            }
            None => (Some(RouterRule::LeastTokens), Some(RouterRule::LeastTokens)),
        }
    }

    fn router(&mut self, path: &str, choice: &WordOr<RouterKind>) -> Option<RouterRule> {
        match choice {
            WordOr::Word(word) => self.named_router(path, word),
            WordOr::Map(RouterKind::SessionAffinity(keys)) => self.affinity(path, keys),
            WordOr::Map(RouterKind::PrefixAware(keys)) => self.prefix_aware(path, keys),
        }
    }

    fn named_router(&mut self, path: &str, word: &str) -> Option<RouterRule> {
        match word {
            "prefix_aware" => Some(RouterRule::PrefixAware(LoadPenalty::default())),
            "session_affinity" => self.affinity(path, &Affinity::default()),
            word => {
                let names = PLAIN.iter().map(|(name, _)| *name).chain(TUNED);
                self.plain(path, word, names).copied()
            }
        }
    }

    fn plain(
        &mut self,
        path: &str,
        word: &str,
        names: impl Iterator<Item = &'static str> + Clone,
    ) -> Option<&'static RouterRule> {
        let found = PLAIN.iter().find(|(name, _)| *name == word);
        self.require(found.is_some(), path, || {
            format!(
                "unknown router `{word}`{} (allowed: {})",
                did_you_mean(word, names.clone()),
                names.collect::<Vec<_>>().join(", ")
            )
        });
        found.map(|(_, rule)| rule)
    }

    fn affinity(&mut self, path: &str, keys: &Affinity) -> Option<RouterRule> {
        let path = format!("{path}.session_affinity.fallback");
        let word = keys.fallback.as_deref().unwrap_or(FALLBACK);
        let names = PLAIN.iter().map(|(name, _)| *name);
        let fallback = self.plain(&path, word, names)?;
        Some(RouterRule::SessionAffinity {
            fallback,
            most_above_least: keys.most_above_least,
        })
    }

    fn prefix_aware(&mut self, path: &str, keys: &Penalty) -> Option<RouterRule> {
        let mut milli = |key: &str, weight: Option<f64>, default: u32| {
            let Some(weight) = weight else {
                return Some(default);
            };
            let good = (0.0..=MAX_WEIGHT).contains(&weight);
            self.require(good, &format!("{path}.prefix_aware.{key}"), || {
                format!("is {weight}, expected a number from 0 to {MAX_WEIGHT}")
            });
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to a million"
            )]
            good.then_some((weight * 1000.0).round() as u32)
        };
        let LoadPenalty {
            prompt_milli,
            context_milli,
        } = LoadPenalty::default();
        let prompt = milli("prompt_weight", keys.prompt_weight, prompt_milli);
        let context = milli("context_weight", keys.context_weight, context_milli);
        Some(RouterRule::PrefixAware(LoadPenalty {
            prompt_milli: prompt?,
            context_milli: context?,
        }))
    }

    /// Holds routers against the first requests: what a router looks for and the workload has not is a problem or worth telling.
    pub(super) fn check_routers(
        &mut self,
        workload: &Workload,
        sample: &[RequestSpec],
        systems: &[SystemSpec],
    ) {
        let sessions = sample.iter().any(|request| request.session != 0);
        let blocks = workload.prefixes().is_some();
        for system in systems {
            let path = format!("systems.{}.router", system.name);
            let rules = [system.prefill_router, system.decode_router];
            let affine = rules
                .iter()
                .any(|rule| matches!(rule, RouterRule::SessionAffinity { .. }));
            self.require(!affine || sessions, &path, || {
                "is `session_affinity`, but no request of this workload belongs to a session; use a trace with sessions (a column or key \
                 `session`, Bailian chats, Mooncake or LLMServingSim with `session_id`), or the fallback alone"
                    .to_owned()
            });
            let tiers = system.pools.iter().any(|pool| pool.kv.cpu_cache.is_some());
            if tiers && !blocks {
                self.notes.push(format!(
                    "{}: the CPU tier stays empty: the workload does not name prompt blocks",
                    system.name
                ));
            }
            if tiers && blocks {
                self.tell_decode_tier(system);
            }
            let caches = blocks && system.pools.iter().any(|pool| pool.kv.prefix_cache);
            if affine && sessions && !caches {
                self.notes.push(format!(
                    "{}: sessions stay on their instance, but nothing is cached for them there: {}",
                    system.name,
                    no_cache(blocks)
                ));
            }
            // Where prompts are computed, since only these look into caches.
            let looks = system
                .pools
                .iter()
                .any(|pool| pool.role != Role::Decode && pool.kv.prefix_cache);
            if rules
                .iter()
                .any(|rule| matches!(rule, RouterRule::PrefixAware(_)))
                && !(blocks && looks)
            {
                self.notes.push(format!(
                    "{}: the router `prefix_aware` finds nothing cached and goes by load alone: {}",
                    system.name,
                    no_cache(blocks)
                ));
            }
        }
    }
}

/// Why there is nothing in a prefix cache.
const fn no_cache(blocks: bool) -> &'static str {
    if blocks {
        "set `prefix_cache: true`"
    } else {
        "the workload does not name prompt blocks"
    }
}
