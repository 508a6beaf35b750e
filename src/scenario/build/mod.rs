//! From a filled scenario to models and numbers, collecting every problem on the way.

mod arrivals;
mod calibrated;
mod effects;
mod formats;
mod kv;
mod latency;
mod multiplex;
mod network;
mod pool;
mod queue;
mod roles;
mod router;
mod staging;
mod system;
mod topology;
mod transfer;
mod workload;

pub(super) use calibrated::ModelCache;
pub(super) use formats::formats;
pub(super) use router::FALLBACK;
pub(super) use workload::{TraceCache, resolve as resolve_path};

use super::document::Document;
use super::experiment::{OutputChoice, Point};
use super::problem::Problem;
use super::schema::{self, Scenario};
use super::warning::StepTimes;
use crate::metrics::{Slo, Warmup};
use crate::units::SimTime;

/// One point being built: where problems are written and what is worth telling.
pub(super) struct Builder<'d> {
    document: &'d Document,
    scenario: &'d Scenario,
    /// Everything wrong so far.
    pub(super) problems: Vec<Problem>,
    /// What a reader should know, one line each.
    pub(super) notes: Vec<String>,
    /// How each pool was resolved, for the head of the resolved scenario: pool path, fact.
    pub(super) facts: Vec<(String, String)>,
    /// The kind of step-time model of each pool, by pool path.
    pub(super) step_times: Vec<(String, StepTimes)>,
    /// Share of the time of typical steps inside measured ranges, by pool path.
    pub(super) measured: Vec<(String, f64)>,
    /// Names of the request classes by number, once the workload's trace has been read.
    classes: Option<Vec<String>>,
    /// Step-time models made for earlier pools and points.
    pub(super) models: ModelCache,
}

impl<'d> Builder<'d> {
    /// Starts on `scenario`, the filled reading of `document`.
    pub(super) fn new(document: &'d Document, scenario: &'d Scenario) -> Self {
        Self {
            document,
            scenario,
            problems: Vec::new(),
            notes: Vec::new(),
            facts: Vec::new(),
            step_times: Vec::new(),
            measured: Vec::new(),
            classes: None,
            models: ModelCache::default(),
        }
    }

    /// Builds the point; `None` when there are problems.
    pub(super) fn point(&mut self, traces: &mut TraceCache) -> Option<Point> {
        self.check_name();
        let slo = self.slo();
        let workload = self.workload(traces);
        self.check_warmup();
        self.check_output();
        let systems = self.systems();
        if let (Some(workload), Some(systems)) = (&workload, &systems) {
            self.check_lengths(workload, systems);
        }
        if !self.problems.is_empty() {
            return None;
        }
        Some(Point {
            workload: workload?,
            systems: systems?,
            slo,
            warmup: self.warmup(),
            horizon: self.horizon(),
            rate_per_s: self.rate(),
        })
    }

    /// Files a problem about the key at `path`.
    fn wrong(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(self.document.problem(path, message));
    }

    /// Files a problem unless `good`; says whether it is.
    fn require(&mut self, good: bool, path: &str, message: impl FnOnce() -> String) -> bool {
        if !good {
            self.wrong(path, message());
        }
        good
    }

    /// Files a problem about a key that is of no effect; a note where the sweep changes something beside it in the map at `around`,
    /// since at another point the key may be needed.
    fn require_use(
        &mut self,
        used: bool,
        around: &str,
        path: &str,
        message: impl FnOnce() -> String,
    ) {
        if used {
            return;
        }
        let message = message();
        self.without_use(self.document.swept_beside(around, path), path, message);
    }

    /// Files a problem about a key that is of no effect; a note where the sweep value `at` decides that.
    fn without_use(&mut self, at: Option<&str>, path: &str, message: String) {
        match at {
            Some(value) => {
                let note = format!("at sweep value `{value}`, {path} {message}");
                self.notes.push(note);
            }
            None => self.wrong(path, message),
        }
    }

    /// The name is a folder below `output`, so it must not lead elsewhere.
    fn check_name(&mut self) {
        let name = self.scenario.name.as_deref().unwrap_or_default();
        let odd = |c: char| c.is_control() || "/\\".contains(c);
        let good = !name.trim().is_empty() && !name.starts_with('.') && !name.contains(odd);
        self.require(good, "name", || {
            format!("is {name:?}, expected the name of a folder: not empty, no leading `.`, no `/` and no `\\`")
        });
    }

    /// A warm-up by count that swallows every request of a generated workload.
    fn check_warmup(&mut self) {
        let Some(workload) = &self.scenario.workload else {
            return;
        };
        if let (Some(schema::Warmup::Requests(warmup)), Some(requests)) =
            (workload.warmup, workload.requests)
        {
            self.require(warmup < requests.max(1), "workload.warmup", || {
                format!("leaves out {warmup} of {requests} requests, so none is measured; lower it or raise `requests`")
            });
        }
        let Some(schema::Warmup::Time(warmup)) = workload.warmup else {
            return;
        };
        // A client that keeps a plan may send its last requests long after the plan has ended.
        let arriving = workload.duration.filter(|_| workload.concurrency.is_none());
        let arriving = arriving.map(|span| ("workload.duration", span.0));
        let running = match self.scenario.horizon {
            Some(schema::Horizon::At(span)) => Some(("horizon", span)),
            Some(schema::Horizon::None) | None => None,
        };
        for (key, span) in [arriving, running].into_iter().flatten() {
            self.require(warmup < span, "workload.warmup", || {
                format!(
                    "leaves out the first {} s, but no request arrives after {} s (`{key}`), so none is measured; lower it or raise `{key}`",
                    warmup.as_secs_f64(),
                    span.as_secs_f64()
                )
            });
        }
    }

    /// A list over requests cannot be written without their records.
    fn check_output(&mut self) {
        let output = self.output();
        self.require(
            output.requests || !output.vllm_bench,
            "output.vllm_bench",
            || {
                "lists every request, which `requests: false` does not keep; remove one of them"
                    .to_owned()
            },
        );
    }

    fn slo(&mut self) -> Option<Slo> {
        let slo = self.scenario.slo.as_ref()?;
        let limits = [slo.ttft, slo.tpot, slo.e2e];
        self.require(limits.iter().any(Option::is_some), "slo", || {
            "promises nothing; write at least one of `ttft`, `tpot`, `e2e`".to_owned()
        });
        for (key, limit) in ["ttft", "tpot", "e2e"].into_iter().zip(limits) {
            let positive = limit.is_none_or(|span| span.0.as_ps() > 0);
            self.require(positive, &format!("slo.{key}"), || {
                "is zero, which no request meets; write a duration above zero".to_owned()
            });
        }
        let attainment = slo.attainment.unwrap_or_default();
        self.require(
            attainment > 0.0 && attainment <= 1.0,
            "slo.attainment",
            || format!("is {attainment}, expected a share above 0 and at most 1, such as 0.9"),
        );
        Some(Slo {
            ttft: slo.ttft.map(|span| span.0),
            tpot: slo.tpot.map(|span| span.0),
            e2e: slo.e2e.map(|span| span.0),
            attainment,
        })
    }

    fn warmup(&self) -> Warmup {
        match self.scenario.workload.as_ref().and_then(|w| w.warmup) {
            None | Some(schema::Warmup::Requests(0)) => Warmup::None,
            Some(schema::Warmup::Requests(count)) => Warmup::Requests(count),
            Some(schema::Warmup::Time(span)) => Warmup::Time(span),
        }
    }

    fn horizon(&self) -> Option<SimTime> {
        match self.scenario.horizon {
            None | Some(schema::Horizon::None) => None,
            Some(schema::Horizon::At(span)) => Some(SimTime::ZERO + span),
        }
    }

    fn rate(&self) -> Option<f64> {
        Some(self.scenario.workload.as_ref()?.rate?.0)
    }

    /// What to write.
    pub(super) fn output(&self) -> OutputChoice {
        let output = self.scenario.output.clone().unwrap_or_default();
        OutputChoice {
            requests: output.requests.unwrap_or(true),
            charts: output.charts.unwrap_or(true),
            vllm_bench: output.vllm_bench.unwrap_or(false),
        }
    }
}
