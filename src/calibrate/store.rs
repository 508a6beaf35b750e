//! The samples on disk: a row is appended whole as soon as its point is measured.
//!
//! An interrupted run loses at most the point being measured: a last line without its end is cut off when the folder is
//! opened again. `skipped.csv` beside the samples keeps the points that could not be measured and why; they are not
//! tried again.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::samples::{RowError, Sample, columns};
use super::work::{Kind, Work};

/// Why samples could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Samples are there already.
    #[error(
        "{} holds samples already; add --resume to go on with them, or choose another --out",
        .0.display()
    )]
    Exists(PathBuf),
    /// Samples of another GPU are there.
    #[error("{} holds samples of `{found}`, this GPU is `{expected}`", path.display())]
    OtherGpu {
        /// The file.
        path: PathBuf,
        /// The GPU in the file.
        found: String,
        /// The GPU at hand.
        expected: String,
    },
    /// A row cannot be read.
    #[error("{}:{line}: {source}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: u64,
        /// What is wrong.
        source: RowError,
    },
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// A folder of samples, open for more.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    gpu: String,
    samples: Vec<Sample>,
    done: HashSet<Work>,
    /// Shapes of points not measured, as text.
    skipped: HashSet<String>,
}

/// The file of points that could not be measured.
const SKIPPED: &str = "skipped.csv";

impl Store {
    /// Opens or makes the folder `folder/samples` for a GPU of that name.
    ///
    /// # Errors
    /// When there are samples and `resume` is not set, or they are of another GPU or cannot be read.
    pub fn open(folder: &Path, gpu: &str, resume: bool) -> Result<Self, StoreError> {
        let folder = folder.join("samples");
        fs::create_dir_all(&folder).map_err(io_error("make", &folder))?;
        let mut store = Self {
            folder,
            gpu: gpu.to_owned(),
            samples: Vec::new(),
            done: HashSet::new(),
            skipped: HashSet::new(),
        };
        for kind in Kind::ALL {
            let path = store.path(kind);
            if !path.exists() {
                continue;
            }
            if !resume {
                return Err(StoreError::Exists(store.folder));
            }
            cut_torn_line(&path)?;
            store.read(kind, &path)?;
        }
        store.read_skipped()?;
        Ok(store)
    }

    /// The folder with the files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Everything measured so far, of earlier runs too.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Whether the point was measured or given up.
    #[must_use]
    pub fn has(&self, work: &Work) -> bool {
        self.done.contains(work) || self.skipped.contains(&label(work))
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, sample: Sample) -> Result<(), StoreError> {
        let kind = sample.work.kind();
        append_line(&self.path(kind), &columns(kind), &sample.fields(&self.gpu))?;
        self.done.insert(sample.work);
        self.samples.push(sample);
        Ok(())
    }

    /// Notes that a point could not be measured.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn skip(&mut self, work: &Work, reason: &str) -> Result<(), StoreError> {
        let fields = [
            work.kind().name().to_owned(),
            label(work),
            reason.to_owned(),
        ];
        append_line(
            &self.folder.join(SKIPPED),
            &["kind", "point", "reason"],
            &fields,
        )?;
        self.skipped.insert(label(work));
        Ok(())
    }

    fn path(&self, kind: Kind) -> PathBuf {
        self.folder.join(format!("{}.csv", kind.name()))
    }

    fn read(&mut self, kind: Kind, path: &Path) -> Result<(), StoreError> {
        let broken = |e: csv::Error| io_error("read", path)(e.into());
        let mut reader = csv::Reader::from_path(path).map_err(broken)?;
        let header = reader.headers().map_err(broken)?.clone();
        for row in reader.records() {
            let row = row.map_err(broken)?;
            let line = row.position().map_or(0, csv::Position::line);
            let gpu = row.get(0).unwrap_or_default();
            if gpu != self.gpu {
                return Err(StoreError::OtherGpu {
                    path: path.to_owned(),
                    found: gpu.to_owned(),
                    expected: self.gpu.clone(),
                });
            }
            let sample = Sample::parse(kind, &header, &row).map_err(|source| StoreError::Row {
                path: path.to_owned(),
                line,
                source,
            })?;
            self.done.insert(sample.work);
            self.samples.push(sample);
        }
        Ok(())
    }

    fn read_skipped(&mut self) -> Result<(), StoreError> {
        let path = self.folder.join(SKIPPED);
        if !path.exists() {
            return Ok(());
        }
        cut_torn_line(&path)?;
        let broken = |e: csv::Error| io_error("read", &path)(e.into());
        let mut reader = csv::Reader::from_path(&path).map_err(broken)?;
        for row in reader.records() {
            self.skipped
                .extend(row.map_err(broken)?.get(1).map(str::to_owned));
        }
        Ok(())
    }
}

/// A point as text, the same for every run.
fn label(work: &Work) -> String {
    format!("{work:?}")
}

/// Appends one line in one write; a new file gets its header in the same write.
fn append_line(path: &Path, header: &[&str], fields: &[String]) -> Result<(), StoreError> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(io_error("write", path))?;
    let fresh = file.metadata().map_err(io_error("write", path))?.len() == 0;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let text = (|| {
        if fresh {
            writer.write_record(header)?;
        }
        writer.write_record(fields)?;
        writer
            .into_inner()
            .map_err(|e| csv::Error::from(e.into_error()))
    })();
    let text = text.map_err(|e| io_error("write", path)(e.into()))?;
    file.write_all(&text).map_err(io_error("write", path))
}

/// Removes a last line that does not end.
fn cut_torn_line(path: &Path) -> Result<(), StoreError> {
    let error = || io_error("mend", path);
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(error())?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(error())?;
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    if whole < text.len() {
        file.set_len(whole as u64).map_err(error())?;
        file.seek(SeekFrom::Start(whole as u64)).map_err(error())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::measure::Measured;
    use crate::calibrate::{Copy, CopyKind, LaunchKind};

    fn sample(bytes: u64) -> Sample {
        Sample {
            work: Work::Copy(Copy {
                kind: CopyKind::Device,
                bytes,
            }),
            kernel: "driver".to_owned(),
            measured: Measured {
                seconds: 1e-5,
                spread: 0.01,
                trials: 7,
                stable: true,
            },
        }
    }

    #[test]
    fn samples_come_back_and_a_torn_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), "G, 80GB", false).unwrap();
        store.append(sample(1024)).unwrap();
        store.append(sample(2048)).unwrap();
        store
            .skip(&Work::Launch(LaunchKind::Graph), "too slow, \"really\"")
            .unwrap();
        let path = folder.path().join("samples/copy.csv");
        let whole = fs::read(&path).unwrap();
        for torn in [1, 5, 20] {
            fs::write(&path, &whole[..whole.len() - torn]).unwrap();
            let mut again = Store::open(folder.path(), "G, 80GB", true).unwrap();
            assert!(again.has(&sample(1024).work));
            assert!(!again.has(&sample(2048).work), "{torn} bytes lost");
            assert!(again.has(&Work::Launch(LaunchKind::Graph)));
            again.append(sample(2048)).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn samples_are_not_overwritten_nor_mixed_with_those_of_another_gpu() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), "A", false)
            .unwrap()
            .append(sample(16))
            .unwrap();
        let error = Store::open(folder.path(), "A", false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("--resume"), "{error}");
        let error = Store::open(folder.path(), "B", true)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`A`") && error.contains("`B`"), "{error}");
    }

    #[test]
    fn an_unreadable_row_is_named_by_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), "A", false)
            .unwrap()
            .append(sample(16))
            .unwrap();
        let path = folder.path().join("samples/copy.csv");
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("driver,10.0000", "driver,0");
        fs::write(&path, text).unwrap();
        let error = Store::open(folder.path(), "A", true)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("copy.csv:2: column `time_us` holds `0`"),
            "{error}"
        );
    }
}
