//! Opens the GPU and measures it.

use std::path::PathBuf;
use std::time::Instant;

use comfy_table::Table;
use indicatif::ProgressBar;

use super::CalibrateArgs;
use super::finish::{Finished, finish};
use crate::calibrate::cuda::{self, Cuda, Listed, Missing};
use crate::calibrate::name::profile_name;
use crate::calibrate::plan::{self, Options};
use crate::calibrate::record::{Record, cuda_version};
use crate::calibrate::session::{self, Event, Limits, SessionError};
use crate::calibrate::smi::{self, Neighbour};
use crate::calibrate::store::{Store, StoreError};
use crate::calibrate::{Device, DeviceError, GpuFacts, Settings, Work};
use crate::cli::exit::Failure;
use crate::cli::{Outcome, output, progress};
use crate::{model, report};

/// Seconds after which a quick run begins no new point; checks before and the fit after stay within two minutes.
const QUICK_S: f64 = 100.0;
/// And a full one, of fifteen minutes.
const FULL_S: f64 = 840.0;

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Self {
        Self::NoGpu(missing.to_string())
    }
}

fn gave_up(error: &DeviceError) -> Failure {
    Failure::NoGpu(format!("the GPU cannot be used: {error}"))
}

fn not_kept(error: &StoreError) -> Failure {
    match error {
        StoreError::Exists(_) | StoreError::OtherGpu { .. } | StoreError::Row { .. } => {
            Failure::BadInput(error.to_string())
        }
        StoreError::Io { .. } => Failure::Broken(error.to_string()),
    }
}

/// Lists GPUs or measures one.
pub(super) fn calibrate(args: &CalibrateArgs) -> Outcome {
    let gpus = cuda::list()?;
    if args.list {
        report::emit(&format!("{}\n", table(&gpus)))?;
        return Ok(());
    }
    let Some(listed) = gpus.get(args.gpu) else {
        let known: Vec<String> = gpus
            .iter()
            .map(|g| format!("{} ({})", g.index, g.name))
            .collect();
        return Err(Failure::BadInput(format!(
            "--gpu {}: there is no such GPU; this machine has {}",
            args.gpu,
            known.join(", ")
        )));
    };
    cuda::probe_compiler()?;
    measure(args, listed, &gpus)
}

fn table(gpus: &[Listed]) -> Table {
    let mut table = Table::new();
    table.load_style(
        comfy_table::presets::UTF8_HORIZONTAL_ONLY.row_separator(comfy_table::LineStyle::none()),
    );
    table.set_header([
        "GPU",
        "name",
        "memory GiB",
        "compute capability",
        "driver's CUDA",
        "profile name",
    ]);
    for gpu in gpus {
        table.add_row([
            gpu.index.to_string(),
            gpu.name.clone(),
            format!("{:.1}", gpu.memory_bytes as f64 / f64::from(1 << 30)),
            format!("{}.{}", gpu.capability.0, gpu.capability.1),
            cuda_version(gpu.driver_cuda),
            profile_name(&gpu.name),
        ]);
    }
    table
}

fn measure(args: &CalibrateArgs, listed: &Listed, gpus: &[Listed]) -> Outcome {
    let name = args
        .name
        .clone()
        .unwrap_or_else(|| profile_name(&listed.name));
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("profiles/gpus").join(&name));
    // Before the GPU is opened: a wrong folder should cost no time.
    let mut store = Store::open(&out, &name, args.resume).map_err(|e| not_kept(&e))?;
    let mut device = Cuda::open(args.gpu, gpus, !args.no_peers).map_err(|e| gave_up(&e))?;
    let at_start = smi::conditions(&listed.uuid);
    let neighbours = smi::neighbours(&listed.uuid, std::process::id());
    tell(
        args,
        "note",
        &notes(device.facts(), &neighbours, at_start.mig),
    );

    #[expect(clippy::disallowed_methods, reason = "the time limit of a calibration")]
    let begin = Instant::now();
    let clock = || begin.elapsed().as_secs_f64();
    let outcome = run(args, &mut device, &mut store, &clock)?;
    let conditions = (at_start, smi::conditions(&listed.uuid));
    let record = Record::new(device.facts(), &outcome, args.quick, clock(), conditions);
    // The fit needs the processor, not the GPU.
    drop(device);
    finish(&Finished {
        name: &name,
        out: &out,
        store: &store,
        outcome: &outcome,
        record: &record,
        quiet: args.quiet,
    })
}

/// Runs the session under a progress bar and tells of what went wrong once the bar is gone.
fn run(
    args: &CalibrateArgs,
    device: &mut dyn Device,
    store: &mut Store,
    clock: &dyn Fn() -> f64,
) -> Result<session::Outcome, Failure> {
    let points = points(device.facts(), args)?;
    let (settings, time_s) = if args.quick {
        (Settings::quick(), QUICK_S)
    } else {
        (Settings::full(), FULL_S)
    };
    let limits = Limits { settings, time_s };
    let bar = progress::bar_of(points.len(), "points", args.quiet);
    let mut problems = Vec::new();
    let outcome = session::run(device, &points, store, &limits, clock, &mut |event| {
        watch(event, &bar, &mut problems);
    });
    bar.finish_and_clear();
    tell(args, "warning", &problems);
    outcome.map_err(|e| match e {
        SessionError::Store(e) => not_kept(&e),
        SessionError::Device { .. } => Failure::Broken(e.to_string()),
    })
}

fn tell(args: &CalibrateArgs, what: &str, lines: &[String]) {
    if !args.quiet {
        for line in lines {
            output::tell(&format!("{what}: {line}"));
        }
    }
}

fn points(facts: &GpuFacts, args: &CalibrateArgs) -> Result<Vec<Work>, Failure> {
    let models: Result<Vec<_>, _> = model::model_names().map(model::model).collect();
    let models = models.map_err(|e| Failure::Broken(e.to_string()))?;
    let options = Options {
        quick: args.quick,
        dtypes: args.dtype.clone(),
    };
    Ok(plan::plan(facts, &models, &options))
}

fn watch(event: &Event<'_>, bar: &ProgressBar, problems: &mut Vec<String>) {
    match event {
        Event::Checked(verdict) if !verdict.right() => {
            let what = verdict.failure.as_ref().map_or_else(
                || {
                    format!(
                        "relative error {:.3}, allowed {:.3}",
                        verdict.relative_error, verdict.tolerance
                    )
                },
                ToString::to_string,
            );
            problems.push(format!("check of {:?}: {what}", verdict.work));
        }
        Event::Checked(_) => {}
        Event::Refused(kind) => {
            problems.push(format!(
                "no samples of {}: its kernels are not right here",
                kind.name()
            ));
        }
        // Points that do not fit are counted, not named: a GPU with little memory has hundreds.
        Event::Measured(_) | Event::Skipped(_, DeviceError::OutOfMemory { .. }) => bar.inc(1),
        Event::Skipped(work, reason) => {
            bar.inc(1);
            problems.push(format!("skipped {work:?}: {reason}"));
        }
    }
}

/// What a person should know before trusting the times.
fn notes(facts: &GpuFacts, neighbours: &[Neighbour], mig: Option<bool>) -> Vec<String> {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut notes = Vec::new();
    for n in neighbours {
        let share = n.memory_mib.map_or_else(
            || "an unknown share of its memory".to_owned(),
            |mib| {
                format!(
                    "{:.0} % of its memory",
                    100.0 * (mib << 20) as f64 / facts.memory_bytes as f64
                )
            },
        );
        notes.push(format!(
            "process {} ({}) uses this GPU too and holds {share}; times will be too long while it works",
            n.pid, n.name
        ));
    }
    if facts.free_bytes < facts.memory_bytes / 10 * 8 {
        notes.push(format!(
            "{:.1} of {:.1} GiB are free: points that need more are left out",
            gib(facts.free_bytes),
            gib(facts.memory_bytes)
        ));
    }
    if mig == Some(true) {
        notes.push(
            "this GPU is cut into instances (MIG): the profile describes the instance, not the GPU"
                .to_owned(),
        );
    }
    if !facts.library {
        notes.push(
            "cuBLASLt was not found: matrix products run on pdsim's own kernel, bf16 only, and the samples say so; \
             for the vendor's, `pip install --target DIR nvidia-cublas` and add DIR/nvidia/cu13/lib to LD_LIBRARY_PATH"
                .to_owned(),
        );
    }
    if !facts.runs_kernels() {
        notes.push("pdsim's attention kernels need compute capability 8.0: only products and copies are measured".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fake::Fake;

    #[test]
    fn a_busy_full_cut_gpu_without_the_library_is_told_of_in_four_notes() {
        let mut facts = Fake::new().facts().clone();
        facts.memory_bytes = 80 << 30;
        facts.free_bytes = 40 << 30;
        facts.library = false;
        let neighbour = Neighbour {
            pid: 7,
            name: "python".to_owned(),
            memory_mib: Some(40 << 10),
        };
        let notes = notes(&facts, &[neighbour], Some(true));
        assert_eq!(notes.len(), 4);
        assert!(
            notes[0].contains("process 7 (python)") && notes[0].contains("50 %"),
            "{}",
            notes[0]
        );
        assert!(notes[1].contains("40.0 of 80.0 GiB"), "{}", notes[1]);
    }

    #[test]
    fn a_free_gpu_needs_no_notes() {
        assert!(notes(Fake::new().facts(), &[], Some(false)).is_empty());
    }
}
