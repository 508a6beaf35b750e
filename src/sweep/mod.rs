//! Grids of runs: points of the sweep × systems × seeds, simulated on threads.
//!
//! Each run is a simulation of its own, so runs share nothing but their resolved inputs; results come back in the
//! order of the grid whatever the number of threads (law L7). For a seed, every system of a point draws the same
//! arrivals and lengths, and points that differ in rate only draw the same pattern, stretched.

mod describe;

use rayon::prelude::*;

use crate::metrics::{Collector, Config};
use crate::report::{Report, Run};
use crate::scenario::Experiment;
use crate::sim;
use crate::workload::Client;
use crate::workload::closed_loop::ClosedLoop;

/// Says why a run could not be carried through.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulation itself stopped.
    #[error("{system}, seed {seed}{point}: {source}")]
    Simulation {
        /// Name of the system.
        system: String,
        /// Seed of the run.
        seed: u64,
        /// `, at <label>` of the point, or nothing without a sweep.
        point: String,
        /// What the simulation says.
        source: sim::Error,
    },
    /// The workload could not be carried through.
    #[error("{0}")]
    Workload(String),
    /// No threads to run on.
    #[error("cannot start threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// One cell of the grid, by position.
#[derive(Debug, Clone, Copy)]
struct Cell {
    point: usize,
    system: usize,
    seed: u64,
}

/// How many runs an experiment makes.
#[must_use]
pub fn runs(experiment: &Experiment) -> usize {
    experiment
        .points
        .iter()
        .map(|point| point.systems.len())
        .sum::<usize>()
        * experiment.seeds.len()
}

/// Simulates every run of the experiment on `threads` threads (`None`: one per core) and reports what came out.
/// `done` is called after each run, from any thread.
///
/// # Errors
/// When a simulation stops, the first of the grid's order; or when no threads can be started.
pub fn run(
    experiment: &Experiment,
    threads: Option<usize>,
    done: &(dyn Fn() + Sync),
) -> Result<Report, Error> {
    let cells = grid(experiment);
    // Threads beyond the runs would only take time and memory to start; 0 means one per core.
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0).min(cells.len()))
        .build()?;
    let one = |cell: &Cell| {
        let run = simulate(experiment, *cell);
        done();
        run
    };
    let runs: Vec<Result<Run, Error>> = pool.install(|| cells.par_iter().map(one).collect());
    let runs = runs.into_iter().collect::<Result<Vec<Run>, Error>>()?;
    Ok(describe::report(experiment, runs))
}

/// All cells: point by point, system by system, seed by seed.
fn grid(experiment: &Experiment) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (point, described) in experiment.points.iter().enumerate() {
        for system in 0..described.systems.len() {
            for &seed in &experiment.seeds {
                cells.push(Cell {
                    point,
                    system,
                    seed,
                });
            }
        }
    }
    cells
}

fn simulate(experiment: &Experiment, cell: Cell) -> Result<Run, Error> {
    let point = &experiment.points[cell.point];
    let system = &point.systems[cell.system];
    let config = Config {
        slo: point.slo,
        warmup: point.warmup,
        keep_requests: experiment.output.requests,
        client: point.workload.client(),
    };
    let mut collector = Collector::new(&config, system);
    let options = sim::Options {
        seed: cell.seed,
        horizon: point.horizon,
        prefixes: point.workload.prefixes(),
    };
    let requests = point.workload.stream(cell.seed);
    let end = match point.workload.client() {
        Client::Open => sim::simulate(system, requests, options, &mut collector),
        Client::Closed { concurrency, paced } => {
            let client = ClosedLoop::new(concurrency, paced, requests);
            sim::simulate_from(system, client, options, &mut collector)
        }
    };
    // A trace that breaks off in the middle would pass for a shorter one.
    if let Some(failure) = point.workload.failure() {
        return Err(Error::Workload(failure));
    }
    end.map_err(|source| {
        let label = &experiment.axis.values[cell.point].0;
        Error::Simulation {
            system: system.name.clone(),
            seed: cell.seed,
            point: if label.is_empty() {
                String::new()
            } else {
                format!(", at {label}")
            },
            source,
        }
    })?;
    Ok(Run {
        system: cell.system,
        point: cell.point,
        seed: cell.seed,
        metrics: collector.into_metrics(),
    })
}
