//! Files that appear under their name only when they are complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Says which file could not be written, and why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `create`, `write`, `rename`.
        action: &'static str,
        /// The file or folder under its final name.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A chart could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Chart {
        /// The file it was for.
        path: PathBuf,
        /// What the renderer said.
        reason: String,
    },
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
}

/// A file being written beside its final name.
///
/// [`AtomicFile::finish`] renames it into place; a file dropped before is removed, and what stood under the final name stays.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    partial: PathBuf,
    out: BufWriter<File>,
    finished: bool,
}

impl AtomicFile {
    /// Begins the file that will be `path`; the folder must exist.
    ///
    /// # Errors
    /// When the folder is missing or not writable.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let file = File::create(&partial).map_err(|source| io_error("create", path, source))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            out: BufWriter::with_capacity(1 << 16, file),
            finished: false,
        })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When the disk is full or fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out
            .write_all(bytes)
            .map_err(|source| io_error("write", &self.path, source))
    }

    /// Puts the complete file under its name.
    ///
    /// # Errors
    /// When the last bytes cannot be written or the name cannot be taken.
    pub fn finish(mut self) -> Result<(), Error> {
        self.out
            .flush()
            .map_err(|source| io_error("write", &self.path, source))?;
        fs::rename(&self.partial, &self.path)
            .map_err(|source| io_error("rename", &self.path, source))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing sensible is left to do when even this fails.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Writes a small file in one go.
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Makes the output folder.
pub(super) fn create_folder(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| io_error("create", path, source))
}

/// Removes a file of an earlier run that this one does not write; a missing file is fine.
pub(super) fn remove_stale(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(io_error("remove", path, source))
        }
        _ => Ok(()),
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_appears_when_finished_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn a_file_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&folder.path().join("a.csv")).unwrap();
        file.write(b"half").unwrap();
        drop(file);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_error_names_the_file_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/a.csv");
        let message = AtomicFile::create(&path).unwrap_err().to_string();
        assert!(message.contains("missing/a.csv"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_of_the_last_write_at_the_latest() {
        // /dev/full refuses every write; the writer goes through a link to it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let partial = folder
            .path()
            .join(format!(".a.csv.{}.partial", std::process::id()));
        std::os::unix::fs::symlink("/dev/full", partial).unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        let seen = file.write(b"x").and_then(|()| file.finish());
        let message = seen.unwrap_err().to_string();
        assert!(
            message.contains("a.csv") && message.contains("space"),
            "{message}"
        );
        assert!(names(folder.path()).is_empty());
    }
}
