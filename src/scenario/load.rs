//! From a file to an experiment: overrides, sweep, defaults, models, and the resolved text.

use std::path::Path;

use serde_yaml::Value;

use super::build::{Builder, ModelCache, TraceCache};
use super::document::{Document, inline};
use super::experiment::{Experiment, Point};
use super::problem::{Error, Problem};
use super::schema::{self, Scenario};
use super::warning::{StepTimes, Warning};
use super::{axis, defaults, resolved};

/// More points than this in one sweep is a slip of the keyboard.
const MAX_POINTS: usize = 10_000;

/// Reads a scenario file, applies `--set` flags (`key.path=value`), and resolves it.
///
/// # Errors
/// When the file cannot be read, or anything in it is wrong: every problem found, one line each.
pub fn load(path: &Path, flags: &[String]) -> Result<Experiment, Error> {
    let mut document = Document::read(path)?;
    for flag in flags {
        document.set_flag(flag)?;
    }
    resolve(document)
}

/// Resolves a scenario that has been read and overridden.
///
/// # Errors
/// When anything in it is wrong: every problem found, one line each.
pub fn resolve(mut document: Document) -> Result<Experiment, Error> {
    let section = document.take("sweep").unwrap_or(Value::Null);
    let mut axes = schema::read_sweep(&section)
        .map_err(|(path, message)| Error::from(document.problem(&path, message)))?;
    // A flag fixes its key: that axis of the sweep is gone.
    axes.retain(|(key, _)| !document.is_set_by_flag(key));
    // Counted before they are made: a slip of the keyboard may ask for billions.
    check_axes(&document, &axes)?;
    let combinations = axis::combinations(&axes);

    let stem = document
        .path()
        .file_stem()
        .map_or("scenario".into(), |s| s.to_string_lossy().into_owned());
    let mut loader = Loader::default();
    for values in &combinations {
        loader.point(&document, &axes, values, &stem);
    }
    loader.finish(&document, &axes, &combinations)
}

/// Refuses sweeps over what is not a property of a run, and sweeps without end.
fn check_axes(document: &Document, axes: &schema::Axes) -> Result<(), Error> {
    let mut points = 1_usize;
    for (key, values) in axes {
        let top = key.split('.').next().unwrap_or_default();
        if ["name", "question", "seeds", "output", "sweep", "pdsim"].contains(&top) {
            let message = "cannot be swept: it does not describe a system, a workload or a promise";
            return Err(document.problem(&format!("sweep.{key}"), message).into());
        }
        let twice = values
            .iter()
            .enumerate()
            .find(|(at, value)| values[..*at].contains(value));
        if let Some((_, value)) = twice {
            let message = format!("names {} twice; name each value once", inline(value));
            return Err(document.problem(&format!("sweep.{key}"), message).into());
        }
        points = points.saturating_mul(values.len());
    }
    if points > MAX_POINTS {
        let message = format!("makes {points} points, at most {MAX_POINTS} are allowed");
        return Err(document.problem("sweep", message).into());
    }
    Ok(())
}

/// What the points have given so far.
#[derive(Default)]
struct Loader {
    traces: TraceCache,
    models: ModelCache,
    problems: Vec<Problem>,
    notes: Vec<String>,
    warnings: Vec<Warning>,
    /// The filled tree of each point.
    trees: Vec<Value>,
    points: Vec<Point>,
    /// Kinds of step-time models of the pools, of every point.
    step_times: Vec<Vec<(String, StepTimes)>>,
    /// Facts about the pools, of every point.
    facts: Vec<Vec<(String, String)>>,
    first: Option<Scenario>,
}

impl Loader {
    /// Types, fills and builds one point of the sweep.
    fn point(&mut self, document: &Document, axes: &schema::Axes, values: &[&Value], stem: &str) {
        let mut document = document.clone();
        for ((key, _), value) in axes.iter().zip(values) {
            document.set_sweep(key, (*value).clone());
        }
        let read = |document: &Document| {
            schema::read(document.tree())
                .map_err(|(path, message)| document.problem(&path, message))
        };
        let typed = match read(&document) {
            Ok(typed) => typed,
            Err(problem) => return add(&mut self.problems, problem),
        };
        document.fill(|tree| defaults::fill(tree, &typed, stem));
        let filled = match read(&document) {
            Ok(filled) => filled,
            Err(problem) => return add(&mut self.problems, problem),
        };
        let mut builder = Builder::new(&document, &filled);
        builder.models = std::mem::take(&mut self.models);
        let point = builder.point(&mut self.traces);
        self.models = std::mem::take(&mut builder.models);
        let facts = std::mem::take(&mut builder.facts);
        for problem in std::mem::take(&mut builder.problems) {
            add(&mut self.problems, problem);
        }
        for note in std::mem::take(&mut builder.notes) {
            add(&mut self.notes, note);
        }
        if let Some(warning) = Warning::mixed(&builder.step_times) {
            add(&mut self.warnings, warning);
        }
        for (pool, share) in &builder.measured {
            if let Some(warning) = Warning::extrapolated(pool, *share) {
                add(&mut self.warnings, warning);
            }
        }
        for warning in point.iter().flat_map(|p| Warning::oracles(&p.systems)) {
            add(&mut self.warnings, warning);
        }
        self.step_times
            .push(std::mem::take(&mut builder.step_times));
        self.points.extend(point);
        self.facts.push(facts);
        self.trees.push(document.tree().clone());
        self.first.get_or_insert(filled);
    }

    fn finish(
        mut self,
        document: &Document,
        axes: &schema::Axes,
        combinations: &[Vec<&Value>],
    ) -> Result<Experiment, Error> {
        let (Some(first), true) = (&self.first, self.problems.is_empty()) else {
            return Err(Error::Invalid(self.problems));
        };
        let names = |point: &Point| -> Vec<String> {
            point.systems.iter().map(|s| s.name.clone()).collect()
        };
        if self
            .points
            .iter()
            .any(|point| names(point) != names(&self.points[0]))
        {
            let message = "changes which systems there are; every point must have the same systems";
            return Err(document.problem("sweep", message).into());
        }
        let axis = axis::describe(axes, combinations);
        let labels: Vec<&str> = axis
            .values
            .iter()
            .map(|(label, _)| label.as_str())
            .collect();
        // Who sweeps the step-time model means to compare its kinds.
        let meant = |key: &str| key.split('.').any(|part| part == "latency");
        if !axes.iter().any(|(key, _)| meant(key)) {
            let changing = Warning::changing(&axis.key, &labels, &self.step_times);
            self.warnings.extend(changing);
        }
        Ok(Experiment {
            name: first.name.clone().unwrap_or_default(),
            question: first.question.clone(),
            seeds: first.seeds.clone().map_or(vec![1], |seeds| seeds.0),
            output: Builder::new(document, first).output(),
            resolved: resolved::text(&self.trees, axes, &self.facts, document),
            notes: self.notes,
            warnings: self.warnings,
            points: self.points,
            axis,
        })
    }
}

/// Adds what is not there yet: every point of a sweep tells the same story.
fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
