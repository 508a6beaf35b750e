//! Arrival processes by name or by parameters.

use crate::names::did_you_mean;
use crate::scenario::schema::{self, ArrivalKind, Step, WordOr};
use crate::workload::arrivals::{Gaps, Intensity, Segment};
use crate::workload::{ArrivalProcess, ReadOptions};

use super::{Builder, TraceCache};

/// The processes that need no parameters but the rate.
const WORDS: [&str; 3] = ["poisson", "poisson_rescaled", "constant"];

impl Builder<'_> {
    /// Whether the client sends whenever it may; complains about keys that such a client has no use for.
    pub(super) fn is_closed(&mut self, workload: &schema::Workload) -> bool {
        let closed = matches!(&workload.arrivals, Some(WordOr::Word(word)) if word == schema::Workload::CLOSED);
        if !closed {
            return false;
        }
        self.require(workload.concurrency.is_some(), "workload", || {
            "the key `concurrency` is missing; write how many requests a closed loop keeps in flight, as in `concurrency: 32`".to_owned()
        });
        for (key, there) in [
            ("rate", workload.rate.is_some()),
            ("duration", workload.duration.is_some()),
            ("time_scale", workload.time_scale.is_some()),
            ("shuffle_arrivals", workload.shuffle_arrivals.is_some()),
        ] {
            self.require(!there, &format!("workload.{key}"), || {
                "has no effect with `arrivals: closed`, which sends the next request when one ends; remove it, or name another arrival process to hold the client to a plan within its `concurrency`".to_owned()
            });
        }
        true
    }

    /// Builds the arrival process; `None` when it cannot be.
    pub(super) fn arrivals(
        &mut self,
        workload: &schema::Workload,
        traces: &mut TraceCache,
    ) -> Option<ArrivalProcess> {
        if self.is_closed(workload) {
            return Some(ArrivalProcess::AtOnce);
        }
        let rate = workload.rate.map(|rate| rate.0);
        if let Some(WordOr::Map(ArrivalKind::Replay(path))) = &workload.arrivals {
            let trace = self.trace(path, &ReadOptions::default(), traces)?;
            let replay = ArrivalProcess::Replay(trace);
            let Some(rate) = rate else {
                return Some(replay);
            };
            let stretched = replay.with_rate(rate);
            return stretched
                .map_err(|error| self.workload_problem(&error))
                .ok();
        }
        let intensity = match &workload.arrivals {
            Some(WordOr::Map(kind)) => intensity(kind),
            None | Some(WordOr::Word(_)) => None,
        };
        // A process written in rates of its own needs no mean rate beside it.
        let own = match &workload.arrivals {
            Some(WordOr::Map(ArrivalKind::Schedule(_) | ArrivalKind::Mmpp(_))) => {
                intensity.as_ref().map(Intensity::mean)
            }
            _ => None,
        };
        let Some(rate) = rate.or(own) else {
            self.wrong(
                "workload",
                "the key `rate` is missing; write the mean arrival rate, as in `rate: 2 /s`",
            );
            return None;
        };
        match &workload.arrivals {
            None => Some(ArrivalProcess::Poisson { rate }),
            Some(WordOr::Word(word)) => self.named_arrivals(word, rate),
            Some(WordOr::Map(ArrivalKind::Gamma(gamma))) => {
                Some(ArrivalProcess::Gamma { rate, cv: gamma.cv })
            }
            Some(WordOr::Map(_)) => Some(ArrivalProcess::Modulated {
                rate,
                gaps: Gaps::Exponential,
                intensity: intensity?,
            }),
        }
    }

    fn named_arrivals(&mut self, word: &str, rate: f64) -> Option<ArrivalProcess> {
        match word {
            "poisson" => Some(ArrivalProcess::Poisson { rate }),
            "poisson_rescaled" => Some(ArrivalProcess::PoissonRescaled { rate }),
            "constant" => Some(ArrivalProcess::Constant { rate }),
            _ => {
                let kinds = [
                    "gamma", "on_off", "mmpp", "schedule", "day", "sinusoid", "replay",
                ];
                let words = WORDS.into_iter().chain([schema::Workload::CLOSED]);
                let near = did_you_mean(word, words.chain(kinds));
                self.wrong(
                    "workload.arrivals",
                    format!(
                        "unknown arrival process `{word}`{near} (allowed: {}, closed, {{gamma: {{cv: 2}}}}, or one of {} with its parameters)",
                        WORDS.join(", "),
                        kinds[1..].join(", ")
                    ),
                );
                None
            }
        }
    }
}

/// The intensity of a kind that varies over time.
fn intensity(kind: &ArrivalKind) -> Option<Intensity> {
    let segments = |steps: &[Step]| {
        let segment = |step: &Step| Segment {
            span: step.span.0,
            rate: step.rate.0,
        };
        steps.iter().map(segment).collect()
    };
    match kind {
        ArrivalKind::Gamma(_) | ArrivalKind::Replay(_) => None,
        ArrivalKind::OnOff(burst) => Some(Intensity::on_off(
            burst.on.0,
            burst.off.0,
            burst.off_share.unwrap_or(0.0),
        )),
        ArrivalKind::Mmpp(steps) => Some(Intensity::Markov {
            states: segments(steps),
        }),
        ArrivalKind::Schedule(steps) => Some(Intensity::Schedule {
            segments: segments(steps),
            repeat: true,
        }),
        ArrivalKind::Day(hourly) => Some(Intensity::day(*hourly)),
        ArrivalKind::Sinusoid(wave) => Some(Intensity::Sinusoid {
            period: wave.period.0,
            amplitude: wave.amplitude,
            phase: wave.phase.unwrap_or(0.0),
        }),
    }
}
