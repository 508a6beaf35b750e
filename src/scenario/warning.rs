//! What a reader must know about a scenario before trusting its comparison: seen, why it matters, what to do.

use std::fmt;

use crate::cluster::{KvReserve, Role, SystemSpec};

/// Kinds of step-time models, which err in ways of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepTimes {
    /// Coefficients fitted to measurements.
    Polynomial,
    /// Kernel timings of GPU profiles.
    Calibrated,
    /// Data-sheet peaks times efficiencies.
    Roofline,
    /// Constants of the scenario.
    Fixed,
}

impl fmt::Display for StepTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polynomial => "polynomial",
            Self::Calibrated => "calibrated",
            Self::Roofline => "roofline",
            Self::Fixed => "fixed",
        })
    }
}

/// A reason to read the comparison of a scenario's systems with care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Pools of one point of the sweep take their step times from models of different kinds.
    MixedStepTimes {
        /// Key path of a pool and the kind of its model, then those of the first pool of another kind.
        pools: [(String, StepTimes); 2],
    },
    /// A pool takes its step times from a model of another kind at another point of the sweep.
    ChangingStepTimes {
        /// Key path of the pool.
        pool: String,
        /// The swept key.
        axis: String,
        /// Value of the axis and kind of model: of the first point, and of the first one that differs.
        points: [(String, StepTimes); 2],
    },
    /// Most of the time of a pool's typical steps lies outside the ranges that were measured.
    Extrapolated {
        /// Key path of the pool.
        pool: String,
        /// Percent of the time inside.
        measured: u32,
    },
    /// A system admits by the true output lengths.
    Oracle {
        /// Its name.
        system: String,
    },
}

/// Less than this share of measured time is worth a warning.
const MEASURED: f64 = 0.5;

impl Warning {
    /// The warning about the pools of one point, if their step times come from different kinds of models.
    pub(super) fn mixed(kinds: &[(String, StepTimes)]) -> Option<Self> {
        let (first, rest) = kinds.split_first()?;
        let other = rest.iter().find(|(_, kind)| *kind != first.1)?;
        Some(Self::MixedStepTimes {
            pools: [first.clone(), other.clone()],
        })
    }

    /// The warning about the first pool whose step times change their kind along the axis, by the pools' kinds at each of its `labels`.
    pub(super) fn changing(
        axis: &str,
        labels: &[&str],
        points: &[Vec<(String, StepTimes)>],
    ) -> Option<Self> {
        let (first, rest) = points.split_first()?;
        first.iter().find_map(|(pool, kind)| {
            let mut later = rest.iter().zip(labels.iter().skip(1));
            let (label, other) = later.find_map(|(kinds, label)| {
                let (_, other) = kinds.iter().find(|(name, _)| name == pool)?;
                (other != kind).then_some((*label, *other))
            })?;
            Some(Self::ChangingStepTimes {
                pool: pool.clone(),
                axis: axis.to_owned(),
                points: [
                    ((*labels.first()?).to_owned(), *kind),
                    (label.to_owned(), other),
                ],
            })
        })
    }

    /// The warning about a pool of which `measured` is the share of the time of its typical steps inside measured ranges.
    pub(super) fn extrapolated(pool: &str, measured: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of hundred"
        )]
        let percent = (measured.clamp(0.0, 1.0) * 100.0).round() as u32;
        (measured < MEASURED).then(|| Self::Extrapolated {
            pool: pool.to_owned(),
            measured: percent,
        })
    }

    /// A warning for each system that knows how long outputs will be.
    pub(super) fn oracles(systems: &[SystemSpec]) -> Vec<Self> {
        let knows = |system: &&SystemSpec| {
            let pools = system.pools.iter();
            let mut decoding = pools.filter(|pool| pool.role != Role::Prefill);
            decoding.any(|pool| {
                matches!(
                    pool.kv.reserve,
                    KvReserve::Oracle | KvReserve::OracleAtDecode
                )
            })
        };
        systems
            .iter()
            .filter(knows)
            .map(|system| Self::Oracle {
                system: system.name.clone(),
            })
            .collect()
    }

    /// What was seen.
    #[must_use]
    pub fn seen(&self) -> String {
        match self {
            Self::MixedStepTimes {
                pools: [(a, kind), (b, other)],
            } => format!("{a} has {kind} step times, {b} {other} ones"),
            Self::ChangingStepTimes {
                pool,
                axis,
                points: [(a, kind), (b, other)],
            } => {
                format!("{pool} has {kind} step times at {axis} = {a}, {other} ones at {b}")
            }
            Self::Extrapolated { pool, measured } => format!(
                "{measured} % of the kernel time of {pool}'s typical steps comes from inside measured ranges"
            ),
            Self::Oracle { system } => {
                format!("{system} admits by true output lengths (`kv_reserve: oracle`)")
            }
        }
    }

    /// Why it matters.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Self::MixedStepTimes { .. } => {
                "part of the difference between systems may be one between the models of the hardware"
            }
            Self::ChangingStepTimes { .. } => {
                "part of the difference between these points may be one between the models of the hardware"
            }
            Self::Extrapolated { .. } => {
                "the rest is scaled from other shapes, formats or GPUs by their data sheets"
            }
            Self::Oracle { .. } => "no engine knows them",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        use StepTimes::{Calibrated, Polynomial};
        match self {
            Self::MixedStepTimes {
                pools: kinds @ [_, _],
            }
            | Self::ChangingStepTimes { points: kinds, .. }
                if matches!(
                    kinds,
                    [(_, Polynomial | Calibrated), (_, Polynomial | Calibrated)]
                ) =>
            {
                "add `latency: calibrated` at the top of the scenario"
            }
            Self::MixedStepTimes { .. } | Self::ChangingStepTimes { .. } => {
                "add `latency: roofline` at the top of the scenario"
            }
            Self::Extrapolated { .. } => {
                "see `pdsim explain`, and measure that GPU with `pdsim calibrate`"
            }
            Self::Oracle { .. } => "read it as a bound on what predicting lengths could buy",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.seen(), self.why(), self.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_changes_along_the_axis_is_warned_of() {
        use StepTimes::{Calibrated, Polynomial};
        let point = |a, b| vec![("a".to_owned(), a), ("b".to_owned(), b)];
        let labels = ["bf16", "int8", "fp8"];
        let changing = [
            point(Calibrated, Polynomial),
            point(Calibrated, Polynomial),
            point(Calibrated, Calibrated),
        ];
        let text = Warning::changing("kv_dtype", &labels, &changing)
            .unwrap()
            .to_string();
        assert!(
            text.starts_with(
                "b has polynomial step times at kv_dtype = bf16, calibrated ones at fp8: "
            ) && text.ends_with("add `latency: calibrated` at the top of the scenario"),
            "{text}"
        );
        assert_eq!(Warning::changing("kv_dtype", &labels, &changing[..2]), None);
        assert_eq!(Warning::changing("", &[], &[]), None);
    }

    #[test]
    fn pools_that_are_mostly_guessed_are_warned_of() {
        assert_eq!(Warning::extrapolated("a", 0.5), None);
        let text = Warning::extrapolated("systems.a.pool", 0.123)
            .unwrap()
            .to_string();
        assert!(
            text.starts_with("12 % of the kernel time of systems.a.pool's typical steps"),
            "{text}"
        );
    }

    #[test]
    fn pools_of_one_kind_are_not_warned_of() {
        let pool = |name: &str, kind| (name.to_owned(), kind);
        let same = [
            pool("a", StepTimes::Roofline),
            pool("b", StepTimes::Roofline),
        ];
        assert_eq!(Warning::mixed(&same), None);
        assert_eq!(Warning::mixed(&[]), None);
        let mixed = [
            pool("a", StepTimes::Polynomial),
            pool("b", StepTimes::Roofline),
        ];
        let text = Warning::mixed(&mixed).unwrap().to_string();
        assert!(
            text.starts_with("a has polynomial step times, b roofline ones: "),
            "{text}"
        );
    }
}
