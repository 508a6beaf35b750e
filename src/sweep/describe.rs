//! What a report needs to know about an experiment, in words.

use std::fmt::Write as _;

use crate::cluster::{PoolSpec, Role, SystemSpec};
use crate::report::{Axis, AxisValue, Report, Run, Shape, SystemInfo};
use crate::scenario::Experiment;

/// Puts the runs of an experiment beside the names of what was run.
pub(super) fn report(experiment: &Experiment, runs: Vec<Run>) -> Report {
    let first = &experiment.points[0];
    let values =
        experiment
            .axis
            .values
            .iter()
            .zip(&experiment.points)
            .map(|((label, value), point)| AxisValue {
                label: label.clone(),
                value: *value,
                rate_per_s: point.rate_per_s,
            });
    Report {
        name: experiment.name.clone(),
        question: experiment.question.clone(),
        slo: first.slo,
        systems: (0..first.systems.len())
            .map(|system| info(experiment, system))
            .collect(),
        axis: Axis {
            key: experiment.axis.key.clone(),
            unit: experiment.axis.unit.to_owned(),
            is_rate: experiment.axis.is_rate,
            values: values.collect(),
        },
        runs,
        notes: experiment.notes.clone(),
        cautions: experiment
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect(),
    }
}

/// A system under its name and what each point makes of it.
fn info(experiment: &Experiment, system: usize) -> SystemInfo {
    let points = experiment.points.iter();
    SystemInfo {
        name: experiment.points[0].systems[system].name.clone(),
        shapes: points.map(|point| shape(&point.systems[system])).collect(),
    }
}

fn shape(system: &SystemSpec) -> Shape {
    Shape {
        layout: layout(&system.pools),
        gpus: system.gpus(),
    }
}

/// `3 x a100-80g-sxm tp1`, or `1P1D: a100-80g-sxm tp2 + h100-sxm tp1`.
fn layout(pools: &[PoolSpec]) -> String {
    let shape = |pool: &PoolSpec| {
        let mut text = format!("{} tp{}", pool.gpu, pool.tp);
        for (name, degree) in [("pp", pool.pp), ("dp", pool.dp), ("ep", pool.ep)] {
            if degree > 1 {
                let _ = write!(text, " {name}{degree}");
            }
        }
        text
    };
    match pools {
        [pool] => format!("{} x {}", pool.instances, shape(pool)),
        pools => {
            let count = |role| {
                pools
                    .iter()
                    .filter(|p| p.role == role)
                    .map(|p| p.instances)
                    .sum::<u32>()
            };
            let shapes: Vec<String> = pools.iter().map(shape).collect();
            let (prefill, decode) = (count(Role::Prefill), count(Role::Decode));
            format!("{prefill}P{decode}D: {}", shapes.join(" + "))
        }
    }
}
