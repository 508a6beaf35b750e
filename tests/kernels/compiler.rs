//! Compiles C++ for the host, once per text.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A C++ compiler and a folder that keeps what it made.
pub(crate) struct Compiler {
    program: String,
    folder: PathBuf,
}

impl Compiler {
    /// `None`, and a line that says so, where there is none.
    pub(crate) fn find() -> Option<Self> {
        let program = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        if Command::new(&program).arg("--version").output().is_err() {
            eprintln!("SKIPPED: no C++ compiler (`{program}`) to emulate the CUDA kernels with");
            return None;
        }
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        fs::create_dir_all(&folder).unwrap();
        Some(Self { program, folder })
    }

    /// The file compiled from a text, unless it is there from an earlier run; `label` names it in messages.
    pub(crate) fn build(&self, text: &str, flags: &[&str], label: &str) -> PathBuf {
        // A name by content (FNV-1a), so that an unchanged kernel is not compiled again.
        let content = flags.iter().flat_map(|f| f.bytes()).chain(text.bytes());
        let hash = content.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let path = self.folder.join(format!("{hash:016x}"));
        if path.exists() {
            return path;
        }
        // Names of their own, since tests compile side by side.
        let fresh = tempfile::Builder::new().tempdir_in(&self.folder).unwrap();
        let (source, built) = (fresh.path().join("text.cpp"), fresh.path().join("built"));
        fs::write(&source, text).unwrap();
        // The fortified longjmp refuses to leave one stack for another.
        let output = Command::new(&self.program)
            .args(["-std=c++17", "-O1", "-U_FORTIFY_SOURCE"])
            .args(flags)
            .arg("-o")
            .args([&built, &source])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{label}:\n{errors}");
        fs::rename(&built, &path).unwrap();
        path
    }
}
