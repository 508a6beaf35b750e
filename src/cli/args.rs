//! The command line as typed.

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

use super::calibrate::CalibrateArgs;
use super::trace::TraceArgs;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default());

/// Simulates LLM serving clusters: which of colocated, chunked prefill and disaggregated serves your load better, and why.
#[derive(Debug, Parser)]
#[command(name = "pdsim", version, styles = STYLES, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 ok, 1 internal or I/O failure, 2 bad scenario, flags or trace, 3 a --require condition was missed, 4 no usable GPU (calibrate)."
)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Simulate every system of a scenario on the same arrivals, compare them, write CSV and PNG files
    Run(RunArgs),
    /// Parse and validate scenarios, run nothing
    Check(CheckArgs),
    /// Look at, convert, generate and fit traces
    Trace(TraceArgs),
    /// Write a commented starter scenario
    Init(InitArgs),
    /// Measure a GPU of this machine: kernel times for a profile
    Calibrate(CalibrateArgs),
    /// Break one prefill and one decode step down by operator; TTFT and TPOT without load
    Explain(super::explain::ExplainArgs),
    /// List, show and import model descriptions
    #[command(subcommand)]
    Model(super::model::ModelCommand),
    /// List, show, fit and check GPU profiles
    #[command(subcommand)]
    Profile(super::profile::ProfileCommand),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

/// Overrides that every command that reads scenarios takes.
#[derive(Debug, clap::Args)]
pub(super) struct Overrides {
    /// Override a scenario key, as in `--set workload.rate="4 /s"`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run the seeds 1 to N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
}

impl Overrides {
    /// All overrides as `key=value`, in the order of their effect.
    pub(super) fn flags(&self) -> Vec<String> {
        let seeds = self.seeds.map(|n| format!("seeds={n}"));
        self.set.iter().cloned().chain(seeds).collect()
    }
}

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct RunArgs {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub(super) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) overrides: Overrides,
    /// Folder for the results [default: output/<scenario name>]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Fail with exit code 3 unless this holds, as in `--require "attainment>=0.9"` or `--require
    /// "disaggregated.ttft_p90_ms<250"`; may be repeated
    #[arg(long, value_name = "CONDITION")]
    pub(super) require: Vec<String>,
    /// Print the summary as JSON instead of tables
    #[arg(long)]
    pub(super) json: bool,
    /// Print results only: no progress, no notes
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Threads to simulate on [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Step every token instead of evaluating runs of decode steps at once: same results, slower
    #[arg(long)]
    no_fast_forward: bool,
    /// Keep no record per request: no requests.csv, memory that does not grow with the run
    #[arg(long)]
    no_requests: bool,
    /// Draw no charts
    #[arg(long)]
    no_charts: bool,
    /// Write each run as `vllm bench serve --save-detailed` would, below vllm-bench/ of the results
    #[arg(long, conflicts_with = "no_requests")]
    vllm_json: bool,
}

impl RunArgs {
    /// All overrides as `key=value`; switches are overrides too, so that the resolved scenario states them.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = self.overrides.flags();
        let switches = [
            (self.no_fast_forward, "fast_forward=false"),
            (self.no_requests, "output.requests=false"),
            (self.no_charts, "output.charts=false"),
            (self.vllm_json, "output.vllm_bench=true"),
        ];
        flags.extend(
            switches
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, flag)| (*flag).to_owned()),
        );
        flags
    }

    /// How many threads to run on; none: one per core.
    pub(super) fn threads(&self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Scenario files
    #[arg(required = true, value_name = "SCENARIO")]
    pub(super) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) overrides: Overrides,
    /// Print the resolved scenario, every default written out
    #[arg(long)]
    pub(super) resolved: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// File to write; it must not exist yet
    #[arg(default_value = "scenario.yaml", value_name = "FILE")]
    pub(super) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    pub(super) shell: clap_complete::Shell,
}
