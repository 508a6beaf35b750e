//! The shipped model descriptions and those on disk.

use std::path::Path;

use super::error::ModelError;
use super::file::ModelFile;
use super::spec::ModelSpec;
use crate::names::did_you_mean;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of every shipped description, sorted by name.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../profiles/models/", $name, ".yaml")))),*
        ];
    };
}

shipped![
    "bloom-176b",
    "codellama-34b",
    "deepseek-r1",
    "deepseek-v3",
    "glm-4.5",
    "gpt-oss-120b",
    "gpt-oss-20b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-2-7b",
    "llama-3.1-405b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "mistral-7b",
    "mixtral-8x22b",
    "mixtral-8x7b",
    "opt-1.3b",
    "opt-13b",
    "opt-175b",
    "opt-30b",
    "opt-6.7b",
    "opt-66b",
    "phi-4",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-72b",
    "qwen2.5-7b",
    "qwen3-14b",
    "qwen3-235b-a22b",
    "qwen3-30b-a3b",
    "qwen3-32b",
    "qwen3-8b",
    "yi-34b",
];

/// Names of the shipped models, sorted.
pub fn model_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// A model by shipped name or alias (case does not matter), or by the path of its yaml.
///
/// # Errors
/// When there is no such model or the file is not a description.
pub fn model(name: &str) -> Result<ModelSpec, ModelError> {
    let lower = name.to_lowercase();
    let mut known = Vec::new();
    for (shipped, text) in SHIPPED {
        let file = ModelFile::parse(text, &format!("profiles/models/{shipped}.yaml"))?;
        if *shipped == lower || file.aliases.iter().any(|a| a.to_lowercase() == lower) {
            return file.resolve(&format!("profiles/models/{shipped}.yaml"));
        }
        known.push((*shipped).to_owned());
        known.extend(file.aliases);
    }
    if lower.ends_with(".yaml") || lower.ends_with(".yml") {
        return load(Path::new(name));
    }
    Err(ModelError::Unknown {
        name: name.to_owned(),
        nearest: did_you_mean(name, known.iter().map(String::as_str)),
        known: model_names().collect::<Vec<_>>().join(", "),
    })
}

/// Reads a description from disk.
///
/// # Errors
/// When the file cannot be read or is not a description.
pub fn load(path: &Path) -> Result<ModelSpec, ModelError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| ModelError::Read {
        path: shown.clone(),
        reason: e.to_string(),
    })?;
    parse(&text, &shown)
}

/// Parses a description; `path` names it in messages.
///
/// # Errors
/// When the text is not a description or states something impossible.
pub fn parse(text: &str, path: &str) -> Result<ModelSpec, ModelError> {
    ModelFile::parse(text, path)?.resolve(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{KvDtype, WeightDtype};

    #[test]
    fn parameter_counts_match_the_published_ones_within_one_percent() {
        for name in model_names() {
            let spec = model(name).unwrap();
            let published = spec.published_parameters.unwrap();
            let error = spec.parameters() as f64 / published - 1.0;
            assert!(
                error.abs() < 0.01,
                "{name}: {} against {published}: {:+.2} %",
                spec.parameters(),
                100.0 * error
            );
        }
    }

    #[test]
    fn active_parameters_of_mixtures_match_the_published_ones() {
        // Model cards and reports, which leave out the token embedding and round to two or three digits.
        for (name, published) in [
            ("mixtral-8x7b", 12.9e9),
            ("mixtral-8x22b", 39.0e9),
            ("deepseek-v3", 37.0e9),
            ("qwen3-235b-a22b", 22.0e9),
            ("glm-4.5", 32.0e9),
        ] {
            let spec = model(name).unwrap();
            let active = spec.active_parameters() - spec.embedding_parameters();
            let error = active as f64 / published - 1.0;
            assert!(error.abs() < 0.05, "{name}: {:+.2} %", 100.0 * error);
        }
    }

    #[test]
    fn kv_bytes_per_token_match_hand_computed_ones() {
        let bytes = |name| model(name).unwrap().kv_bytes_per_token(KvDtype::Bf16);
        assert_eq!(bytes("opt-13b"), 2 * 5120 * 40 * 2);
        assert_eq!(bytes("llama-3.1-70b"), 327_680);
        // DeepSeek-V2 report: (512 + 64) elements per layer.
        assert_eq!(bytes("deepseek-v3"), 576 * 61 * 2);
    }

    #[test]
    fn weight_bytes_follow_the_format() {
        let spec = model("llama-3.1-8b").unwrap();
        let bf16 = spec.weight_bytes(WeightDtype::Bf16);
        assert!((bf16 - 2.0 * spec.parameters() as f64).abs() < 1.0);
        let embeddings = 2.0 * (spec.embedding_parameters() + spec.head_parameters()) as f64;
        let fp8 = spec.weight_bytes(WeightDtype::Fp8);
        assert!((fp8 - embeddings - (bf16 - embeddings) / 2.0).abs() < 1e4);
    }

    #[test]
    fn the_published_checkpoint_of_gpt_oss_has_the_size_stated() {
        // Model card: the 120b checkpoint is 60.8 GiB, the 20b one 12.8 GiB.
        for (name, gib) in [("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)] {
            let spec = model(name).unwrap();
            let ours = spec.weight_bytes(spec.native_weights) / f64::from(1u32 << 30);
            assert!((ours / gib - 1.0).abs() < 0.02, "{name}: {ours} GiB");
        }
    }

    #[test]
    fn names_are_found_by_alias_and_without_case() {
        assert_eq!(
            model("meta-llama/Llama-2-7b-hf").unwrap().name,
            "llama-2-7b"
        );
    }

    #[test]
    fn an_unknown_model_gets_its_nearest_name() {
        let message = model("lama-3.1-70b").unwrap_err().to_string();
        assert!(
            message.contains("did you mean `llama-3.1-70b`?"),
            "{message}"
        );
    }

    #[test]
    fn impossible_shapes_are_refused_by_key() {
        let text = SHIPPED.iter().find(|(n, _)| *n == "opt-13b").unwrap().1;
        for (from, to, needle) in [
            ("layers: 40", "layers: 0", "layers: 0 is not allowed"),
            ("kv_heads: 40", "kv_heads: 7", "attention.kv_heads: 7"),
            ("hidden: 5120", "hiden: 5120", "hiden"),
            ("format: 1", "format: 9", "format: 9"),
        ] {
            let message = parse(&text.replace(from, to), "m.yaml")
                .unwrap_err()
                .to_string();
            assert!(message.contains(needle), "{message}");
        }
    }

    #[test]
    fn stages_share_the_layers() {
        let spec = model("deepseek-v3").unwrap();
        let sizes: Vec<usize> = (0..4).map(|s| spec.stage_layers(s, 4).len()).collect();
        assert_eq!(sizes, [16, 15, 15, 15]);
        assert_eq!(spec.stage_layers(3, 4).end, 61);
    }
}
