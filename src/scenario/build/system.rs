//! Systems: policy presets as pools, routers and a hand-off.

use crate::cluster::{FirstToken, PoolSpec, Role, SystemSpec};
use crate::names::did_you_mean;
use crate::scenario::defaults;
use crate::scenario::engine::{self, Engine};
use crate::scenario::schema::{self, Policy, Pool, System};

use super::Builder;
use super::pool::PoolContext;

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
        let transfer = self.transfer(&path, system, model.as_ref());
        let queue = self.queue(&path, system);
        let reservation = self.reservation(&path, system);
        let skip = self.skip_prefill(&path, system);
        let roles = self.role_rule(&path, system);
        let split = self.split(&path, system);
        self.same_kv_format(&path, system);
        self.check_effects(&path, system);
        let pools = self.roles(&path, system).map(|roles| {
            let built = roles.into_iter().map(|(key, pool_name, role, pool)| {
                let gpu = self.gpu(&format!("{path}.{key}"), pool)?;
                let (engine, model, queue) = (engine?, model.as_ref()?, queue.as_ref()?);
                let context = PoolContext {
                    model,
                    tuning: system.tuning().or(engine.tuning()),
                    engine,
                    path: &path,
                    system,
                    queue,
                    split: split.as_ref(),
                };
                self.pool(&context, key, pool_name, role, pool, gpu)
            });
            built.collect::<Vec<Option<PoolSpec>>>()
        });
        let pools: Vec<PoolSpec> = pools?.into_iter().collect::<Option<_>>()?;
        self.check_exchange(&path, &roles, &pools);
        Some(SystemSpec {
            name: name.to_owned(),
            pools,
            roles,
            prefill_router: prefill_router?,
            decode_router: decode_router?,
            skip,
            reservation,
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
        const SPLIT: &[(&str, &str, Role)] = &[
            ("prefill", "prefill", Role::Prefill),
            ("decode", "decode", Role::Decode),
        ];
        let (name, wanted): (&str, &[(&str, &str, Role)]) = match system.policy {
            Policy::Static => ("static", &[("pool", "static", Role::Both)]),
            Policy::Colocated => ("colocated", &[("pool", "colocated", Role::Both)]),
            Policy::Chunked => ("chunked", &[("pool", "chunked", Role::Both)]),
            Policy::Multiplexed => ("multiplexed", &[("pool", "multiplexed", Role::Both)]),
            Policy::Disaggregated => ("disaggregated", SPLIT),
            Policy::MixedPool => ("mixed_pool", SPLIT),
            Policy::Dynamic => ("dynamic", SPLIT),
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
}
