//! A trace as a workload: in memory, or read again from its file for every run.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::rng;
use crate::units::{SimDuration, SimTime};
use crate::workload::arrivals::{Gaps, Renewal};
use crate::workload::error::{WorkloadError, positive};
use crate::workload::generate::{MAX_SPAN_S, mean_rate, scaled};
use crate::workload::trace::error::TraceError;
use crate::workload::trace::options::ReadOptions;
use crate::workload::trace::reader::{Reader, Stop, read_in_order, shift};
use crate::workload::trace::report::{ReadReport, ReadWarning};
use crate::workload::trace::row::Row;
use crate::workload::{PrefixBuilder, Prefixes, RequestSpec};

/// Requests kept in memory, 32 bytes each; longer traces are read from their file again for every run.
const IN_MEMORY: usize = 2_000_000;

/// A recorded trace: requests in order of arrival; cheap to clone and safe to share between threads.
#[derive(Debug, Clone)]
pub struct Trace {
    source: Source,
    retime: Retime,
    prefixes: Option<Arc<Prefixes>>,
    /// What was read, kept and dropped.
    pub report: ReadReport,
}

#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<[RequestSpec]>),
    File {
        file: Arc<FileSource>,
        /// The first error of a later read; the file was readable when it was scanned.
        failure: Arc<Mutex<Option<TraceError>>>,
    },
}

#[derive(Debug)]
struct FileSource {
    path: PathBuf,
    options: ReadOptions,
    shift_ps: i128,
    max_output: MaxOutput,
    /// How many requests there were when the file was scanned.
    kept: u64,
}

/// Where a request's `max_output` comes from: what the reader was asked for, or the row's own, or the longest output of
/// the trace, which tells a policy nothing about any one request.
#[derive(Debug, Clone, Copy)]
struct MaxOutput {
    asked: Option<u32>,
    longest: u32,
}

impl MaxOutput {
    /// The value for a row that says `own`, where 0 is nothing.
    fn of(self, own: u32) -> u32 {
        let own = (own > 0).then_some(own);
        self.asked.or(own).unwrap_or(self.longest)
    }
}

/// What happens to the arrivals after reading.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Retime {
    /// All arrivals are multiplied; 1 keeps them to the picosecond.
    Scale(f64),
    /// A Poisson process takes their place.
    Poisson { rate: f64, seed: u64 },
}

/// Reads a trace file, whole if it is short and once through if it is long.
///
/// # Errors
/// When the file cannot be read, its format is not known, a line is malformed, an option is impossible, or no row is
/// kept.
pub fn read_trace(path: &Path, options: &ReadOptions) -> Result<Trace, TraceError> {
    read_up_to(path, options, IN_MEMORY)
}

/// As [`read_trace`], with at most `in_memory` requests kept in memory.
pub(crate) fn read_up_to(
    path: &Path,
    options: &ReadOptions,
    in_memory: usize,
) -> Result<Trace, TraceError> {
    read_in_order(
        || Reader::open(path, options),
        |reader| collect(reader, path, options, in_memory),
    )
}

/// Reads all rows, and keeps them unless there are more than `in_memory` and the file can be read again.
pub(crate) fn collect(
    mut reader: Reader,
    path: &Path,
    options: &ReadOptions,
    in_memory: usize,
) -> Result<Trace, Stop> {
    let mut requests = Vec::new();
    let mut prefixes = PrefixBuilder::new();
    let mut first: Option<i128> = None;
    let (mut longest, mut kept) = (1, 0_u64);
    while let Some(row) = reader.next()? {
        let first = *first.get_or_insert(row.at_ps);
        longest = longest.max(row.output_tokens);
        kept += 1;
        if kept <= in_memory as u64 {
            // A span beyond the clock is refused at the end; until then it must only not overflow.
            let since = u64::try_from(row.at_ps - first).unwrap_or(u64::MAX);
            requests.push(request(&row, SimTime::from_ps(since)));
            let extra = reader.extra();
            prefixes.push(row.input_tokens, extra.blocks, extra.block_tokens);
        } else if !requests.is_empty() {
            requests = Vec::new();
            prefixes = PrefixBuilder::new();
        }
    }
    let report = reader.finish()?;
    let max_output = MaxOutput {
        asked: options.max_output,
        longest,
    };
    let first = first.unwrap_or_default();
    let shift_ps = shift(report.format, options, first);
    let source = if requests.is_empty() && in_order(&report) {
        Source::File {
            file: Arc::new(FileSource {
                path: path.to_owned(),
                options: options.clone(),
                shift_ps,
                max_output,
                kept: report.kept,
            }),
            failure: Arc::default(),
        }
    } else {
        let offset = SimDuration::from_ps(u64::try_from(first - shift_ps).unwrap_or_default());
        let placed = requests.into_iter().map(|request| RequestSpec {
            arrival: request.arrival.saturating_add(offset),
            max_output: max_output.of(request.max_output),
            ..request
        });
        Source::Memory(placed.collect())
    };
    let retime = Retime::new(&report, options)?;
    let prefixes = match source {
        Source::Memory(_) => prefixes.finish().map(Arc::new),
        Source::File { .. } => None,
    };
    Ok(Trace {
        source,
        retime,
        prefixes,
        report,
    })
}

/// Whether the file was in order of arrival, so that it can be read again without being sorted in memory.
fn in_order(report: &ReadReport) -> bool {
    let mut warnings = report.warnings.iter();
    !warnings.any(|warning| matches!(warning, ReadWarning::Unsorted { .. }))
}

/// The request of a row, with the row's own `max_output`.
const fn request(row: &Row, arrival: SimTime) -> RequestSpec {
    RequestSpec {
        arrival,
        input_tokens: row.input_tokens,
        output_tokens: row.output_tokens,
        max_output: row.max_output,
        class: row.class,
        session: row.session,
    }
}

impl Retime {
    fn new(report: &ReadReport, options: &ReadOptions) -> Result<Self, TraceError> {
        let needs = |key: &str| {
            let allowed = "a trace with a span, or a `rate` beside `shuffle_arrivals`";
            WorkloadError::new(key, "a trace whose requests all arrive at once", allowed)
        };
        if options.shuffle_arrivals {
            let recorded = || {
                report
                    .rate()
                    .map(|rate| rate / options.time_scale.unwrap_or(1.0))
            };
            let rate = options
                .rate
                .or_else(recorded)
                .ok_or_else(|| needs("shuffle_arrivals"))?;
            let seed = options.seed;
            return Ok(Self::Poisson { rate, seed });
        }
        let scale = match (options.rate, options.time_scale) {
            (Some(rate), _) => report.rate().ok_or_else(|| needs("rate"))? / rate,
            (None, scale) => scale.unwrap_or(1.0),
        };
        let last_s = report.span.as_secs_f64() * scale;
        if last_s > MAX_SPAN_S {
            let key = if options.rate.is_some() {
                "rate"
            } else {
                "time_scale"
            };
            return Err(WorkloadError::new(
                key,
                scale,
                "a scale at which the trace lasts at most 107 days",
            )
            .into());
        }
        Ok(Self::Scale(scale))
    }
}

impl Trace {
    /// How many requests there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.report.kept
    }

    /// Never true: an empty trace is an error.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.report.kept == 0
    }

    /// Mean rate in requests per second, as replayed; none when all arrive at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        match self.retime {
            Retime::Scale(scale) => {
                mean_rate(self.report.kept, self.report.span).map(|rate| rate / scale)
            }
            Retime::Poisson { rate, .. } => Some(rate),
        }
    }

    /// The same trace at another mean rate: its time is stretched, or its Poisson process sped up.
    ///
    /// # Errors
    /// When `rate` is not a finite number above 0, the stretched trace does not fit the clock, or the trace has no span.
    pub fn with_rate(&self, rate: f64) -> Result<Self, WorkloadError> {
        positive("rate", rate)?;
        let retime = match self.retime {
            Retime::Poisson { seed, .. } => Retime::Poisson { rate, seed },
            Retime::Scale(_) => {
                let recorded = mean_rate(self.report.kept, self.report.span).ok_or_else(|| {
                    let allowed = "no rate, since all requests of this trace arrive at once,";
                    WorkloadError::new("rate", rate, allowed)
                })?;
                let scale = recorded / rate;
                if self.report.span.as_secs_f64() * scale > MAX_SPAN_S {
                    return Err(WorkloadError::new(
                        "rate",
                        rate,
                        "a rate at which the trace lasts at most 107 days",
                    ));
                }
                Retime::Scale(scale)
            }
        };
        Ok(Self {
            retime,
            ..self.clone()
        })
    }

    /// Streams the requests in order of arrival: from memory, or from the file in constant memory.
    ///
    /// A file that has become unreadable since it was scanned ends the stream early; [`Trace::failure`] then says why.
    #[must_use]
    pub fn stream(&self) -> Box<dyn Iterator<Item = RequestSpec> + Send> {
        let plain: Box<dyn Iterator<Item = RequestSpec> + Send> = match &self.source {
            Source::Memory(requests) => {
                let requests = Arc::clone(requests);
                Box::new((0..requests.len()).map(move |i| requests[i]))
            }
            Source::File { file, failure } => Box::new(FileStream::new(file, failure)),
        };
        match self.retime {
            Retime::Scale(scale) => Box::new(plain.map(move |request| RequestSpec {
                arrival: scaled(request.arrival, scale),
                ..request
            })),
            Retime::Poisson { rate, seed } => {
                let times = Renewal::new(
                    Gaps::Exponential,
                    rate,
                    rng::stream(seed, "shuffled arrivals"),
                );
                Box::new(
                    plain
                        .zip(times)
                        .map(|(request, arrival)| RequestSpec { arrival, ..request }),
                )
            }
        }
    }

    /// The shared starts of the prompts; none for a format without block ids and for a trace read from its file.
    #[must_use]
    pub fn prefixes(&self) -> Option<Arc<Prefixes>> {
        self.prefixes.clone()
    }

    /// Why a stream from the file ended early, if one did: the file has changed since it was scanned.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        match &self.source {
            Source::Memory(_) => None,
            Source::File { failure, .. } => {
                let failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.as_ref().map(ToString::to_string)
            }
        }
    }

    /// The error behind [`Trace::failure`], taken out.
    pub(crate) fn take_failure(&self) -> Option<TraceError> {
        match &self.source {
            Source::Memory(_) => None,
            Source::File { failure, .. } => failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        }
    }

    /// Whether the requests are in memory.
    #[must_use]
    pub const fn is_in_memory(&self) -> bool {
        matches!(self.source, Source::Memory(_))
    }
}

/// The requests of a long trace, read from its file.
struct FileStream {
    reader: Option<Reader>,
    handed_out: u64,
    file: Arc<FileSource>,
    failure: Arc<Mutex<Option<TraceError>>>,
}

impl FileStream {
    fn new(file: &Arc<FileSource>, failure: &Arc<Mutex<Option<TraceError>>>) -> Self {
        let mut stream = Self {
            reader: None,
            handed_out: 0,
            file: Arc::clone(file),
            failure: Arc::clone(failure),
        };
        match Reader::open(&file.path, &file.options) {
            Ok(reader) => stream.reader = Some(reader),
            Err(error) => stream.fail(error),
        }
        stream
    }

    fn fail(&self, error: TraceError) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }
}

impl Iterator for FileStream {
    type Item = RequestSpec;

    fn next(&mut self) -> Option<RequestSpec> {
        let row = self.reader.as_mut()?.next();
        // Another first arrival, or fewer rows: every line may still be good, but it is not the trace that was scanned.
        let changed = match &row {
            Ok(Some(row)) => row.at_ps < self.file.shift_ps,
            Ok(None) => self.handed_out != self.file.kept,
            Err(_) => false,
        };
        if changed {
            self.reader = None;
            self.fail(TraceError::changed(&self.file.path));
            return None;
        }
        match row {
            Ok(Some(row)) => {
                self.handed_out += 1;
                let ps = u64::try_from(row.at_ps - self.file.shift_ps).ok()?;
                let request = request(&row, SimTime::from_ps(ps));
                Some(RequestSpec {
                    max_output: self.file.max_output.of(request.max_output),
                    ..request
                })
            }
            Ok(None) => None,
            Err(stop) => {
                self.reader = None;
                self.fail(match stop {
                    Stop::Error(error) => error,
                    Stop::Unsorted => TraceError::changed(&self.file.path),
                });
                None
            }
        }
    }
}
