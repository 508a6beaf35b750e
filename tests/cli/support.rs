//! A scratch folder with a small scenario in it, and the binary running there.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;

/// Two systems, a few hundred short requests, fixed step times: runs in milliseconds.
pub(crate) const SMALL: &str = "\
name: small
model: opt-13b
engine: distserve
slo: {ttft: 250 ms, tpot: 100 ms}
workload:
  lengths: {fixed: {input: 512, output: 16}}
  rate: 4 /s
  requests: 200
systems:
  colocated:
    policy: colocated
    pool: {instances: 2, gpu: a100-80g-sxm}
  split:
    policy: disaggregated
    prefill: {instances: 1, gpu: a100-80g-sxm}
    decode: {instances: 1, gpu: a100-80g-sxm}
    transfer: {link: nvlink}
";

/// A folder of its own for one test.
pub(crate) struct Scratch(TempDir);

/// What a run of the binary came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Scratch {
    /// A folder with the small scenario as `s.yaml`.
    pub(crate) fn new() -> Self {
        Self::with("s.yaml", SMALL)
    }

    /// A folder with one file.
    pub(crate) fn with(name: &str, text: &str) -> Self {
        let scratch = Self(TempDir::new().expect("a temporary folder can be made"));
        scratch.write(name, text);
        scratch
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the scratch folder is writable");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Every file below a folder, by name, with its bytes.
    pub(crate) fn files(&self, folder: &str) -> Vec<(String, Vec<u8>)> {
        let entries =
            fs::read_dir(self.path(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
        let mut files: Vec<(String, Vec<u8>)> = entries
            .map(|entry| {
                let path = entry.expect("a folder can be listed").path();
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                (name, fs::read(&path).expect("an output file can be read"))
            })
            .collect();
        files.sort();
        files
    }

    /// Runs the binary in this folder.
    pub(crate) fn pdsim(&self, args: &[&str]) -> Ran {
        let output = Command::cargo_bin("pdsim")
            .expect("the binary is built with the tests")
            .current_dir(self.0.path())
            .args(args)
            .output()
            .expect("the binary starts");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ran {
    /// Asserts a refusal: exit code 2, nothing on stdout, one `error:` line that contains every piece.
    pub(crate) fn refused(&self, pieces: &[&str]) {
        assert_eq!(self.code, 2, "{self:?}");
        assert_eq!(self.out, "", "results only on stdout");
        let lines: Vec<&str> = self
            .err
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert_eq!(lines.len(), 1, "one line per problem: {}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        for piece in pieces {
            assert!(
                lines[0].contains(piece),
                "`{piece}` is not in `{}`",
                lines[0]
            );
        }
    }
}
