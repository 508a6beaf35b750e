//! Fills in what the scenario leaves out, key by key, in the tree itself.
//!
//! The filled tree is what runs and what `scenario.resolved.yaml` states, so a resolved scenario hides nothing. A
//! default that depends on other keys (the step-time model on model, GPU and TP) is decided here and nowhere else.

use serde_yaml::Value;

use super::build::FALLBACK;
use super::document::{get, set};
use super::engine::{self, Engine};
use super::schema::{
    BatchKind, Contention, FirstToken, LatencyKind, Limit, Policy, Pool, Reservation, RouterKind,
    Scenario, System, Transfer, TransferMode, Tuning, WordOr,
};
use crate::cluster::MixedPoolRule;
use crate::latency::compose::Formats;
use crate::model::{KvDtype, ModelSpec};
use crate::{hardware, latency, model};

/// Share of arrived requests promised to be good when a promise names no share.
const ATTAINMENT: f64 = 0.9;

/// Attention data-parallel ranks of an instance that posts transfers, each of which has one in flight unless told otherwise.
pub(super) fn posting_ranks(transfer: &Transfer, system: &System) -> u32 {
    let poster = match transfer.mode {
        Some(TransferMode::Pull) => &system.decode,
        Some(TransferMode::Push) | None => &system.prefill,
    };
    poster.as_ref().and_then(|pool| pool.dp).unwrap_or(1)
}

/// Fills every default into `tree`, of which `scenario` is the typed reading; `stem` names a scenario without a name.
pub(super) fn fill(tree: &mut Value, scenario: &Scenario, stem: &str) {
    let mut filler = Filler { tree };
    filler.default("name", stem);
    filler.default("engine", engine::DEFAULT);
    filler.default("seeds", 1);
    filler.default("horizon", "none");
    filler.default("fast_forward", true);
    for key in ["requests", "charts"] {
        filler.default(&format!("output.{key}"), true);
    }
    filler.default("output.vllm_bench", false);
    if scenario.slo.is_some() {
        filler.default("slo.attainment", ATTAINMENT);
    }
    filler.workload(scenario);
    if let Some(choice) = &scenario.latency {
        filler.latency("latency", choice, None);
    }
    let common = scenario.engine.as_deref().unwrap_or(engine::DEFAULT);
    for (name, system) in &scenario.systems.0 {
        let named = system.engine.as_deref().unwrap_or(common);
        // An unknown engine, or a dot in a name, is reported by the build; nothing can be filled then.
        if let (Some(engine), false) = (engine::engine(named), name.contains('.')) {
            filler.system(&format!("systems.{name}"), scenario, system, engine);
        }
    }
}

/// Names of a system's pools as keys, with the pools that are there.
pub(super) fn pools(system: &System) -> impl Iterator<Item = (&'static str, &Pool)> {
    [
        ("pool", &system.pool),
        ("prefill", &system.prefill),
        ("decode", &system.decode),
    ]
    .into_iter()
    .filter_map(|(key, pool)| Some((key, pool.as_ref()?)))
}

/// Whether there are published coefficients that the `polynomial` model would use for this pool.
pub(super) fn has_polynomial(set: &str, model_name: &str, pool: &Pool, formats: Formats) -> bool {
    let (Ok(model), Ok(gpu)) = (model::model(model_name), hardware::gpu(&pool.gpu)) else {
        return false;
    };
    formats == Formats::BF16
        && latency::polynomial::published(set, &gpu.name, &model.name, pool.tp.unwrap_or(1)).is_ok()
}

/// The step-time model of a pool for which nobody names one: published coefficients of this very model, GPU and TP,
/// else kernel timings of the GPU or a kindred one, else the data sheet.
fn step_times(set: &str, model_name: &str, pool: &Pool, formats: Formats) -> &'static str {
    if has_polynomial(set, model_name, pool, formats) {
        "polynomial"
    } else if hardware::has_surfaces(&pool.gpu).unwrap_or(false) {
        "calibrated"
    } else {
        "roofline"
    }
}

struct Filler<'t> {
    tree: &'t mut Value,
}

impl Filler<'_> {
    /// Puts `value` at `path` unless something is there.
    fn default(&mut self, path: &str, value: impl Into<Value>) {
        if get(self.tree, path).is_none_or(Value::is_null) {
            set(self.tree, path, value.into());
        }
    }

    fn workload(&mut self, scenario: &Scenario) {
        let Some(workload) = &scenario.workload else {
            return;
        };
        self.default("workload.warmup", 0);
        if workload.trace.is_some() {
            self.default("workload.format", "auto");
            self.default("workload.limit", "unlimited");
            if workload.rate.is_none() && workload.arrivals.is_none() {
                self.default("workload.time_scale", 1.0);
            }
        } else {
            self.default("workload.arrivals", "poisson");
        }
    }

    fn system(&mut self, path: &str, scenario: &Scenario, system: &System, engine: &Engine) {
        let disaggregated = system.policy.splits();
        self.tuning(path, system, engine);
        let model = system.model.as_deref().or(scenario.model.as_deref());
        let spec = model.and_then(|name| model::model(name).ok());
        if let Some(spec) = &spec {
            self.formats(path, scenario, system, spec);
        }
        self.default(&format!("{path}.queue"), "fcfs");
        self.routers(&format!("{path}.router"), system, engine);
        if disaggregated {
            let word = match engine.first_token {
                FirstToken::Prefill => "prefill",
                FirstToken::Decode => "decode",
            };
            self.default(&format!("{path}.first_token"), word);
            if system.policy != Policy::MixedPool {
                self.default(&format!("{path}.reservation"), "at_handoff");
                let early = system.reservation == Some(Reservation::Early);
                let chosen = if early { "arrival" } else { "handoff" };
                self.default(&format!("{path}.decode_choice"), chosen);
            }
            self.roles(&format!("{path}.roles"), system);
            if let Some(transfer) = &system.transfer {
                self.transfer(&format!("{path}.transfer"), transfer, system);
            }
        }
        if system.policy == Policy::Multiplexed {
            self.multiplex(&format!("{path}.multiplex"));
        }
        if let Some(choice) = &system.latency {
            self.latency(&format!("{path}.latency"), choice, Some(engine));
        }
        for (key, pool) in pools(system) {
            let pool_path = format!("{path}.{key}");
            for degree in ["tp", "pp", "dp", "ep"] {
                self.default(&format!("{pool_path}.{degree}"), 1);
            }
            if pool.long_prompts.is_some() {
                self.long_prompts(&pool_path);
            }
            let latency_path = format!("{pool_path}.latency");
            if let Some(choice) = &pool.latency {
                self.latency(&latency_path, choice, Some(engine));
            } else if system.latency.is_none() && scenario.latency.is_none() {
                let formats = spec.as_ref().map_or(Formats::BF16, |spec| {
                    super::build::formats(scenario, system, pool, spec)
                });
                let word = step_times(
                    engine.polynomial_set,
                    model.unwrap_or_default(),
                    pool,
                    formats,
                );
                self.latency(&latency_path, &WordOr::Word(word.to_owned()), Some(engine));
            }
        }
    }

    /// Writes the number formats that at least one pool would fall back on.
    fn formats(&mut self, path: &str, scenario: &Scenario, system: &System, spec: &ModelSpec) {
        if scenario.weight_dtype.is_none() && !pools(system).all(|(_, p)| p.weight_dtype.is_some())
        {
            self.default(&format!("{path}.weight_dtype"), spec.native_weights.name());
        }
        if scenario.kv_dtype.is_none() && !pools(system).all(|(_, p)| p.kv_dtype.is_some()) {
            self.default(&format!("{path}.kv_dtype"), KvDtype::Bf16.name());
        }
    }

    /// Writes out the router of each phase and its figures.
    fn routers(&mut self, path: &str, system: &System, engine: &Engine) {
        let phases = [
            ("prefill", engine.routers[0]),
            ("decode", engine.routers[1]),
        ];
        let count = match system.policy {
            Policy::Disaggregated | Policy::Dynamic => 2,
            // It has a rule of its own.
            Policy::MixedPool => 0,
            Policy::Static | Policy::Colocated | Policy::Chunked | Policy::Multiplexed => 1,
        };
        for (phase, rule) in &phases[..count] {
            let at = format!("{path}.{phase}");
            let choice = match &system.router {
                None => None,
                // One word for both phases stays one word, unless it has figures.
                Some(WordOr::Word(word)) => {
                    self.router_figures(&at, word);
                    continue;
                }
                Some(WordOr::Map(pair)) if *phase == "prefill" => pair.prefill.as_ref(),
                Some(WordOr::Map(pair)) => pair.decode.as_ref(),
            };
            match choice {
                None => self.default(&at, *rule),
                Some(WordOr::Word(word)) => self.router_figures(&at, word),
                Some(WordOr::Map(RouterKind::SessionAffinity(_))) => {
                    self.router_figures(&at, "session_affinity");
                }
                Some(WordOr::Map(RouterKind::PrefixAware(_))) => {
                    self.router_figures(&at, "prefix_aware");
                }
            }
        }
    }

    /// Writes out the figures of the router `word` of the phase at `path`, if it has some.
    fn router_figures(&mut self, path: &str, word: &str) {
        let path = format!("{path}.{word}");
        match word {
            "session_affinity" => self.default(&format!("{path}.fallback"), FALLBACK),
            "prefix_aware" => {
                self.default(&format!("{path}.prompt_weight"), 1.0);
                self.default(&format!("{path}.context_weight"), 0.0);
            }
            _ => {}
        }
    }

    /// Writes out what a step-time model leaves open: the set of a polynomial (known below an engine), the figures
    /// of a roofline, what a profile does not say.
    fn latency(&mut self, path: &str, choice: &WordOr<LatencyKind>, engine: Option<&Engine>) {
        match (choice, engine) {
            (WordOr::Word(word), Some(engine)) if word == "polynomial" => {
                set(
                    self.tree,
                    &format!("{path}.polynomial.set"),
                    engine.polynomial_set.into(),
                );
            }
            (WordOr::Map(LatencyKind::Polynomial(terms)), Some(engine))
                if terms.prefill_ms.is_none() && terms.decode_ms.is_none() =>
            {
                self.default(&format!("{path}.polynomial.set"), engine.polynomial_set);
            }
            (WordOr::Word(word), _) if word == "roofline" => self.roofline(path, engine),
            (WordOr::Map(LatencyKind::Roofline(_)), _) => self.roofline(path, engine),
            (WordOr::Word(word), _) if word == "calibrated" => self.calibrated(path, engine),
            (WordOr::Map(LatencyKind::Calibrated(_)), _) => self.calibrated(path, engine),
            _ => {}
        }
    }

    /// Writes the thresholds of a rule that changes roles.
    fn roles(&mut self, path: &str, system: &System) {
        match system.policy {
            Policy::MixedPool => {
                let rule = MixedPoolRule::SPLITWISE;
                self.default(&format!("{path}.prompt_tokens"), rule.prompt_tokens);
                self.default(&format!("{path}.kv_share"), rule.kv_share);
            }
            Policy::Dynamic => {
                let keys = system.roles.as_ref();
                let sequences = keys.is_some_and(|keys| keys.decode_sequences.is_some());
                let decode = if sequences {
                    ("decode_sequences", 32.0, 128.0)
                } else {
                    ("decode_kv", 0.5, 0.9)
                };
                for (key, low, high) in [("prefill_queue", 1024.0, 8192.0), decode] {
                    self.default(&format!("{path}.{key}.low"), low);
                    self.default(&format!("{path}.{key}.high"), high);
                }
                for role in ["prefill", "decode"] {
                    self.default(&format!("{path}.at_least.{role}"), 1);
                }
                self.default(&format!("{path}.dwell"), "10 s");
                self.default(&format!("{path}.switch_time"), "0 s");
            }
            _ => {}
        }
    }

    /// The engine's time per step, known below an engine.
    fn overhead(&mut self, path: &str, engine: Option<&Engine>) {
        if let Some(host) = engine.map(|engine| engine.host) {
            for (key, us) in [
                ("step_overhead", host.step_us),
                ("step_overhead_per_sequence", host.sequence_us),
            ] {
                self.default(&format!("{path}.{key}"), format!("{us} us"));
            }
        }
    }

    fn transfer(&mut self, path: &str, transfer: &Transfer, system: &System) {
        if matches!(transfer.link, WordOr::Map(_)) {
            self.default(&format!("{path}.link.latency"), "10 us");
        }
        self.default(&format!("{path}.overlap"), "none");
        self.default(&format!("{path}.mode"), "push");
        if matches!(transfer.staging, Some(WordOr::Map(_))) {
            self.default(&format!("{path}.staging.copy"), "pipelined");
        }
        self.default(&format!("{path}.descriptor_time"), "0 us");
        self.default(&format!("{path}.contention"), "none");
        if transfer.contention == Some(Contention::Fair) {
            self.default(
                &format!("{path}.in_flight"),
                posting_ranks(transfer, system),
            );
        }
    }

    fn multiplex(&mut self, path: &str) {
        let stated = latency::share::SmCurve::default();
        self.default(&format!("{path}.prefill_share"), 0.5);
        self.default(&format!("{path}.idle_sms"), "lent");
        self.default(&format!("{path}.contention"), 1.0);
        for (key, share) in [
            ("compute_saturation", stated.compute_saturation),
            ("bandwidth_saturation", stated.bandwidth_saturation),
        ] {
            self.default(&format!("{path}.{key}"), share);
        }
    }

    fn calibrated(&mut self, path: &str, engine: Option<&Engine>) {
        self.default(&format!("{path}.calibrated.expert_skew"), 0.0);
        self.overhead(&format!("{path}.calibrated"), engine);
    }

    fn roofline(&mut self, path: &str, engine: Option<&Engine>) {
        let stated = latency::roofline::Efficiency::default();
        let path = format!("{path}.roofline");
        for (key, share) in [
            ("gemm", stated.gemm),
            ("prefill_attention", stated.prefill_attention),
            ("memory", stated.memory),
            ("link", stated.link),
        ] {
            self.default(&format!("{path}.{key}"), share);
        }
        for (key, seconds) in [
            ("kernel_time", stated.kernel_seconds),
            ("collective_time", stated.collective_seconds),
        ] {
            self.default(&format!("{path}.{key}"), format!("{} us", seconds * 1e6));
        }
        self.overhead(&path, engine);
    }

    /// Writes a limit of steps that an engine chooses by the GPU: for the system where its pools agree, else for each pool.
    fn by_gpu(&mut self, path: &str, system: &System, engine: &Engine, key: &str) {
        let chunked = key == "chunk_budget";
        let written = |tuning: Tuning| {
            if chunked {
                tuning.chunk_budget.is_some()
            } else {
                tuning.max_seqs.is_some()
            }
        };
        if written(system.tuning()) {
            return;
        }
        // A budget for the whole system would ask its prefill pool for chunks, too.
        let one_pool = !chunked || system.policy == Policy::Chunked;
        let values: Vec<(&str, u32)> = pools(system)
            .filter(|(_, pool)| !written(pool.tuning()))
            .filter(|(_, pool)| one_pool || pool.batch == Some(BatchKind::DecodeFirst))
            .map(|(name, pool)| {
                let size = engine.step_size(hardware::gpu(&pool.gpu).ok().as_ref());
                (
                    name,
                    if chunked {
                        size.chunk_budget
                    } else {
                        size.max_seqs
                    },
                )
            })
            .collect();
        let Some((_, first)) = values.first() else {
            return;
        };
        if one_pool && values.iter().all(|(_, value)| value == first) {
            self.default(&format!("{path}.{key}"), *first);
        } else {
            for (pool, value) in values {
                self.default(&format!("{path}.{pool}.{key}"), value);
            }
        }
    }

    fn long_prompts(&mut self, path: &str) {
        self.default(&format!("{path}.long_prompts.most"), 1);
        self.default(&format!("{path}.long_prompts.interrupts"), true);
    }

    /// Writes the engine's value of each tuning key that at least one pool would fall back on.
    fn tuning(&mut self, path: &str, system: &System, engine: &Engine) {
        let every_pool_has = |has: fn(&Pool) -> bool| pools(system).all(|(_, pool)| has(pool));
        let chunked = system.policy == Policy::Chunked
            || pools(system).any(|(_, p)| p.batch == Some(BatchKind::DecodeFirst));
        if system.long_prompts.is_some() {
            self.long_prompts(path);
        }
        if chunked {
            self.by_gpu(path, system, engine, "chunk_budget");
        }
        self.by_gpu(path, system, engine, "max_seqs");
        // A budget asks the prefill stream of a multiplexed system for chunks.
        let whole = match system.policy {
            Policy::Chunked => false,
            Policy::Multiplexed => {
                system.chunk_budget.is_none() && !every_pool_has(|p| p.chunk_budget.is_some())
            }
            Policy::Static
            | Policy::Colocated
            | Policy::Disaggregated
            | Policy::MixedPool
            | Policy::Dynamic => true,
        };
        if whole && !every_pool_has(|p| p.max_step_tokens.is_some()) {
            self.default(&format!("{path}.max_step_tokens"), engine.max_step_tokens);
        }
        for (key, set_in_every_pool, value) in common_tuning(system, engine) {
            if !set_in_every_pool {
                self.default(&format!("{path}.{key}"), value);
            }
        }
    }
}

/// Every other tuning key: whether each pool has it, and the engine's value.
fn common_tuning(system: &System, engine: &Engine) -> [(&'static str, bool, Value); 9] {
    let every_pool_has = |has: fn(&Pool) -> bool| pools(system).all(|(_, pool)| has(pool));
    let context = match engine.max_decode_context {
        Limit::Unlimited => Value::from("unlimited"),
        Limit::AtMost(tokens) => Value::from(tokens),
    };
    [
        (
            "max_step_prompts",
            every_pool_has(|p| p.max_step_prompts.is_some()),
            engine.max_step_prompts.into(),
        ),
        (
            "max_decode_context",
            every_pool_has(|p| p.max_decode_context.is_some()),
            context,
        ),
        (
            "block_tokens",
            every_pool_has(|p| p.block_tokens.is_some()),
            engine.block_tokens.into(),
        ),
        (
            "memory_fraction",
            every_pool_has(|p| p.memory_fraction.is_some()),
            engine.memory_fraction.into(),
        ),
        (
            "kv_watermark",
            every_pool_has(|p| p.kv_watermark.is_some()),
            engine.kv_watermark.into(),
        ),
        (
            "kv_blocks",
            every_pool_has(|p| p.kv_blocks.is_some()),
            "fit".into(),
        ),
        (
            "prefix_cache",
            every_pool_has(|p| p.prefix_cache.is_some()),
            engine.prefix_cache.into(),
        ),
        (
            "kv_reserve",
            every_pool_has(|p| p.kv_reserve.is_some()),
            "paged".into(),
        ),
        (
            "preemption",
            every_pool_has(|p| p.preemption.is_some()),
            "recompute".into(),
        ),
    ]
}
