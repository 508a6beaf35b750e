//! The shape of a scenario file, key by key.
//!
//! Everything here is what *may be written*: nearly every key is optional, defaults are filled in by
//! `defaults` and checked by `build`. Unknown keys are refused. `docs/scenario.md`
//! describes each key for people.

mod dtype;
mod hints;
mod kv;
mod multiplex;
mod queue;
mod roles;
mod router;
mod system;
mod transfer;
mod value;
mod workload;

pub use dtype::{KvFormat, Weights};
pub use kv::{CpuCache, DecodeChoice, KvReserve, Preemption, Reservation, SkipPrefill};
pub use multiplex::{IdleSms, Multiplex};
pub use queue::{Deadlines, LongPrompts, QueueKind, Ranking, RankingKeys, Unfairness};
pub use roles::{AtLeast, Marks, Roles};
pub use router::{Affinity, Penalty, RouterKind, RouterPair};
pub use system::{
    BatchKind, CalibratedLatency, FirstToken, FixedLatency, LatencyKind, Policy, PolynomialLatency,
    Pool, RooflineLatency, System, Tuning,
};
pub use transfer::{
    Contention, Copying, Link, LinkSpeed, Node, Overlap, Staging, Transfer, TransferMode,
};
pub use value::{
    Bandwidth, Horizon, HostRate, KvBlocks, Limit, Name, Rate, Seeds, Size, Span, Warmup, WordOr,
};
pub use workload::{
    ArrivalKind, Beyond, Failed, FixedLengths, Gamma, Lengths, MaxContext, OnOff, Sinusoid, Step,
    TimeWindow, Workload,
};

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_yaml::Value;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of pdsim that wrote the file; only resolved scenarios carry it.
    pub pdsim: Option<String>,
    /// Name of the experiment and of its output folder.
    pub name: Option<String>,
    /// What the experiment is to answer, in a sentence.
    pub question: Option<String>,
    /// Model name, or path of a model description.
    pub model: Option<String>,
    /// Engine preset: defaults of the keys that tune a system.
    pub engine: Option<String>,
    /// Format of the weights of every system that names none.
    pub weight_dtype: Option<Weights>,
    /// Format of the KV cache of every system that names none.
    pub kv_dtype: Option<KvFormat>,
    /// Step-time model of every system that names none.
    pub latency: Option<WordOr<LatencyKind>>,
    /// The latency promise.
    pub slo: Option<Slo>,
    /// What arrives.
    pub workload: Option<Workload>,
    /// Replications.
    pub seeds: Option<Seeds>,
    /// When a run stops.
    pub horizon: Option<Horizon>,
    /// Simulate decode runs in closed form (`true`) or token by token (same results, slower).
    pub fast_forward: Option<bool>,
    /// The systems to compare, in the order of every table and legend.
    #[serde(default)]
    pub systems: Systems,
    /// What to write.
    pub output: Option<Output>,
}

/// Systems by name, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Systems(pub Vec<(String, System)>);

impl<'de> Deserialize<'de> for Systems {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_map(SystemsVisitor)
    }
}

struct SystemsVisitor;

impl<'de> Visitor<'de> for SystemsVisitor {
    type Value = Systems;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of named systems")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Systems, A::Error> {
        let mut systems = Vec::new();
        while let Some(entry) = map.next_entry()? {
            systems.push(entry);
        }
        Ok(Systems(systems))
    }
}

/// The latency promise of a scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Most time to the first token.
    pub ttft: Option<Span>,
    /// Most time per output token after the first.
    pub tpot: Option<Span>,
    /// Most time to the last token.
    pub e2e: Option<Span>,
    /// Share of arrived requests promised to meet every limit.
    pub attainment: Option<f64>,
}

/// What to write into the output folder besides `summary.csv` and the resolved scenario.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// `requests.csv`; without it, memory does not grow with the run.
    pub requests: Option<bool>,
    /// PNG charts.
    pub charts: Option<bool>,
    /// Results as `vllm bench serve --save-detailed` writes them.
    pub vllm_bench: Option<bool>,
}

/// Reads a tree as a scenario; on error, the key path and the message.
///
/// # Errors
/// When a key is unknown, missing, or of the wrong type.
pub(super) fn read(tree: &Value) -> Result<Scenario, (String, String)> {
    read_once(tree).map_err(|(path, message)| {
        // Of something else in place of a word serde does not list the words; of a wrong word it does.
        let message = word_at(tree, &path)
            .filter(|_| message.ends_with(super::problem::A_WORD))
            .and_then(|with_word| read_once(&with_word).err())
            .filter(|(same, _)| *same == path)
            .map_or(message, |(_, listed)| listed);
        (path, message)
    })
}

/// The tree with the number or truth value at `path` written as a word.
fn word_at(tree: &Value, path: &str) -> Option<Value> {
    let mut tree = tree.clone();
    let value = path
        .split('.')
        .try_fold(&mut tree, |at, key| at.get_mut(key))?;
    let word = match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    *value = Value::String(word);
    Some(tree)
}

fn read_once(tree: &Value) -> Result<Scenario, (String, String)> {
    let mut track = serde_path_to_error::Track::new();
    let reader = serde_path_to_error::Deserializer::new(tree.clone(), &mut track);
    // Maps with one key stand for enums (`{gamma: {cv: 2}}`); YAML tags (`!gamma`) are not for people.
    serde_yaml::with::singleton_map_recursive::deserialize(reader).map_err(|error| {
        let path = track.path().to_string();
        let path = if path == "." { String::new() } else { path };
        let message = super::problem::rephrase(&error.to_string());
        let message = closed_hint(&path, message);
        let message = hints::with_example(&path, message);
        let message = from_one(&path, &message);
        (path, message)
    })
}

/// Counts of which there must be some: serde knows only the range of their type.
const FROM_ONE: [&str; 16] = [
    "concurrency",
    "requests",
    "instances",
    "tp",
    "pp",
    "dp",
    "ep",
    "chunk_budget",
    "max_step_tokens",
    "max_step_prompts",
    "max_seqs",
    "block_tokens",
    "in_flight",
    "gpus",
    "at_queue",
    "below",
];

/// States the true range of a count.
fn from_one(path: &str, message: &str) -> String {
    let key = path.rsplit('.').next().unwrap_or_default();
    if !FROM_ONE.contains(&key) {
        return message.to_owned();
    }
    let some = "a whole number of at least 1";
    message
        .replace("a whole number of at least 0", some)
        .replace("a whole number from 0 to 4294967295", some)
}

/// A closed loop is a word and a key beside it, where one may look for a map.
fn closed_hint(path: &str, message: String) -> String {
    if path.starts_with("workload.arrivals") && message.contains("unknown word `closed`") {
        return "`closed` has no keys of its own; write `arrivals: closed` and beside it `concurrency: 32`, the requests in flight".to_owned();
    }
    message
}

/// The sweep's axes, `key.path: [values]`, from its section; maps may be nested instead of dotted.
///
/// # Errors
/// The key path and message of the first axis that is not a list of at least one value.
pub(super) fn read_sweep(section: &Value) -> Result<Axes, (String, String)> {
    let mut axes = Vec::new();
    collect_axes(section, "", &mut axes)?;
    Ok(axes)
}

/// Axes in the order of the file: key path and values.
pub(super) type Axes = Vec<(String, Vec<Value>)>;

fn collect_axes(node: &Value, path: &str, axes: &mut Axes) -> Result<(), (String, String)> {
    match node {
        Value::Null => Ok(()),
        Value::Mapping(map) => map.iter().try_for_each(|(key, value)| {
            let key = key.as_str().unwrap_or_default();
            collect_axes(value, &join(path, key), axes)
        }),
        Value::Sequence(values) if !values.is_empty() && !path.is_empty() => {
            axes.retain(|(known, _)| known != path);
            axes.push((path.to_owned(), values.clone()));
            Ok(())
        }
        other => Err((
            join("sweep", path),
            format!(
                "is {}, expected a list of at least one value, as in `workload.rate: [2 /s, 4 /s]`",
                super::document::inline(other)
            ),
        )),
    }
}

/// A key below a path, either of which may be empty.
fn join(path: &str, key: &str) -> String {
    match (path, key) {
        ("", only) | (only, "") => only.to_owned(),
        _ => format!("{path}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let (path, message) = read(&serde_yaml::from_str(text).unwrap()).unwrap_err();
        format!("{path}: {message}")
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_path_and_neighbour() {
        assert_eq!(
            problem("workload: {arrivals: {gamma: {cx: 2}}}"),
            "workload.arrivals.gamma.cx: unknown key `cx`, did you mean `cv`? (allowed: cv)"
        );
        assert!(problem("workload: {arrivals: {gama: {cv: 2}}}").contains("did you mean `gamma`?"));
        assert!(problem("systems: {a: {policy: colocted}}").contains("did you mean `colocated`?"));
    }

    #[test]
    fn degrees_count_from_one() {
        for key in ["tp", "pp", "dp", "ep"] {
            let text = format!("systems: {{a: {{policy: colocated, pool: {{{key}: -1}}}}}}");
            let told = problem(&text);
            let expected =
                format!("{key}: is the integer `-1`, expected a whole number of at least 1");
            assert!(told.ends_with(&expected), "{told}");
        }
    }

    #[test]
    fn a_missing_unit_says_what_to_write() {
        assert_eq!(
            problem("workload: {rate: 6}"),
            "workload.rate: `6` has no unit; write a rate such as `6 /s` (units: /s, /min, /h)"
        );
        assert!(problem("slo: {ttft: .nan}").contains("does not start with a finite number"));
        assert!(problem("slo: {ttft: [1]}").contains("expected a duration such as `50 ms`"));
    }

    #[test]
    fn two_kinds_at_once_are_refused() {
        let message = problem("workload: {arrivals: {gamma: {cv: 1}, poisson: {}}}");
        assert!(message.starts_with("workload.arrivals"), "{message}");
    }

    #[test]
    fn sweep_axes_may_be_dotted_or_nested() {
        let read = |text: &str| read_sweep(&serde_yaml::from_str(text).unwrap());
        let dotted = read("workload.rate: [1 /s, 2 /s]").unwrap();
        assert_eq!(dotted, read("workload: {rate: [1 /s, 2 /s]}").unwrap());
        assert_eq!(dotted[0].0, "workload.rate");
        assert_eq!(
            read("workload.rate: 3 /s").unwrap_err().0,
            "sweep.workload.rate"
        );
    }
}
