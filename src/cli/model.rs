//! `pdsim model`: list, show and import model descriptions.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;

use super::exit::Failure;
use super::profile::table;
use super::{Outcome, output};
use crate::hardware;
use crate::latency::compose::Formats;
use crate::model::{self, KvDtype, MemoryPlan, ModelSpec, Parallelism, WeightDtype};
use crate::report;

const GIB: f64 = (1u64 << 30) as f64;

/// Share of the memory and tokens per step that the fit of `show` assumes.
const FRACTION: f64 = 0.9;
const STEP_TOKENS: u32 = 8192;

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// List the shipped models
    List,
    /// Print parameters, bytes, FLOPs and where a model fits
    Show(ShowArgs),
    /// Make a description from a Hugging Face config.json
    Import(ImportArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// A shipped name, an alias, or the path of a yaml
    model: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// The config.json
    config: PathBuf,
    /// Name of the model
    #[arg(long)]
    name: String,
    /// File to write [default: print it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs a subcommand.
pub(super) fn model(command: &ModelCommand) -> Outcome {
    match command {
        ModelCommand::List => list(),
        ModelCommand::Show(args) => show(args),
        ModelCommand::Import(args) => import(args),
    }
}

fn bad(error: impl std::fmt::Display) -> Failure {
    Failure::BadInput(error.to_string())
}

fn billions(parameters: u64) -> String {
    format!("{:.2}", parameters as f64 / 1e9)
}

fn list() -> Outcome {
    let mut table = table(&[
        "model",
        "parameters 1e9",
        "active 1e9",
        "layers",
        "weights GiB",
        "KV bytes/token",
    ]);
    for name in model::model_names() {
        let spec = model::model(name).map_err(bad)?;
        table.add_row([
            name.to_owned(),
            billions(spec.parameters()),
            billions(spec.active_parameters()),
            spec.layers.to_string(),
            format!("{:.1}", spec.weight_bytes(spec.native_weights) / GIB),
            spec.kv_bytes_per_token(KvDtype::Bf16).to_string(),
        ]);
    }
    report::emit(&format!("{table}\n"))?;
    Ok(())
}

fn show(args: &ShowArgs) -> Outcome {
    let spec = model::model(&args.model).map_err(bad)?;
    report::emit(&facts(&spec))?;
    report::emit(&format!("{}\n", fits(&spec, tensor)?))?;
    if spec.moe.is_some() {
        let head = "The same with attention data-parallel over all ranks and whole experts on each: smallest dp = ep up to 16";
        report::emit(&format!("\n{head}\n{}\n", fits(&spec, expert)?))?;
    }
    Ok(())
}

fn facts(spec: &ModelSpec) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{} ({})", spec.name, spec.source);
    let _ = writeln!(
        text,
        "parameters      {} 1e9, {} 1e9 active per token{}",
        billions(spec.parameters()),
        billions(spec.active_parameters()),
        spec.published_parameters.map_or_else(String::new, |p| {
            format!(
                " (published {:.2} 1e9, {:+.2} %)",
                p / 1e9,
                (spec.parameters() as f64 / p - 1.0) * 100.0
            )
        })
    );
    let _ = writeln!(
        text,
        "linear layers   {:.1} GFLOP per token",
        spec.linear_flops_per_token() / 1e9
    );
    for kv in [KvDtype::Bf16, KvDtype::Fp8] {
        let _ = writeln!(
            text,
            "KV cache        {} bytes per token at {}",
            spec.kv_bytes_per_token(kv),
            kv.name()
        );
    }
    for weights in formats(spec) {
        let native = if weights == spec.native_weights {
            " (as published)"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "weights         {:.1} GiB at {}{native}",
            spec.weight_bytes(weights) / GIB,
            weights.name()
        );
    }
    let _ = writeln!(
        text,
        "\nWhere it fits by weight format: smallest TP up to 16 and its KV tokens at 16 bits, at {FRACTION} of the memory and steps of {STEP_TOKENS} tokens"
    );
    text
}

/// So many ranks, and what the cut is called.
type Cut = fn(u32) -> (Parallelism, &'static str);

fn tensor(ranks: u32) -> (Parallelism, &'static str) {
    (Parallelism::new(ranks, 1), "tp")
}

fn expert(ranks: u32) -> (Parallelism, &'static str) {
    let spread = Parallelism {
        dp: ranks,
        ep: ranks,
        ..Parallelism::SINGLE
    };
    (spread, "dp")
}

/// The smallest cut at which the model fits, with its tokens of KV cache.
fn smallest(spec: &ModelSpec, memory_bytes: u64, weights: WeightDtype, cut: Cut) -> String {
    for ranks in 1..=16 {
        let (p, name) = cut(ranks);
        let tokens = STEP_TOKENS.div_ceil(p.dp);
        let plan = MemoryPlan {
            memory_bytes,
            fraction: FRACTION,
            activation_bytes: model::activation_estimate(spec, p.tp, tokens),
            weights,
            kv: KvDtype::Bf16,
        };
        if let Ok(capacity) = model::kv_capacity(spec, p, &plan) {
            return format!("{name} {ranks}: {}", capacity.tokens);
        }
    }
    "-".to_owned()
}

/// The weight formats that make a difference: MXFP4 covers experts alone.
fn formats(spec: &ModelSpec) -> Vec<WeightDtype> {
    let useful = |w: &WeightDtype| *w != WeightDtype::Mxfp4 || spec.moe.is_some();
    WeightDtype::ALL.into_iter().filter(useful).collect()
}

fn fits(spec: &ModelSpec, cut: Cut) -> Result<comfy_table::Table, Failure> {
    let formats = formats(spec);
    let mut header = vec!["GPU"];
    header.extend(formats.iter().map(|w| w.name()));
    let mut table = table(&header);
    for name in hardware::gpu_names() {
        let gpu = hardware::gpu(name).map_err(bad)?;
        let mut row = vec![name.to_owned()];
        row.extend(formats.iter().map(|&weights| {
            let formats = Formats {
                weights,
                kv: KvDtype::Bf16,
            };
            // What the GPU cannot compute in does not fit it either.
            if formats.check(&gpu).is_ok() {
                smallest(spec, gpu.memory_bytes, weights, cut)
            } else {
                "no peak".to_owned()
            }
        }));
        table.add_row(row);
    }
    Ok(table)
}

fn import(args: &ImportArgs) -> Outcome {
    let path = args.config.display().to_string();
    let text = std::fs::read_to_string(&args.config)
        .map_err(|e| Failure::BadInput(format!("cannot read {path}: {e}")))?;
    let imported = model::import(&text, &path, &args.name).map_err(bad)?;
    output::tell(&format!(
        "{}: {} 1e9 parameters",
        imported.spec.name,
        billions(imported.spec.parameters())
    ));
    match &args.out {
        None => report::emit(&imported.yaml)?,
        Some(out) => {
            let mut file = report::AtomicFile::create(out)?;
            file.write(imported.yaml.as_bytes())?;
            file.finish()?;
        }
    }
    Ok(())
}
