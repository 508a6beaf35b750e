//! Imports point down only: reads every `crate::` path under `src/` and holds it against the layers of the design.

use std::fs;
use std::path::{Path, PathBuf};

/// The layers from the ground up; modules of one layer do not import each other.
const LAYERS: &[&[&str]] = &[
    &["units", "ids", "rng", "tournament", "names"],
    &["hardware", "model"],
    &["policy", "latency", "net", "kv", "workload", "calibrate"],
    &["cluster"],
    &["sim"],
    &["metrics"],
    &["scenario"],
    &["report"],
    &["plan", "sweep"],
    &["cli"],
];

/// Siblings that may import each other: the words of one vocabulary.
const VOCABULARY: &[&str] = &["units", "ids", "rng"];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&module))
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a source folder can be listed") {
        let path = entry.expect("a source folder can be listed").path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files.sort();
}

/// The modules named after `crate::` in a text, comments and strings left out by line; groups `{a, b::c}` are opened.
fn imports(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            let mut depth = 0;
            let mut name = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(std::mem::take(&mut name)),
                    c if depth == 0 => name.push(c),
                    _ => {}
                }
            }
            found.push(name);
        } else {
            found.push(after.to_owned());
        }
    }
    let first_word = |path: &String| {
        let path = path.trim();
        let end = path.find(|c: char| !c.is_alphanumeric() && c != '_');
        path[..end.unwrap_or(path.len())].to_owned()
    };
    found
        .iter()
        .map(first_word)
        .filter(|name| !name.is_empty())
        .collect()
}

/// Every import of `module` (a file's text) that does not point down.
fn violations(module: &str, text: &str) -> Vec<String> {
    let own =
        layer(module).unwrap_or_else(|| panic!("the module `{module}` has no layer in this test"));
    imports(text)
        .into_iter()
        .filter(|target| target != module)
        .filter(|target| match layer(target) {
            Some(below) => below >= own && !(VOCABULARY.contains(&module) && below == own),
            None => true,
        })
        .collect()
}

#[test]
fn imports_point_down_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    assert!(files.len() > 20, "the source is where this test looks");
    let mut wrong = Vec::new();
    for path in &files {
        let relative = path.strip_prefix(&src).unwrap();
        let first = relative.components().next().unwrap();
        let module = first.as_os_str().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "main"].contains(&module) {
            continue;
        }
        for target in violations(module, &fs::read_to_string(path).unwrap()) {
            wrong.push(format!(
                "src/{}: imports crate::{target}",
                relative.display()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "imports that do not point down:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_check_sees_upward_sideways_and_grouped_imports() {
    assert_eq!(violations("cluster", "use crate::sim::Loop;"), ["sim"]);
    assert_eq!(violations("policy", "use crate::kv::Pool;"), ["kv"]);
    assert_eq!(
        violations("metrics", "use crate::{cluster::{A, B}, report::C, units};"),
        ["report"]
    );
    assert_eq!(violations("sim", "fn f() -> crate::cli::X {}"), ["cli"]);
    assert_eq!(violations("kv", "use crate::nowhere::X;"), ["nowhere"]);
    assert!(violations("cli", "//! [`crate::cli`]\nuse crate::{units, report::C};").is_empty());
}
