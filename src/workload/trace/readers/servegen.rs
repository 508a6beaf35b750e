//! ServeGen client windows: not requests, but what requests are drawn from.
//!
//! `chunk-N-trace.csv` has no header and a row for each window of 600 s: start, rate, coefficient of variation, family of
//! the gaps (`Gamma`, `Weibull` or empty), its shape and scale. `chunk-N-dataset.json` beside it holds a histogram of
//! prompt and of output tokens for each 21,600 s, written as Python dictionaries in text. Requests are drawn from both
//! with the seed of the read options.
//!
//! The gaps take the window's rate and the family's shape; the scale column does not agree with the rate in the published
//! files (one window of client 42 has rate 0.0167 /s and a gamma of mean 0.055 s) and is not used. A window without a
//! histogram inherits the last one that is not empty, or the first, and the report says how many did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use csv::ByteRecord;
use serde::Deserialize;

use crate::rng::{self, Rng};
use crate::units::PS_PER_S;
use crate::workload::draw;
use crate::workload::trace::error::Fault;
use crate::workload::trace::report::ReadWarning;
use crate::workload::trace::row::{Row, Rows};
use crate::workload::trace::source::Input;

/// Draws the requests of one ServeGen client.
pub(crate) struct ServeGen {
    windows: csv::Reader<Input>,
    datasets: BTreeMap<u64, Lengths>,
    arrivals: Rng,
    lengths: Rng,
    window: Option<Window>,
    seen: u64,
    empty: u64,
    inherited: u64,
}

/// One window, and where in it the next arrival is looked for.
struct Window {
    start_s: f64,
    /// The start of the next window, or 600 s on.
    end_s: f64,
    now_s: f64,
    rate: f64,
    gaps: Gaps,
    lengths: u64,
}

#[derive(Clone, Copy)]
enum Gaps {
    Exponential,
    Gamma { cv: f64 },
    Weibull { shape: f64 },
}

/// Cumulative histograms of tokens.
struct Lengths {
    input: Vec<(f64, u32)>,
    output: Vec<(f64, u32)>,
}

#[derive(Deserialize)]
struct RawLengths {
    input_tokens: String,
    output_tokens: String,
}

/// Length of a window in seconds.
const WINDOW_S: f64 = 600.0;

impl ServeGen {
    /// Opens the windows in `input` and the histograms beside `path`.
    pub(crate) fn new(input: Input, path: &Path, seed: u64) -> Result<Self, Fault> {
        let windows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(input);
        let dataset = dataset_path(path).ok_or_else(|| {
            Fault::new(
                1,
                "a file with another name",
                "a ServeGen file named `…-trace.csv`",
            )
        })?;
        Ok(Self {
            windows,
            datasets: read_datasets(&dataset)?,
            arrivals: rng::stream(seed, "servegen arrivals"),
            lengths: rng::stream(seed, "servegen lengths"),
            window: None,
            seen: 0,
            empty: 0,
            inherited: 0,
        })
    }

    /// Opens the next window with a rate above 0; false at the end.
    fn open_window(&mut self) -> Result<bool, Fault> {
        let mut record = ByteRecord::new();
        loop {
            let line = self.windows.position().line();
            let read = self.windows.read_byte_record(&mut record);
            if !read.map_err(|error| Fault::new(line, &error.to_string(), "a readable CSV row"))? {
                return Ok(false);
            }
            self.seen += 1;
            let window = self.parse(&record, line)?;
            if window.rate <= 0.0 {
                self.empty += 1;
                continue;
            }
            self.window = Some(window);
            return Ok(true);
        }
    }

    fn parse(&mut self, record: &ByteRecord, line: u64) -> Result<Window, Fault> {
        let field = |i: usize| {
            std::str::from_utf8(record.get(i).unwrap_or_default())
                .unwrap_or_default()
                .trim()
        };
        let number = |i: usize, what: &str| {
            let value = field(i)
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite() && *value >= 0.0);
            value.ok_or_else(|| {
                Fault::new(
                    line,
                    &format!("`{}`", field(i)),
                    format!("{what}, a number of at least 0,"),
                )
            })
        };
        let (start_s, rate) = (number(0, "a window's start")?, number(1, "a rate")?);
        let shape = number(4, "a shape")?;
        let gaps = match field(3) {
            "Gamma" if shape > 0.0 => Gaps::Gamma {
                cv: 1.0 / libm::sqrt(shape),
            },
            "Weibull" if shape > 0.0 => Gaps::Weibull { shape },
            "" => Gaps::Exponential,
            other => {
                let seen = format!("`{other}` of shape {shape}");
                return Err(Fault::new(
                    line,
                    &seen,
                    "`Gamma` or `Weibull` of a shape above 0, or nothing",
                ));
            }
        };
        Ok(Window {
            start_s,
            end_s: start_s + WINDOW_S,
            now_s: start_s,
            rate,
            gaps,
            lengths: self.lengths_key(start_s, rate > 0.0)?,
        })
    }

    /// The key of the histograms for a window: those of its six hours, or the last before, or the first.
    fn lengths_key(&mut self, start_s: f64, counts: bool) -> Result<u64, Fault> {
        let before = self.datasets.range(..=whole_seconds(start_s)).next_back();
        let found = before
            .or_else(|| self.datasets.first_key_value())
            .map(|(key, _)| *key);
        let key = found.ok_or_else(|| {
            let seen = "no histogram that is not empty";
            Fault::new(
                1,
                seen,
                "token histograms in the `…-dataset.json` beside the trace",
            )
        })?;
        let own = key as f64 <= start_s && start_s < key as f64 + 21_600.0;
        self.inherited += u64::from(counts && !own);
        Ok(key)
    }
}

impl Rows for ServeGen {
    fn next_row(&mut self) -> Result<Option<Row>, Fault> {
        loop {
            let Some(window) = &mut self.window else {
                if self.open_window()? {
                    continue;
                }
                return Ok(None);
            };
            let unit = match window.gaps {
                Gaps::Exponential => draw::exponential(&mut self.arrivals),
                Gaps::Gamma { cv } => draw::gamma(&mut self.arrivals, cv),
                Gaps::Weibull { shape } => draw::weibull(&mut self.arrivals, shape),
            };
            window.now_s += unit / window.rate;
            if window.now_s >= window.end_s {
                self.window = None;
                continue;
            }
            let offset_ps = ((window.now_s - window.start_s) * PS_PER_S as f64).round();
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most one window of 6e14 ps"
            )]
            let offset_ps = offset_ps as i128;
            let lengths = &self.datasets[&window.lengths];
            return Ok(Some(Row {
                at_ps: i128::from(whole_seconds(window.start_s)) * i128::from(PS_PER_S) + offset_ps,
                input_tokens: pick(&lengths.input, draw::uniform(&mut self.lengths)),
                output_tokens: pick(&lengths.output, draw::uniform(&mut self.lengths)),
                ..Row::default()
            }));
        }
    }

    fn warnings(&self) -> Vec<ReadWarning> {
        vec![ReadWarning::DrawnFromWindows {
            windows: self.seen,
            empty: self.empty,
            inherited: self.inherited,
        }]
    }
}

fn whole_seconds(seconds: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float-to-int casts saturate; negatives are refused where the number is read"
    )]
    let whole = seconds as u64;
    whole
}

/// `chunk-N-dataset.json` for `chunk-N-trace.csv`, with or without a compression suffix on the latter.
fn dataset_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = name
        .split("-trace.csv")
        .next()
        .filter(|stem| stem.len() < name.len())?;
    Some(path.with_file_name(format!("{stem}-dataset.json")))
}

/// Reads the histograms that are not empty, by the start of their six hours.
fn read_datasets(path: &Path) -> Result<BTreeMap<u64, Lengths>, Fault> {
    let fault = |seen: &str| Fault::new(1, seen, format!("token histograms in {}", path.display()));
    let text = std::fs::read(path).map_err(|error| fault(&error.to_string()))?;
    let raw: BTreeMap<String, RawLengths> =
        serde_json::from_slice(&text).map_err(|error| fault(&error.to_string()))?;
    let mut datasets = BTreeMap::new();
    for (start, lengths) in &raw {
        let key = start
            .parse()
            .map_err(|_| fault(&format!("a window `{start}`")))?;
        let parse = |text: &str| {
            histogram(text).ok_or_else(|| fault(&format!("a broken histogram in window {start}")))
        };
        let (input, output) = (
            parse(&lengths.input_tokens)?,
            parse(&lengths.output_tokens)?,
        );
        if !input.is_empty() && !output.is_empty() {
            datasets.insert(key, Lengths { input, output });
        }
    }
    Ok(datasets)
}

/// Parses `{131: 3.0e-05, 132: 9.1e-06}` into cumulative shares; weights need not sum to 1. None for anything else.
fn histogram(text: &str) -> Option<Vec<(f64, u32)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut sum = 0.0;
    let mut out = Vec::new();
    for entry in inner
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let (tokens, weight) = entry.split_once(':')?;
        let weight: f64 = weight.trim().parse().ok()?;
        if !(weight.is_finite() && weight >= 0.0) {
            return None;
        }
        sum += weight;
        out.push((sum, tokens.trim().parse().ok()?));
    }
    if sum <= 0.0 {
        return out.is_empty().then_some(out);
    }
    for entry in &mut out {
        entry.0 /= sum;
    }
    Some(out)
}

/// The tokens at probability `p` of a cumulative histogram.
fn pick(histogram: &[(f64, u32)], p: f64) -> u32 {
    let at = histogram.partition_point(|(share, _)| *share < p);
    histogram[at.min(histogram.len() - 1)].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_dictionaries_become_shares() {
        assert_eq!(histogram("{}"), Some(vec![]));
        let parsed = histogram("{1: 0.25, 3: 0.75}").unwrap();
        assert_eq!(parsed, [(0.25, 1), (1.0, 3)]);
        assert_eq!(
            (pick(&parsed, 0.2), pick(&parsed, 0.3), pick(&parsed, 0.999)),
            (1, 3, 3)
        );
        // Weights that do not sum to 1 are scaled.
        assert_eq!(histogram("{2: 1, 4: 3}").unwrap(), [(0.25, 2), (1.0, 4)]);
        for broken in ["", "{1}", "{a: 1}", "{1: x}", "{1: -1}", "[1]", "{1: 0}"] {
            assert_eq!(histogram(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_histograms_lie_beside_the_windows() {
        let beside = |name: &str| dataset_path(Path::new(name));
        assert_eq!(
            beside("a/chunk-7-trace.csv"),
            Some(PathBuf::from("a/chunk-7-dataset.json"))
        );
        assert_eq!(
            beside("a/chunk-7-trace.csv.gz"),
            Some(PathBuf::from("a/chunk-7-dataset.json"))
        );
        assert_eq!(beside("a/other.csv"), None);
    }
}
