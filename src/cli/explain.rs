//! `pdsim explain`: where the time of a step goes, and how TTFT and TPOT grow without load.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::args::Overrides;
use super::exit::Failure;
use super::profile::table;
use super::{Outcome, output};
use crate::cluster::{PoolSpec, Role};
use crate::latency::compose::Operator;
use crate::latency::{Chunk, LatencyModel, Stage, StepShape, measured_share};
use crate::report;
use crate::report::{Balance, balance};
use crate::scenario;

/// Prompt lengths and contexts of the two curves.
const LENGTHS: [u32; 8] = [128, 512, 1024, 2048, 4096, 8192, 16384, 32768];

/// Requests of the workload whose mean tells how prefill and decode should be split.
const REQUESTS: usize = 1_000;

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// Scenario file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    overrides: Overrides,
    /// Prompt tokens of the prefill step
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    prompt: u32,
    /// Sequences of the decode step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,
    /// Context tokens of each of them
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    context: u32,
}

/// Explains every pool of the scenario's first point; equal pools once.
pub(super) fn explain(args: &ExplainArgs) -> Outcome {
    let experiment = scenario::load(&args.scenario, &args.overrides.flags())?;
    for note in &experiment.notes {
        output::tell(&format!("note: {note}"));
    }
    let point = &experiment.points[0];
    for system in &point.systems {
        for pool in &system.pools {
            let formats = pool.latency.formats().map_or_else(String::new, |f| {
                format!(", {} weights, {} KV", f.weights.name(), f.kv.name())
            });
            report::emit(&format!(
                "{} · {}: {} × ({}) {}{formats}\n\n",
                system.name,
                pool.name,
                pool.instances,
                degrees(pool),
                pool.gpu
            ))?;
            for prefill in [true, false] {
                let other = if prefill { Role::Decode } else { Role::Prefill };
                if pool.role == other {
                    continue;
                }
                for engine in engines(pool, prefill) {
                    step(args, &engine, prefill)?;
                    curve(&engine, prefill)?;
                }
            }
        }
        let requests = point.workload.stream(experiment.seeds[0]).take(REQUESTS);
        if let Some(balance) = balance(system, requests) {
            report::emit(&split_line(&system.name, &balance))?;
        }
    }
    Ok(())
}

/// What the split between prefill and decode should follow.
fn split_line(system: &str, b: &Balance) -> String {
    let (p, d) = (b.prefill, b.decode);
    let (least, bound) = if p.requests_per_s() <= d.requests_per_s() {
        (p.requests_per_s(), "prefill")
    } else {
        (d.requests_per_s(), "decode")
    };
    format!(
        "{system} · balance: a request ({:.0} tokens in, {:.0} out on average) takes {:.1} ms of a prefill instance and {:.1} ms of a decode\n\
         instance at its largest batch ({} sequences): work_P : work_D = {:.2} : 1. {}P{}D carries at most {least:.2} requests/s, bound by\n\
         {bound}; a promise on TPOT asks for smaller decode batches, so for more decode work.\n\n",
        b.input_tokens,
        b.output_tokens,
        1e3 * p.seconds,
        1e3 * d.seconds,
        b.decode_batch,
        p.seconds / d.seconds,
        p.instances,
        d.instances,
    )
}

/// `tp 8 pp 1`, and dp and ep where there are.
fn degrees(pool: &PoolSpec) -> String {
    let mut text = format!("tp {} pp {}", pool.tp, pool.pp);
    for (name, degree) in [("dp", pool.dp), ("ep", pool.ep)] {
        if degree > 1 {
            let _ = write!(text, " {name} {degree}");
        }
    }
    text
}

/// Who knows the times of a kind of step, over how many stages, and under which circumstances.
struct Engine<'a> {
    model: &'a dyn LatencyModel,
    pp: u32,
    when: &'static str,
}

/// The engine of a pool; where prompts and decodes share GPUs, that of a stream alone, and beside the other.
fn engines(pool: &PoolSpec, prefill: bool) -> Vec<Engine<'_>> {
    let Some(streams) = &pool.multiplex else {
        return vec![Engine {
            model: pool.latency.as_ref(),
            pp: pool.pp,
            when: "",
        }];
    };
    let (models, when) = if prefill {
        (
            &streams.prefill,
            [" while nothing decodes", " beside decodes"],
        )
    } else {
        (
            &streams.decode,
            [" while no prompt is computed", " beside prompts"],
        )
    };
    let pairs = models.iter().map(Arc::as_ref).zip(when);
    let pp = pool.pp;
    pairs
        .map(|(model, when)| Engine { model, pp, when })
        .collect()
}

/// Milliseconds of a step over all stages.
fn total_ms(engine: &Engine<'_>, shape: &StepShape<'_>) -> f64 {
    (0..engine.pp)
        .map(|index| {
            let of = engine.pp;
            let time = engine.model.step_time(shape, Stage { index, of });
            time.as_ms_f64()
        })
        .sum()
}

/// One prompt computed in one step.
const fn whole_prompt(tokens: u32) -> [Chunk; 1] {
    [Chunk {
        new: tokens,
        past: 0,
        last: true,
    }]
}

fn step(args: &ExplainArgs, engine: &Engine<'_>, prefill: bool) -> Result<(), Failure> {
    let chunks = whole_prompt(args.prompt);
    let (shape, title) = if prefill {
        let shape = StepShape {
            chunks: &chunks,
            decodes: 0,
            context: 0,
        };
        (shape, format!("prefill of {} tokens", args.prompt))
    } else {
        let shape = StepShape {
            chunks: &[],
            decodes: args.batch,
            context: u64::from(args.batch) * u64::from(args.context),
        };
        let title = format!(
            "decode of {} sequences with {} tokens each",
            args.batch, args.context
        );
        (shape, title)
    };
    let total = total_ms(engine, &shape);
    let when = engine.when;
    report::emit(&format!("One {title}{when}: {total:.3} ms\n"))?;
    let mut table = table(&[
        "operator", "runs", "each µs", "ms", "share %", "TFLOP/s", "GB/s", "measured",
    ]);
    for index in 0..engine.pp {
        let of = engine.pp;
        let Some(operators) = engine.model.breakdown(&shape, Stage { index, of }) else {
            report::emit("the step-time model of this pool is not composed of kernels\n\n")?;
            return Ok(());
        };
        for op in operators.iter().filter(|o| o.seconds() > 0.0) {
            let mut cells = row(op, total);
            if engine.pp > 1 {
                cells[0] = format!("stage {index}: {}", op.name);
            }
            table.add_row(cells);
        }
    }
    let share = 100.0 * measured_share(engine.model, &shape, engine.pp).unwrap_or(0.0);
    report::emit(&format!(
        "{table}\n{share:.0} % of the time lies inside measured ranges.\n\n"
    ))?;
    Ok(())
}

/// An operator's cells; `total` is the step's time in ms.
fn row(op: &Operator, total: f64) -> [String; 8] {
    let rate = |work: f64, unit: f64| {
        if work > 0.0 {
            format!("{:.0}", work / op.each.seconds / unit)
        } else {
            "-".to_owned()
        }
    };
    let ms = op.seconds() * 1e3;
    [
        op.name.to_owned(),
        format!("{:.0}", op.count),
        format!("{:.1}", op.each.seconds * 1e6),
        format!("{ms:.3}"),
        format!("{:.1}", 100.0 * ms / total),
        rate(op.flops, 1e12),
        rate(op.bytes, 1e9),
        if op.each.measured { "yes" } else { "no" }.to_owned(),
    ]
}

fn curve(engine: &Engine<'_>, prefill: bool) -> Result<(), Failure> {
    let mut text = if prefill {
        format!(
            "Unloaded time to first token against prompt length (one step{}):\n",
            engine.when
        )
    } else {
        format!(
            "Unloaded time per output token against context (batch of one{}):\n",
            engine.when
        )
    };
    for tokens in LENGTHS {
        let chunks = whole_prompt(tokens);
        let shape = StepShape {
            chunks: if prefill { &chunks } else { &[] },
            decodes: u32::from(!prefill),
            context: if prefill { 0 } else { u64::from(tokens) },
        };
        let _ = writeln!(
            text,
            "  {tokens:>6} tokens  {:>10.3} ms",
            total_ms(engine, &shape)
        );
    }
    text.push('\n');
    report::emit(&text)?;
    Ok(())
}
