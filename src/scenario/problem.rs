//! What can be wrong with a scenario, said in one line each.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::names::did_you_mean;

/// Where a problem was written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In a file, at a line and column (from 1) where known.
    File(PathBuf, Option<(usize, usize)>),
    /// In a command-line flag, as typed.
    Flag(String),
    /// In another file, which the message names itself.
    Elsewhere,
}

/// One thing wrong: the place, the key path, and what was seen, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    place: Place,
    key: String,
    message: String,
}

impl Problem {
    /// A problem with something written in a file; `key` may be empty.
    pub(super) fn in_file(
        path: &Path,
        place: Option<(usize, usize)>,
        key: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            place: Place::File(path.to_path_buf(), place),
            key: key.to_owned(),
            message: message.into(),
        }
    }

    /// A problem with another file (a trace), whose message says where.
    pub(super) fn elsewhere(message: impl Into<String>) -> Self {
        Self {
            place: Place::Elsewhere,
            key: String::new(),
            message: message.into(),
        }
    }

    /// A problem with a `--set` flag; `key` may be empty.
    pub(super) fn in_flag(flag: &str, key: &str, message: impl Into<String>) -> Self {
        Self {
            place: Place::Flag(flag.to_owned()),
            key: key.to_owned(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(path, Some((line, column))) => {
                write!(f, "{}:{line}:{column}: ", path.display())?;
            }
            Place::File(path, None) => write!(f, "{}: ", path.display())?,
            Place::Flag(flag) => write!(f, "--set {flag}: ")?,
            Place::Elsewhere => {}
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        // A multi-line message would break the promise of one line per problem.
        f.write_str(&self.message.replace('\n', " "))
    }
}

/// Says why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: cannot read the scenario: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The scenario is wrong; one line per problem, at least one.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Invalid(vec![problem])
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// What is expected where a key has a list of words.
pub(super) const A_WORD: &str = "expected a word";

/// Turns serde's message into ours: lower-case, with the nearest name, without "field" and "variant".
#[must_use]
pub(super) fn rephrase(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    for (theirs, ours) in [
        ("unknown field", "unknown key"),
        ("unknown variant", "unknown word"),
    ] {
        if message.starts_with(theirs)
            && let [seen, allowed @ ..] = quoted.as_slice()
        {
            let near = did_you_mean(seen, allowed.iter().copied());
            return format!("{ours} `{seen}`{near} (allowed: {})", allowed.join(", "));
        }
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the key {rest} is missing");
    }
    let message = message
        .replace(
            "expected u32",
            "expected a whole number from 0 to 4294967295",
        )
        .replace("expected u64", "expected a whole number of at least 0")
        .replace("expected f64", "expected a number")
        .replace("expected a boolean", "expected true or false")
        .replace("expected a sequence", "expected a list");
    // A Rust type's name says nothing to a person.
    let message = match message.split_once("expected struct ") {
        Some((before, _)) => format!("{before}expected a map of keys"),
        None => message,
    };
    let message = match message.split_once("expected enum ") {
        Some((before, _)) => format!("{before}{A_WORD}"),
        None => message,
    };
    message
        .replacen("invalid type: integer", "is the integer", 1)
        .replacen("invalid type: floating point", "is the number", 1)
        .replacen("invalid type: unit value", "is empty (null)", 1)
        .replacen("invalid type: sequence", "is a list", 1)
        .replacen("invalid type: ", "is a ", 1)
        .replacen("invalid value: ", "is the ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_messages_become_ours() {
        assert_eq!(
            rephrase("unknown field `rat`, expected `rate` or `requests`"),
            "unknown key `rat`, did you mean `rate`? (allowed: rate, requests)"
        );
        assert_eq!(
            rephrase("invalid type: string \"four\", expected u32"),
            "is a string \"four\", expected a whole number from 0 to 4294967295"
        );
        assert_eq!(
            rephrase("invalid type: integer `5`, expected struct Output"),
            "is the integer `5`, expected a map of keys"
        );
        assert_eq!(
            rephrase("invalid type: sequence, expected enum Overlap"),
            "is a list, expected a word"
        );
        assert_eq!(
            rephrase("invalid type: unit value, expected a sequence"),
            "is empty (null), expected a list"
        );
    }
}
