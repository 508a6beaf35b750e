//! Time per output token of vLLM on H100, measured by others, against calibrated steps with the engine's time.
//!
//! A stage of load is one point: its mean batch by Little's law from the measured TPOT, its mean context from the
//! lengths; nearly all prompts hit the prefix cache, so prefill takes no part. Nothing here was fitted to these runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pdsim::latency::{Stage, StepShape};
use pdsim::scenario::{Document, resolve};

/// Dense models that pdsim ships, by the name in the measurements.
const MODELS: [(&str, &str); 7] = [
    ("codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"),
    ("meta-llama/Llama-2-70b-hf", "llama-2-70b"),
    ("Qwen/Qwen3-14B", "qwen3-14b"),
    ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
    ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"),
    ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
    ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
];

/// Beyond this batch the runs come close to their limit of 128 sequences.
const MOST: f64 = 120.5;

/// Tokens that the tokeniser adds to a nominal prompt.
const EXTRA: f64 = 30.0;

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("PDSIM_REFERENCE").map(PathBuf::from);
    let folder = named
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"));
    let folder = folder.join("vllm_measured");
    folder.is_dir().then_some(folder)
}

/// Rows by column name.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

/// Milliseconds of a decode step by the scenario's defaults.
fn step_ms(model: &str, tp: &str, batch: u32, context: f64) -> f64 {
    let text = format!(
        "model: {model}\nengine: vllm-v1\nlatency: calibrated\n\
         workload: {{lengths: {{fixed: {{input: 8, output: 8}}}}, rate: 1 /s, requests: 8}}\n\
         systems: {{a: {{policy: chunked, pool: {{instances: 1, gpu: h100-sxm, tp: {tp}}}}}}}\n"
    );
    let document = Document::parse(Path::new("vllm.yaml"), text).unwrap();
    let experiment = resolve(document).unwrap();
    let pool = &experiment.points[0].systems[0].pools[0];
    let total = context * f64::from(batch);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "tokens of a batch"
    )]
    let shape = StepShape {
        chunks: &[],
        decodes: batch,
        context: total as u64,
    };
    pool.latency.step_time(&shape, Stage::ONLY).as_ms_f64()
}

#[test]
fn tpot_of_vllm_on_h100_is_met_within_four_percent_in_the_median() {
    let Some(folder) = folder() else {
        eprintln!("SKIPPED: no vLLM measurements (set PDSIM_REFERENCE)");
        return;
    };
    let experiments: BTreeMap<String, BTreeMap<String, String>> =
        rows(&folder.join("experiments.csv"))
            .into_iter()
            .map(|row| (row["exp"].clone(), row))
            .collect();
    let mut errors = Vec::new();
    for row in rows(&folder.join("measured.csv")) {
        let e = &experiments[&row["exp"]];
        let model = MODELS.iter().find(|(name, _)| *name == e["model"]);
        let (Some((_, model)), Ok(stage)) = (model, row["stage"].parse::<usize>()) else {
            continue;
        };
        let wanted = e["hardware"] == "H100-SXM-80GB" && e["overloaded"] == "0";
        if !wanted || row["metric"] != "tpot_spec_mean" {
            continue;
        }
        let number = |key: &str| e[key].parse::<f64>().unwrap();
        let rate: f64 = e["rates_rps"]
            .split('|')
            .nth(stage)
            .unwrap()
            .parse()
            .unwrap();
        let tpot: f64 = row["actual"].parse().unwrap();
        let batch = (rate * number("output_len") * tpot / 1e3).round();
        if batch > MOST {
            continue;
        }
        let prompt = number("system_prompt_len") + number("question_len") + EXTRA;
        let context = prompt + number("output_len") / 2.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a batch of at most 120"
        )]
        let ms = step_ms(model, &e["tp"], (batch as u32).max(1), context);
        errors.push((ms / tpot - 1.0).abs());
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() >= 30, "{} stages", errors.len());
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    eprintln!(
        "{} stages: median error of TPOT {:.1} %, worst {:.1} %",
        errors.len(),
        median * 100.0,
        worst * 100.0
    );
    assert!(median < 0.04 && worst < 0.15, "{errors:?}");
}
