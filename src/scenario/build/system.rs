//! Systems: policy presets as pools, routers and a hand-off.

use crate::cluster::{FirstToken, PoolSpec, Role, SystemSpec, TransferSpec};
use crate::hardware::{self, GpuSpec, Link, LinkKind};
use crate::policy::router::RouterRule;
use crate::scenario::defaults;
use crate::scenario::engine::{self, Engine};
use crate::scenario::problem::did_you_mean;
use crate::scenario::schema::{self, Policy, Pool, System, WordOr};
use crate::units::SimDuration;

use super::Builder;
use super::pool::PoolContext;

/// Router rules by the word in a scenario.
const ROUTERS: [(&str, RouterRule); 4] = [
    ("round_robin", RouterRule::RoundRobin),
    ("least_tokens", RouterRule::LeastTokens),
    ("least_queued", RouterRule::LeastQueued),
    ("prefix_aware", RouterRule::PrefixAware),
];

/// No time at all: the hand-off of systems without one, and of `link: none`.
const INSTANT: TransferSpec = TransferSpec {
    base: SimDuration::ZERO,
    bytes_per_sec: f64::INFINITY,
};

impl Builder<'_> {
    /// Builds every system; `None` when one cannot be.
    pub(super) fn systems(&mut self) -> Option<Vec<SystemSpec>> {
        let scenario = self.scenario;
        self.require(!scenario.systems.0.is_empty(), "systems", || {
            "names no system; write at least one, as in `systems: {colocated: {policy: colocated, pool: {instances: 1, gpu: h100-sxm}}}`"
                .to_owned()
        });
        let built: Vec<Option<SystemSpec>> = scenario
            .systems
            .0
            .iter()
            .map(|(name, system)| self.system(name, system))
            .collect();
        built.into_iter().collect()
    }

    fn system(&mut self, name: &str, system: &System) -> Option<SystemSpec> {
        let path = format!("systems.{name}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_+".contains(c);
        self.require(!name.is_empty() && name.chars().all(plain), &path, || {
            format!("the system name `{name}` may hold only letters, digits, `-`, `_` and `+`")
        });
        // Everything is looked at before anything stops the build, so that one check tells all.
        let engine = self.engine(&path, system);
        let model = self.model(&path, system);
        let (prefill_router, decode_router) = self.routers(&path, system);
        let transfer = self.transfer(&path, system);
        let pools = self.roles(&path, system).map(|roles| {
            let built = roles.into_iter().map(|(key, pool_name, role, pool)| {
                let gpu = self.gpu(&format!("{path}.{key}"), pool)?;
                let (engine, model) = (engine?, model.as_ref()?);
                let context = PoolContext {
                    model,
                    tuning: system.tuning().or(engine.tuning()),
                    engine,
                    path: &path,
                    system,
                };
                self.pool(&context, key, pool_name, role, pool, gpu)
            });
            built.collect::<Vec<Option<PoolSpec>>>()
        });
        Some(SystemSpec {
            name: name.to_owned(),
            pools: pools?.into_iter().collect::<Option<_>>()?,
            prefill_router: prefill_router?,
            decode_router: decode_router?,
            first_token: match system.first_token {
                Some(schema::FirstToken::Decode) => FirstToken::Decode,
                Some(schema::FirstToken::Prefill) | None => FirstToken::Prefill,
            },
            transfer: transfer?,
            fast_forward: self.scenario.fast_forward.unwrap_or(true),
        })
    }

    fn engine(&mut self, path: &str, system: &System) -> Option<&'static Engine> {
        let (path, name) = match (&system.engine, &self.scenario.engine) {
            (Some(name), _) => (format!("{path}.engine"), name),
            (None, Some(name)) => ("engine".to_owned(), name),
            (None, None) => return engine::engine(engine::DEFAULT),
        };
        let found = engine::engine(name);
        self.require(found.is_some(), &path, || {
            let near = did_you_mean(name, engine::names());
            let known: Vec<&str> = engine::names().collect();
            format!(
                "unknown engine `{name}`{near} (allowed: {})",
                known.join(", ")
            )
        });
        if let Some(engine) = found {
            let fact = (format!("engine {name}"), engine.source.to_owned());
            if !self.facts.contains(&fact) {
                self.facts.push(fact);
            }
        }
        found
    }

    fn model(&mut self, path: &str, system: &System) -> Option<crate::model::ModelSpec> {
        let (path, name) = match (&system.model, &self.scenario.model) {
            (Some(name), _) => (format!("{path}.model"), name),
            (None, Some(name)) => ("model".to_owned(), name),
            (None, None) => {
                self.wrong(
                    "model",
                    "the key `model` is missing; write a model name such as `model: llama-3.1-8b`",
                );
                return None;
            }
        };
        crate::model::model(name)
            .map_err(|error| self.wrong(&path, error.to_string()))
            .ok()
    }

    /// The pools that the policy asks for: key, name for reports, role, pool.
    fn roles<'s>(
        &mut self,
        path: &str,
        system: &'s System,
    ) -> Option<Vec<(&'static str, &'static str, Role, &'s Pool)>> {
        let (name, wanted): (&str, &[(&str, &str, Role)]) = match system.policy {
            Policy::Colocated => ("colocated", &[("pool", "colocated", Role::Both)]),
            Policy::Chunked => ("chunked", &[("pool", "chunked", Role::Both)]),
            Policy::Disaggregated => (
                "disaggregated",
                &[
                    ("prefill", "prefill", Role::Prefill),
                    ("decode", "decode", Role::Decode),
                ],
            ),
        };
        let mut found = Vec::new();
        for (key, pool) in defaults::pools(system) {
            match wanted.iter().find(|(wanted, ..)| *wanted == key) {
                Some((key, label, role)) => found.push((*key, *label, *role, pool)),
                None => self.wrong(
                    &format!("{path}.{key}"),
                    format!("policy `{name}` has no pool `{key}`; remove it"),
                ),
            }
        }
        for (key, ..) in wanted {
            let there = found.iter().any(|(found, ..)| found == key);
            self.require(there, path, || {
                format!("the key `{key}` is missing; policy `{name}` needs it, as in `{key}: {{instances: 1, gpu: h100-sxm}}`")
            });
        }
        (found.len() == wanted.len()).then_some(found)
    }

    fn routers(&mut self, path: &str, system: &System) -> (Option<RouterRule>, Option<RouterRule>) {
        let path = format!("{path}.router");
        let disaggregated = system.policy == Policy::Disaggregated;
        match &system.router {
            Some(WordOr::Word(word)) => {
                let rule = self.router(&path, word);
                (rule, rule)
            }
            Some(WordOr::Map(pair)) => {
                if !disaggregated && pair.decode.is_some() {
                    self.wrong(
                        &format!("{path}.decode"),
                        "is for disaggregated systems only; remove it",
                    );
                }
                let mut phase = |key: &str, word: &Option<String>| match word {
                    Some(word) => self.router(&format!("{path}.{key}"), word),
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

    fn router(&mut self, path: &str, word: &str) -> Option<RouterRule> {
        let found = ROUTERS
            .iter()
            .find(|(name, _)| *name == word)
            .map(|(_, rule)| *rule);
        self.require(found.is_some(), path, || {
            let names = ROUTERS.map(|(name, _)| name);
            format!(
                "unknown router `{word}`{} (allowed: {})",
                did_you_mean(word, names),
                names.join(", ")
            )
        });
        found
    }

    fn transfer(&mut self, path: &str, system: &System) -> Option<TransferSpec> {
        let key = format!("{path}.transfer");
        if system.policy != Policy::Disaggregated {
            let only = "is for disaggregated systems only; remove it";
            self.require(system.transfer.is_none(), &key, || only.to_owned());
            self.require(
                system.first_token.is_none(),
                &format!("{path}.first_token"),
                || only.to_owned(),
            );
            return Some(INSTANT);
        }
        let Some(transfer) = &system.transfer else {
            self.wrong(&key, "the key `transfer` is missing; write how KV caches travel, as in `transfer: {link: nvlink}`");
            return None;
        };
        let key = format!("{key}.link");
        match &transfer.link {
            WordOr::Word(word) if word == "none" => Some(INSTANT),
            WordOr::Word(word) => self.named_link(&key, word, system),
            WordOr::Map(speed) => {
                let rate = speed.bandwidth.0;
                self.require(rate > 0.0, &format!("{key}.bandwidth"), || {
                    "is zero; write a bandwidth above zero, or `link: none` for no transfer time"
                        .to_owned()
                });
                Some(TransferSpec {
                    base: speed.latency.map_or(SimDuration::ZERO, |span| span.0),
                    bytes_per_sec: rate,
                })
            }
        }
    }

    /// A data-sheet link between the two pools' GPUs. Each GPU of an instance has its own, so an instance sends at
    /// the rate of as many links as both ends have.
    fn named_link(&mut self, path: &str, word: &str, system: &System) -> Option<TransferSpec> {
        let kind = match LinkKind::from_name(word) {
            Ok(kind) => kind,
            Err(error) => {
                let more = "none, or {bandwidth: 25 GB/s, latency: 10 us}";
                self.wrong(path, format!("{error}, {more}"));
                return None;
            }
        };
        let (prefill, decode) = (system.prefill.as_ref()?, system.decode.as_ref()?);
        // Unknown GPUs are reported with their pool.
        let gpu = |pool: &Pool| -> Option<GpuSpec> { hardware::gpu(&pool.gpu).ok() };
        let (from, to) = (gpu(prefill)?, gpu(decode)?);
        let link = Link::between(kind, &from, &to, None)
            .map_err(|error| self.wrong(path, error.to_string()))
            .ok()?;
        let gpus = |pool: &Pool| u64::from(pool.tp.unwrap_or(1)) * u64::from(pool.pp.unwrap_or(1));
        let links = gpus(prefill).min(gpus(decode)) as f64;
        Some(TransferSpec {
            base: SimDuration::from_secs_f64(link.base_seconds)
                .expect("base times of links are a few microseconds"),
            bytes_per_sec: link.bytes_per_sec * links,
        })
    }
}
