//! The arguments of `pdsim trace`, as typed and as meant.

use std::path::PathBuf;

use clap::Subcommand;

use super::super::exit::Failure;
use crate::units::SimDuration;
use crate::workload::WorkloadError;
use crate::workload::trace::{Beyond, Failed, MaxContext, ReadOptions, Window};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TraceArgs {
    #[command(subcommand)]
    pub(super) action: Action,
}

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Account for every row of a trace and print its statistics
    Info(InfoArgs),
    /// Write a trace in another format
    Convert(ConvertArgs),
    /// Write the requests that a scenario generates
    Generate(GenerateArgs),
    /// Fit arrivals and lengths to a trace and print a `workload:` section
    Fit(FitArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct InfoArgs {
    /// Trace file; gzip and zstd are read through
    pub(super) trace: PathBuf,
    #[command(flatten)]
    pub(super) select: Select,
    /// Print JSON instead of text
    #[arg(long)]
    pub(super) json: bool,
    /// Folder for the page of charts [default: output/<trace name>]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Draw no charts
    #[arg(long)]
    pub(super) no_charts: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ConvertArgs {
    /// Trace file; gzip and zstd are read through
    pub(super) trace: PathBuf,
    /// File to write, or - for stdout
    pub(super) output: PathBuf,
    /// Format to write: pdsim-csv, pdsim-jsonl or mooncake [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    pub(super) to: Option<String>,
    #[command(flatten)]
    pub(super) select: Select,
    #[command(flatten)]
    pub(super) retime: Retime,
}

#[derive(Debug, clap::Args)]
pub(super) struct GenerateArgs {
    /// Scenario whose workload is generated
    pub(super) scenario: PathBuf,
    /// File to write, or - for stdout
    pub(super) output: PathBuf,
    /// Format to write: pdsim-csv, pdsim-jsonl or mooncake [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    pub(super) to: Option<String>,
    /// Seed [default: the first of the scenario]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Override a scenario key, as in `--set workload.rate="4 /s"`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) overrides: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct FitArgs {
    /// Trace file; gzip and zstd are read through
    pub(super) trace: PathBuf,
    #[command(flatten)]
    pub(super) select: Select,
}

/// How to read a trace, and which of its requests to take.
#[derive(Debug, clap::Args)]
pub(super) struct Select {
    /// Format of the trace [default: by its content]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Unit of numeric times: s, ms, us or ns [default: the format's own]
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<String>,
    /// Keep arrivals of this window, counted from the first, as in 600s..20min; either end may be left out
    #[arg(long, value_name = "FROM..TO")]
    window: Option<String>,
    /// Stop after this many requests
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Keep each session, or each request where there are none, with this chance
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Longest prompt + output; longer requests are dropped, or cut with :truncate
    #[arg(long, value_name = "TOKENS[:drop|:truncate]")]
    max_context: Option<String>,
    /// What to do with failed requests: drop or prefill-only
    #[arg(long, value_name = "WHAT", default_value = "drop")]
    failed: String,
    /// Characters per token for texts without counts [default: 4]
    #[arg(long, value_name = "N")]
    chars_per_token: Option<f64>,
    /// Seed of thinning, shuffled arrivals and formats that describe distributions
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

/// What to do with the arrivals.
#[derive(Debug, clap::Args)]
pub(super) struct Retime {
    /// Multiply all gaps
    #[arg(long, value_name = "FACTOR")]
    time_scale: Option<f64>,
    /// Stretch time to this mean rate in requests per second
    #[arg(long, value_name = "RATE")]
    rate: Option<f64>,
    /// Replace the arrivals by a Poisson process of the same mean rate, or of --rate
    #[arg(long)]
    shuffle_arrivals: bool,
}

impl Select {
    /// The options as meant.
    pub(super) fn options(&self) -> Result<ReadOptions, Failure> {
        let options = ReadOptions {
            format: self
                .format
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(|e| flag(&e))?,
            time_unit: self
                .time_unit
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(|e| flag(&e))?,
            window: self.window.as_deref().map(window).transpose()?,
            limit: self.limit,
            sample: self.sample,
            max_context: self.max_context.as_deref().map(max_context).transpose()?,
            failed: match self.failed.as_str() {
                "drop" => Failed::Drop,
                "prefill-only" => Failed::PrefillOnly,
                other => {
                    return Err(flag(&WorkloadError::unknown_name(
                        "failed",
                        other,
                        ["drop", "prefill-only"].into_iter(),
                    )));
                }
            },
            chars_per_token: self.chars_per_token,
            seed: self.seed,
            ..ReadOptions::default()
        };
        options.validate().map_err(|e| flag(&e))?;
        Ok(options)
    }
}

impl Retime {
    /// Adds these to the options.
    pub(super) fn apply(&self, mut options: ReadOptions) -> Result<ReadOptions, Failure> {
        options.time_scale = self.time_scale;
        options.rate = self.rate;
        options.shuffle_arrivals = self.shuffle_arrivals;
        options.validate().map_err(|e| flag(&e))?;
        Ok(options)
    }
}

/// The failure of a flag, which is the option's key with dashes.
fn flag(error: &WorkloadError) -> Failure {
    let mut error = error.clone();
    error.key = format!("--{}", error.key.replace('_', "-"));
    Failure::BadInput(error.to_string())
}

fn max_context(text: &str) -> Result<MaxContext, Failure> {
    let (tokens, beyond) = text.split_once(':').unwrap_or((text, "drop"));
    let beyond = match beyond {
        "drop" => Some(Beyond::Drop),
        "truncate" => Some(Beyond::Truncate),
        _ => None,
    };
    match (tokens.parse(), beyond) {
        (Ok(tokens), Some(beyond)) => Ok(MaxContext { tokens, beyond }),
        _ => Err(flag(&WorkloadError::new(
            "max_context",
            format!("`{text}`"),
            "tokens, as in 8192 or 8192:truncate,",
        ))),
    }
}

fn window(text: &str) -> Result<Window, Failure> {
    let wrong = || {
        flag(&WorkloadError::new(
            "window",
            format!("`{text}`"),
            "two times, as in 600s..20min,",
        ))
    };
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let span = |text: &str| span(text.trim()).ok_or_else(wrong);
    Ok(Window {
        from: if from.trim().is_empty() {
            SimDuration::ZERO
        } else {
            span(from)?
        },
        to: if to.trim().is_empty() {
            None
        } else {
            Some(span(to)?)
        },
    })
}

/// A span with its unit: `90s`, `1.5 h`.
fn span(text: &str) -> Option<SimDuration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let value: f64 = text[..split].trim().parse().ok()?;
    let unit = match &text[split..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    SimDuration::from_secs_f64(value * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_units_and_open_ends() {
        let seconds = |n: u64| SimDuration::from_ms(n * 1000);
        let seen = |text: &str| window(text).ok().map(|w| (w.from, w.to));
        assert_eq!(
            seen("600s..20min"),
            Some((seconds(600), Some(seconds(1200))))
        );
        assert_eq!(
            seen("..1.5 h"),
            Some((SimDuration::ZERO, Some(seconds(5400))))
        );
        assert_eq!(seen("1d.."), Some((seconds(86_400), None)));
        for wrong in ["600..900", "5s", "a..b", "5s..-3s"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn contexts_are_dropped_unless_said_otherwise() {
        let seen = |text: &str| max_context(text).ok().map(|c| (c.tokens, c.beyond));
        assert_eq!(seen("8192"), Some((8192, Beyond::Drop)));
        assert_eq!(seen("8192:truncate"), Some((8192, Beyond::Truncate)));
        assert_eq!(seen("8192:cut"), None);
        assert_eq!(seen("-1"), None);
    }
}
