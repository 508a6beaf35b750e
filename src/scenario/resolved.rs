//! The resolved scenario: everything needed to repeat the run, defaults written out.
//!
//! Each point of a sweep has its own filled tree. The file holds what all points agree on, plus the sweep. A default
//! that differs between points (a step-time model that depends on a swept TP) is left out and derived again; the
//! same pdsim derives the same value, so running the file repeats every point exactly.

use serde_yaml::{Mapping, Value};

use super::build::resolve_path;
use super::document::{Document, get, set};
use super::schema::Axes;

/// Writes the file's text.
pub(super) fn text(
    trees: &[Value],
    axes: &Axes,
    facts: &[Vec<(String, String)>],
    document: &Document,
) -> String {
    let mut tree = common(&trees.iter().collect::<Vec<_>>()).unwrap_or(Value::Null);
    for (key, _) in axes {
        // The value the scenario gives the swept key; every point overrides it.
        let written = document.get(key).or_else(|| get(trees.first()?, key));
        if let Some(value) = written {
            set(&mut tree, key, value.clone());
        }
    }
    absolute_trace(&mut tree, document);
    let mut file = Mapping::new();
    file.insert("pdsim".into(), env!("CARGO_PKG_VERSION").into());
    for (key, value) in tree.as_mapping().into_iter().flatten() {
        if key.as_str() != Some("pdsim") {
            file.insert(key.clone(), value.clone());
        }
    }
    if !axes.is_empty() {
        let sweep: Mapping = axes
            .iter()
            .map(|(key, values)| (Value::from(key.as_str()), Value::Sequence(values.clone())))
            .collect();
        file.insert("sweep".into(), Value::Mapping(sweep));
    }
    let yaml = serde_yaml::to_string(&file).expect("a tree that was read from YAML can be written");
    format!("{}{yaml}", head(facts))
}

/// What all trees agree on: maps key by key, everything else by equality.
fn common(trees: &[&Value]) -> Option<Value> {
    let (first, rest) = trees.split_first()?;
    if rest.iter().all(|tree| tree == first) {
        return Some((*first).clone());
    }
    let maps: Option<Vec<&Mapping>> = trees.iter().map(|tree| tree.as_mapping()).collect();
    let maps = maps?;
    let mut kept = Mapping::new();
    for key in maps[0].keys() {
        let values: Option<Vec<&Value>> = maps.iter().map(|map| map.get(key)).collect();
        if let Some(value) = values.and_then(|values| common(&values)) {
            kept.insert(key.clone(), value);
        }
    }
    // Choices between kinds (`{polynomial: …}` here, `{roofline: …}` there) share nothing; an empty map is no choice.
    (!kept.is_empty()).then_some(Value::Mapping(kept))
}

/// The resolved file lies in the output folder, so a trace beside the scenario needs its whole path.
fn absolute_trace(tree: &mut Value, document: &Document) {
    let Some(written) = get(tree, "workload.trace")
        .and_then(Value::as_str)
        .map(str::to_owned)
    else {
        return;
    };
    let path = resolve_path(written.as_ref(), document.path());
    if let Ok(path) = std::path::absolute(path) {
        set(
            tree,
            "workload.trace",
            path.to_string_lossy().into_owned().into(),
        );
    }
}

/// The comment at the head: how each pool was resolved, where all points agree.
fn head(facts: &[Vec<(String, String)>]) -> String {
    let mut text =
        "# Resolved by pdsim: every default is written out. Run it again with `pdsim run`.\n"
            .to_owned();
    let Some((first, rest)) = facts.split_first() else {
        return text;
    };
    for fact in first {
        if rest.iter().all(|facts| facts.contains(fact)) {
            let (path, what) = fact;
            text.push_str("# ");
            text.push_str(path);
            text.push_str(": ");
            text.push_str(what);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_points_do_not_share_is_left_out() {
        let trees: Vec<Value> = [
            "{a: 1, b: {c: 2, d: 3}, e: {f: 1}, g: {h: 1}}",
            "{a: 1, b: {c: 2, d: 4}, e: word, g: {i: 1}}",
        ]
        .iter()
        .map(|text| serde_yaml::from_str(text).unwrap())
        .collect();
        let kept = common(&trees.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            serde_json::to_string(&kept).unwrap(),
            r#"{"a":1,"b":{"c":2}}"#
        );
    }
}
