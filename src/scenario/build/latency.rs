//! Step-time models: which one a pool uses, and why.

use std::sync::Arc;

use crate::hardware;
use crate::latency::LatencyModel;
use crate::latency::compose::{Composed, Formats, Overhead};
use crate::latency::fixed::Fixed;
use crate::latency::polynomial::{self, Coefficients, Polynomial};
use crate::latency::roofline::{Datasheet, Efficiency};
use crate::names::did_you_mean;
use crate::scenario::defaults::has_polynomial;
use crate::scenario::schema::{
    CalibratedLatency, FixedLatency, LatencyKind, PolynomialLatency, Pool, RooflineLatency, Span,
    WordOr,
};
use crate::scenario::warning::StepTimes;
use crate::units::SimDuration;

use super::Builder;
use super::pool::{Machine, PoolContext};

/// The words that name a model.
const WORDS: [&str; 3] = ["polynomial", "calibrated", "roofline"];

pub(super) type Model = Arc<dyn LatencyModel>;

/// The kind of model that a choice stands for; none for an unknown word.
fn kind(choice: &WordOr<LatencyKind>) -> Option<StepTimes> {
    match choice {
        WordOr::Word(word) => match word.as_str() {
            "polynomial" => Some(StepTimes::Polynomial),
            "calibrated" => Some(StepTimes::Calibrated),
            "roofline" => Some(StepTimes::Roofline),
            _ => None,
        },
        WordOr::Map(LatencyKind::Fixed(_)) => Some(StepTimes::Fixed),
        WordOr::Map(LatencyKind::Polynomial(_)) => Some(StepTimes::Polynomial),
        WordOr::Map(LatencyKind::Calibrated(_)) => Some(StepTimes::Calibrated),
        WordOr::Map(LatencyKind::Roofline(_)) => Some(StepTimes::Roofline),
    }
}

impl Builder<'_> {
    /// Builds the step-time model of a pool: its own, its system's or the scenario's choice.
    pub(super) fn latency(
        &mut self,
        context: &PoolContext<'_>,
        pool_path: &str,
        pool: &Pool,
        machine: Machine<'_>,
    ) -> Option<Model> {
        let (path, choice) = match (
            &pool.latency,
            &context.system.latency,
            &self.scenario.latency,
        ) {
            (Some(choice), ..) => (format!("{pool_path}.latency"), choice),
            (None, Some(choice), _) => (format!("{}.latency", context.path), choice),
            (None, None, Some(choice)) => ("latency".to_owned(), choice),
            // Defaults fill this for every system whose name and engine are right; the others are refused anyway.
            (None, None, None) => return None,
        };
        let published = has_polynomial(
            context.engine.polynomial_set,
            &context.model.name,
            pool,
            machine.formats,
        );
        if let Some(kind) = kind(choice) {
            self.step_times.push((pool_path.to_owned(), kind));
        }
        match choice {
            WordOr::Word(word) if word == "polynomial" => self.polynomial(
                context,
                &path,
                pool_path,
                &PolynomialLatency::default(),
                machine,
            ),
            WordOr::Word(word) if word == "roofline" => {
                self.roofline_fact(pool_path, pool, published);
                self.roofline(
                    context,
                    (&path, pool_path),
                    &RooflineLatency::default(),
                    machine,
                )
            }
            WordOr::Word(word) if word == "calibrated" => {
                let open = CalibratedLatency::default();
                self.calibrated(context, (&path, pool_path), pool, &open, machine, published)
            }
            WordOr::Map(LatencyKind::Calibrated(terms)) => {
                self.calibrated(context, (&path, pool_path), pool, terms, machine, published)
            }
            WordOr::Word(word) => {
                let near = did_you_mean(word, WORDS);
                self.wrong(&path, format!("unknown step-time model `{word}`{near} (allowed: polynomial, calibrated, roofline, {{fixed: …}}, {{polynomial: …}}, {{calibrated: …}}, {{roofline: …}})"));
                None
            }
            WordOr::Map(LatencyKind::Fixed(fixed)) => {
                self.fact(pool_path, "fixed step times".to_owned());
                self.fixed(&path, fixed)
            }
            WordOr::Map(LatencyKind::Polynomial(terms)) => {
                self.polynomial(context, &path, pool_path, terms, machine)
            }
            WordOr::Map(LatencyKind::Roofline(figures)) => {
                self.roofline_fact(pool_path, pool, published);
                self.roofline(context, (&path, pool_path), figures, machine)
            }
        }
    }

    fn roofline_fact(&mut self, pool_path: &str, pool: &Pool, published: bool) {
        let why = if published {
            "as the scenario says; published coefficients exist"
        } else if hardware::has_surfaces(&pool.gpu).unwrap_or(false) {
            "as the scenario says; the GPU's profile has timings"
        } else {
            "no published coefficients for this pool, no timings in the GPU's profile"
        };
        self.fact(pool_path, format!("roofline step times ({why})"));
    }

    /// The engine's time per step: the scenario's figures, else the preset's; says which.
    pub(super) fn overhead(
        &mut self,
        context: &PoolContext<'_>,
        pool_path: &str,
        step: Option<Span>,
        per_sequence: Option<Span>,
    ) -> Overhead {
        let preset = context.engine.host.overhead();
        let overhead = Overhead {
            step: step.map_or(preset.step, |span| span.0),
            per_sequence: per_sequence.map_or(preset.per_sequence, |span| span.0),
            ..Overhead::NONE
        };
        let source = if overhead == preset {
            context.engine.host.source
        } else {
            "as the scenario says"
        };
        if overhead != Overhead::NONE {
            self.fact(
                pool_path,
                format!(
                    "engine time of {:.3} ms per step and {:.1} us per sequence of it ({source})",
                    overhead.step.as_ms_f64(),
                    overhead.per_sequence.as_ms_f64() * 1e3,
                ),
            );
        }
        overhead
    }

    pub(super) fn fact(&mut self, pool_path: &str, text: String) {
        self.facts.push((pool_path.to_owned(), text));
    }

    fn fixed(&mut self, path: &str, fixed: &FixedLatency) -> Option<Model> {
        let time = |span: Option<Span>| span.map_or(SimDuration::ZERO, |span| span.0);
        let model = Fixed {
            prefill: time(fixed.prefill),
            prefill_per_token: time(fixed.prefill_per_token),
            decode: time(fixed.decode),
            decode_per_sequence: time(fixed.decode_per_sequence),
        };
        // A step without duration would let a simulation go on for ever at one instant.
        let prefills = model.prefill + model.prefill_per_token;
        let decodes = model.decode + model.decode_per_sequence;
        let lasts = prefills > SimDuration::ZERO && decodes > SimDuration::ZERO;
        let before = format!("{path}.fixed");
        self.require(lasts, &before, || "lets steps take no time; give `prefill` or `prefill_per_token`, and `decode` or `decode_per_sequence`".to_owned())
            .then(|| Arc::new(model) as Model)
    }

    fn polynomial(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool_path: &str,
        terms: &PolynomialLatency,
        machine: Machine<'_>,
    ) -> Option<Model> {
        let mut coefficients = self.coefficients(context, path, pool_path, terms, machine)?;
        let ms =
            |span: Option<Span>, published: f64| span.map_or(published, |span| span.0.as_ms_f64());
        coefficients.prefill_stage_overhead = ms(
            terms.prefill_stage_overhead,
            coefficients.prefill_stage_overhead,
        );
        coefficients.step_overhead = ms(terms.step_overhead, coefficients.step_overhead);
        coefficients.step_overhead_per_token = ms(
            terms.step_overhead_per_token,
            coefficients.step_overhead_per_token,
        );
        let model = Polynomial::new(coefficients)
            .map_err(|error| self.wrong(path, error.to_string()))
            .ok()?;
        Some(Arc::new(model))
    }

    /// The coefficients written in the scenario, or those of a published set.
    fn coefficients(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool_path: &str,
        terms: &PolynomialLatency,
        machine: Machine<'_>,
    ) -> Option<Coefficients> {
        match (terms.prefill_ms, terms.decode_ms) {
            (Some(prefill), Some(decode)) => {
                self.require(terms.set.is_none(), path, || {
                    "names a `set` and writes coefficients; remove one of them".to_owned()
                });
                self.fact(
                    pool_path,
                    "polynomial step times (coefficients of the scenario)".to_owned(),
                );
                Some(Coefficients {
                    prefill,
                    decode,
                    prefill_stage_overhead: 0.0,
                    step_overhead: 0.0,
                    step_overhead_per_token: 0.0,
                })
            }
            (None, None) => {
                let set = terms
                    .set
                    .as_deref()
                    .unwrap_or(context.engine.polynomial_set);
                let Machine {
                    gpu,
                    parallelism,
                    formats,
                } = machine;
                self.require(formats == Formats::BF16, path, || {
                    format!(
                        "has published coefficients of 16-bit weights and KV only, not of {} weights and {} KV; use `calibrated` or `roofline`, or write coefficients",
                        formats.weights.name(),
                        formats.kv.name()
                    )
                })
                .then_some(())?;
                let (model, tp) = (&context.model.name, parallelism.tp);
                match polynomial::published(set, &gpu.name, model, tp) {
                    Ok(published) => {
                        let what =
                            format!("published set `{set}` for {model} tp {tp} on {}", gpu.name);
                        self.fact(pool_path, format!("polynomial step times ({what})"));
                        Some(*published.coefficients())
                    }
                    Err(error) => {
                        self.wrong(
                            path,
                            format!(
                                "{error}; use `calibrated` or `roofline`, or write coefficients"
                            ),
                        );
                        None
                    }
                }
            }
            (Some(_), None) | (None, Some(_)) => {
                self.wrong(path, "needs both `prefill_ms` and `decode_ms`, or neither");
                None
            }
        }
    }

    /// Data-sheet peaks times the given shares.
    fn roofline(
        &mut self,
        context: &PoolContext<'_>,
        (path, pool_path): (&str, &str),
        figures: &RooflineLatency,
        machine: Machine<'_>,
    ) -> Option<Model> {
        let stated = Efficiency::default();
        let seconds =
            |span: Option<Span>, stated: f64| span.map_or(stated, |span| span.0.as_secs_f64());
        let efficiency = Efficiency {
            gemm: figures.gemm.unwrap_or(stated.gemm),
            prefill_attention: figures
                .prefill_attention
                .unwrap_or(stated.prefill_attention),
            memory: figures.memory.unwrap_or(stated.memory),
            link: figures.link.unwrap_or(stated.link),
            kernel_seconds: seconds(figures.kernel_time, stated.kernel_seconds),
            collective_seconds: seconds(figures.collective_time, stated.collective_seconds),
        };
        let overhead = self.overhead(
            context,
            pool_path,
            figures.step_overhead,
            figures.step_overhead_per_sequence,
        );
        let kernels = Datasheet::new(machine.gpu.clone(), efficiency);
        let model = kernels.and_then(|kernels| {
            Composed::new(
                context.model,
                kernels,
                machine.parallelism,
                machine.formats,
                overhead,
            )
        });
        match model {
            Ok(model) => Some(Arc::new(model)),
            Err(error) => {
                self.wrong(path, error.to_string());
                None
            }
        }
    }
}
