//! The scenario file as a tree of plain values: reading, overriding by key path, and finding a key's line again.
//!
//! Overrides (`--set`, sweep points) act on the tree before anything is typed, so every key can be overridden and an
//! override is validated like what was written in the file. The tree has no positions; a key's line and column are
//! found by reading the text once more up to that key, which only happens when there is a problem to report.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_yaml::{Mapping, Value};

use super::problem::{Error, Problem};

/// Where an override came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A `--set` flag.
    Flag,
    /// A value of the file's own `sweep:` section.
    Sweep,
}

/// One override that has been applied.
#[derive(Debug, Clone)]
struct Override {
    path: String,
    text: String,
    origin: Origin,
}

/// A scenario file's text and tree.
#[derive(Debug, Clone)]
pub struct Document {
    path: PathBuf,
    text: String,
    tree: Value,
    overrides: Vec<Override>,
}

impl Document {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read, is not YAML, or is not a map at the top.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_path_buf(),
            source,
        })?;
        Self::parse(path, text)
    }

    /// Parses a scenario's text; `path` names it in messages.
    ///
    /// # Errors
    /// When the text is not YAML, or is not a map at the top.
    pub fn parse(path: &Path, mut text: String) -> Result<Self, Error> {
        // Some editors put a byte-order mark first, which YAML would take for the start of another document.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let tree = serde_yaml::from_str::<Value>(&text).map_err(|error| {
            let place = error.location().map(|l| (l.line(), l.column()));
            Error::from(Problem::in_file(path, place, "", not_yaml(&error)))
        })?;
        if !tree.is_mapping() {
            let message = "is not a scenario: a map of keys such as `name`, `model`, `workload`, `systems` is expected";
            return Err(Problem::in_file(path, None, "", message).into());
        }
        Ok(Self {
            path: path.to_path_buf(),
            text,
            tree,
            overrides: Vec::new(),
        })
    }

    /// The file's path as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tree, with all overrides applied.
    #[must_use]
    pub fn tree(&self) -> &Value {
        &self.tree
    }

    /// The value at a key path, if there is one.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Value> {
        get(&self.tree, path)
    }

    /// Applies one `--set` flag, `key.path=value`; the value is read as YAML.
    ///
    /// # Errors
    /// When the flag has no `=`, an empty key, or a value that is not YAML.
    pub fn set_flag(&mut self, flag: &str) -> Result<(), Error> {
        let bad = |message: String| Error::from(Problem::in_flag(flag, "", message));
        let Some((path, text)) = flag.split_once('=') else {
            return Err(bad("has no `=`; write `--set key.path=value`".to_owned()));
        };
        let path = path.trim();
        if path.is_empty() || path.split('.').any(str::is_empty) {
            return Err(bad(
                "has an empty key; write `--set key.path=value`".to_owned()
            ));
        }
        let value = serde_yaml::from_str::<Value>(text).map_err(|error| bad(not_yaml(&error)))?;
        self.apply(path, value, flag.to_owned(), Origin::Flag);
        Ok(())
    }

    /// Applies one value of a sweep.
    pub fn set_sweep(&mut self, path: &str, value: Value) {
        let text = format!("{path}: {}", inline(&value));
        self.apply(path, value, text, Origin::Sweep);
    }

    /// Whether a `--set` flag has set this key, or a map it lies in.
    #[must_use]
    pub fn is_set_by_flag(&self, path: &str) -> bool {
        let by_flag = |o: &Override| o.origin == Origin::Flag && is_prefix(&o.path, path);
        self.overrides.iter().any(by_flag)
    }

    /// Whether a `--set` flag or the sweep has set this key, or a map it lies in.
    pub(super) fn is_overridden(&self, path: &str) -> bool {
        self.overrides.iter().any(|o| is_prefix(&o.path, path))
    }

    /// The sweep value that sets something at or below `path`, but for the key at `key` itself.
    pub(super) fn swept_beside(&self, path: &str, key: &str) -> Option<&str> {
        let beside = |o: &&Override| {
            o.origin == Origin::Sweep && is_prefix(path, &o.path) && !is_prefix(&o.path, key)
        };
        self.overrides.iter().find(beside).map(|o| o.text.as_str())
    }

    /// The sweep value that sets this key, or a map it lies in.
    pub(super) fn swept(&self, path: &str) -> Option<&str> {
        let by_sweep = |o: &&Override| o.origin == Origin::Sweep && is_prefix(&o.path, path);
        self.overrides
            .iter()
            .find(by_sweep)
            .map(|o| o.text.as_str())
    }

    /// Lets `fill` add defaults to the tree.
    pub(super) fn fill(&mut self, fill: impl FnOnce(&mut Value)) {
        fill(&mut self.tree);
    }

    /// Takes a top-level section out of the tree.
    pub fn take(&mut self, key: &str) -> Option<Value> {
        self.tree
            .as_mapping_mut()
            .and_then(|map| map.shift_remove(key))
    }

    fn apply(&mut self, path: &str, value: Value, text: String, origin: Origin) {
        match path.strip_prefix("sweep.") {
            // Axes are keyed by whole paths; `--set sweep.workload.rate=[…]` replaces one of them.
            Some(axis) => {
                let axes = self.axes_with(axis, value);
                set(&mut self.tree, "sweep", axes);
            }
            None => set(&mut self.tree, path, value),
        }
        self.overrides.push(Override {
            path: path.to_owned(),
            text,
            origin,
        });
    }

    /// The sweep section with one axis replaced or added.
    fn axes_with(&self, axis: &str, value: Value) -> Value {
        let mut axes = self
            .get("sweep")
            .and_then(Value::as_mapping)
            .cloned()
            .unwrap_or_default();
        axes.insert(axis.into(), value);
        Value::Mapping(axes)
    }

    /// Makes a problem about the key at `path`, with the place it was written: the file's line, the `--set` flag, or
    /// the sweep value that put it there.
    #[must_use]
    pub fn problem(&self, path: &str, message: impl Into<String>) -> Problem {
        match self.origin(path) {
            Some(o) if o.origin == Origin::Flag => Problem::in_flag(&o.text, path, message),
            Some(o) => {
                let message = format!("{} (sweep value `{}`)", message.into(), o.text);
                let axis = format!("sweep.{}", o.path);
                let by_flag = |f: &&Override| f.origin == Origin::Flag && f.path == axis;
                if let Some(flag) = self.overrides.iter().find(by_flag) {
                    return Problem::in_flag(&flag.text, path, message);
                }
                // An axis is one key with dots, or nested maps.
                let place = locate_steps(&self.text, &["sweep", &o.path]);
                Problem::in_file(
                    &self.path,
                    place.or_else(|| locate(&self.text, &axis)),
                    path,
                    message,
                )
            }
            None => Problem::in_file(&self.path, locate(&self.text, path), path, message),
        }
    }

    /// The override that put the key at `path` there: one of the key or a map around it, or, for a key that the file
    /// does not have, one below it.
    fn origin(&self, path: &str) -> Option<&Override> {
        let above = self
            .overrides
            .iter()
            .rev()
            .find(|o| is_prefix(&o.path, path));
        let in_file = || locate_steps(&self.text, &path.split('.').collect::<Vec<_>>()).is_some();
        let below = || {
            self.overrides
                .iter()
                .rev()
                .find(|o| is_prefix(path, &o.path))
        };
        above.or_else(|| if in_file() { None } else { below() })
    }
}

/// The value at a dotted key path.
#[must_use]
pub(super) fn get<'v>(tree: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.')
        .try_fold(tree, |node, key| node.as_mapping()?.get(key))
}

/// Puts `value` at a dotted key path, making maps on the way; a word on the way gives place to a map.
pub(super) fn set(tree: &mut Value, path: &str, value: Value) {
    let mut node = tree;
    for key in path.split('.') {
        if !node.is_mapping() {
            *node = Value::Mapping(Mapping::new());
        }
        node = node
            .as_mapping_mut()
            .expect("made a map just above")
            .entry(Value::from(key))
            .or_insert(Value::Null);
    }
    *node = value;
}

/// Whether `path` is `prefix` or lies below it.
fn is_prefix(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A value on one line, for messages.
#[must_use]
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "null".to_owned(),
        other => serde_json::to_string(other).unwrap_or_else(|_| "…".to_owned()),
    }
}

/// The parser's message on one line, without the place, which is stated apart.
fn not_yaml(error: &serde_yaml::Error) -> String {
    let text = error.to_string().replace('\n', " ");
    let text = match (text.find(" at line "), error.location()) {
        (Some(end), Some(_)) => &text[..end],
        _ => &text,
    };
    format!("is not valid YAML: {text}")
}

/// The line and column, both from 1, of the key at a dotted path with list indices (`a.b[1]`), or of the nearest
/// enclosing key that exists.
fn locate(text: &str, path: &str) -> Option<(usize, usize)> {
    let path = path.replace('[', ".").replace(']', "");
    let steps: Vec<&str> = path.split('.').filter(|s| !s.is_empty()).collect();
    (1..=steps.len())
        .rev()
        .find_map(|n| locate_steps(text, &steps[..n]))
}

/// The place of the key reached by exactly these steps.
fn locate_steps(text: &str, steps: &[&str]) -> Option<(usize, usize)> {
    let reader = serde_yaml::Deserializer::from_str(text);
    let error = Seek(steps).deserialize(reader).err()?;
    if !error.to_string().contains(FOUND) {
        return None;
    }
    error.location().map(|l| (l.line(), l.column()))
}

/// The message with which [`Seek`] stops.
const FOUND: &str = "found the key";

/// Walks down a document and stops, by an error that carries the place, at the wanted key.
struct Seek<'s>(&'s [&'s str]);

/// Reads one key; stops if it is the last step of the path.
struct SeekKey<'s>(&'s [&'s str]);

impl<'de> DeserializeSeed<'de> for Seek<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seek<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(matches) = map.next_key_seed(SeekKey(self.0))? {
            if matches {
                map.next_value_seed(Seek(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let wanted = self.0.first().and_then(|step| step.parse::<usize>().ok());
        for index in 0.. {
            let more = if Some(index) == wanted && self.0.len() == 1 {
                seq.next_element_seed(SeekKey(&[]))?.map(|_| ())
            } else if Some(index) == wanted {
                seq.next_element_seed(Seek(&self.0[1..]))?
            } else {
                seq.next_element::<IgnoredAny>()?.map(|_| ())
            };
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for SeekKey<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for SeekKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FOUND)
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<bool, E> {
        match self.0 {
            [] => Err(E::custom(FOUND)),
            [last] if *last == key => Err(E::custom(FOUND)),
            [step, ..] => Ok(*step == key),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, key: u64) -> Result<bool, E> {
        self.visit_str(&key.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<bool, A::Error> {
        Err(A::Error::custom(FOUND))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<bool, A::Error> {
        Err(A::Error::custom(FOUND))
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<bool, E> {
        if self.0.is_empty() {
            Err(E::custom(FOUND))
        } else {
            Ok(false)
        }
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<bool, E> {
        if self.0.is_empty() {
            Err(E::custom(FOUND))
        } else {
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: x\nsystems:\n  a:\n    pool: {instances: 3, gpu: h100}\nsweep:\n  workload.rate: [1 /s, 2 /s]\n";

    #[test]
    fn keys_are_found_at_their_line_and_column() {
        assert_eq!(locate(TEXT, "name"), Some((1, 1)));
        assert_eq!(locate(TEXT, "systems.a.pool"), Some((4, 5)));
        assert_eq!(locate(TEXT, "systems.a.pool.gpu"), Some((4, 26)));
        assert_eq!(
            locate_steps(TEXT, &["sweep", "workload.rate", "1"]),
            Some((6, 25))
        );
    }

    #[test]
    fn a_missing_key_is_placed_at_its_parent() {
        assert_eq!(locate(TEXT, "systems.a.pool.tp"), Some((4, 5)));
        assert_eq!(locate(TEXT, "nothing"), None);
    }

    #[test]
    fn set_makes_maps_and_replaces_words() {
        let mut tree: Value = serde_yaml::from_str("a: word\n").unwrap();
        set(&mut tree, "a.b.c", Value::from(3));
        set(&mut tree, "d", Value::from(4));
        assert_eq!(
            serde_yaml::to_string(&tree).unwrap(),
            "a:\n  b:\n    c: 3\nd: 4\n"
        );
    }

    #[test]
    fn problems_name_the_flag_that_caused_them() {
        let mut document = Document::parse(Path::new("s.yaml"), TEXT.to_owned()).unwrap();
        document.set_flag("systems.a.pool.tp=two").unwrap();
        let seen = document
            .problem("systems.a.pool.tp", "is wrong")
            .to_string();
        assert_eq!(
            seen,
            "--set systems.a.pool.tp=two: systems.a.pool.tp: is wrong"
        );
        let seen = document
            .problem("systems.a.pool.gpu", "is wrong")
            .to_string();
        assert_eq!(seen, "s.yaml:4:26: systems.a.pool.gpu: is wrong");
    }
}
