//! Hugging Face `config.json` to a model description.
//!
//! Only architectures listed in [`ARCHITECTURES`] are understood: a field that means something else in another
//! architecture would give wrong times without a word. Multi-token-prediction layers are left out.

use serde_json::Value;

use super::error::ModelError;
use super::file::{
    BiasName, FORMAT, FfnSection, GroupedSection, LatentSection, ModelFile, MoeSection,
    WindowSection,
};
use super::spec::ModelSpec;

/// The architectures understood, by the name `config.json` gives.
pub const ARCHITECTURES: &[&str] = &[
    "BloomForCausalLM",
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "Glm4MoeForCausalLM",
    "GptOssForCausalLM",
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "OPTForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
];

/// A model description made from a `config.json`.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The shape.
    pub spec: ModelSpec,
    /// The description as YAML.
    pub yaml: String,
}

/// The fields of a config.
struct Config<'a> {
    path: &'a str,
    value: &'a Value,
}

impl Config<'_> {
    fn fail(&self, reason: String) -> ModelError {
        ModelError::Parse {
            path: self.path.to_owned(),
            reason,
        }
    }

    /// A whole number under the first of `names` that is there.
    fn optional(&self, names: &[&str]) -> Result<Option<u32>, ModelError> {
        for name in names {
            match self.value.get(name) {
                None | Some(Value::Null) => {}
                Some(value) => {
                    let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
                    return number.map(Some).ok_or_else(|| {
                        self.fail(format!("{name}: {value} is not a whole number"))
                    });
                }
            }
        }
        Ok(None)
    }

    fn number(&self, names: &[&str]) -> Result<u32, ModelError> {
        self.optional(names)?
            .ok_or_else(|| self.fail(format!("the field `{}` is missing", names.join("` or `"))))
    }

    fn flag(&self, name: &str) -> bool {
        self.value
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(false)
    }
}

/// Makes a description called `name` from the text of a `config.json`; `path` names the file in messages.
///
/// # Errors
/// When the text is no JSON, the architecture is not known or a field is missing: which, and what is known.
pub fn import(text: &str, path: &str, name: &str) -> Result<Imported, ModelError> {
    let value: Value = serde_json::from_str(text).map_err(|e| ModelError::Parse {
        path: path.to_owned(),
        reason: e.to_string(),
    })?;
    let config = Config {
        path,
        value: &value,
    };
    let architecture = value
        .pointer("/architectures/0")
        .and_then(Value::as_str)
        .ok_or_else(|| config.fail("the field `architectures` is missing".to_owned()))?;
    if !ARCHITECTURES.contains(&architecture) {
        return Err(config.fail(format!(
            "architectures: `{architecture}` is not known; known: {}",
            ARCHITECTURES.join(", ")
        )));
    }
    let mut file = common(&config, architecture, name)?;
    match architecture {
        "OPTForCausalLM" => opt(&config, &mut file)?,
        "BloomForCausalLM" => bloom(&config, &mut file)?,
        "DeepseekV2ForCausalLM" | "DeepseekV3ForCausalLM" => deepseek(&config, &mut file)?,
        _ => grouped(&config, architecture, &mut file)?,
    }
    let yaml = serde_yaml::to_string(&file).map_err(|e| config.fail(e.to_string()))?;
    let spec = file.resolve(path)?;
    Ok(Imported { spec, yaml })
}

fn common(config: &Config<'_>, architecture: &str, name: &str) -> Result<ModelFile, ModelError> {
    Ok(ModelFile {
        format: FORMAT,
        name: name.to_owned(),
        aliases: Vec::new(),
        source: format!("config.json of {architecture}"),
        published_parameters: None,
        layers: config.number(&["num_hidden_layers", "n_layer"])?,
        hidden: config.number(&["hidden_size", "n_embed"])?,
        vocab: config.number(&["vocab_size"])?,
        tied_embeddings: config.flag("tie_word_embeddings"),
        learned_positions: 0,
        norm_bias: false,
        native_weights: native_weights(config),
        attention: None,
        mla: None,
        ffn: None,
        moe: None,
    })
}

/// The format the checkpoint declares, where it is one we know.
fn native_weights(config: &Config<'_>) -> Option<String> {
    let quantization = config.value.get("quantization_config")?;
    let method = quantization.get("quant_method")?.as_str()?;
    let blocks = quantization.get("weight_block_size").is_some();
    match method {
        "fp8" if blocks => Some("fp8_block".to_owned()),
        "fp8" => Some("fp8".to_owned()),
        "mxfp4" => Some("mxfp4".to_owned()),
        "awq" | "gptq" => Some("int4".to_owned()),
        _ => None,
    }
}

fn opt(config: &Config<'_>, file: &mut ModelFile) -> Result<(), ModelError> {
    let heads = config.number(&["num_attention_heads"])?;
    // OPT ties unless told otherwise, and keeps two rows for padding before its positions.
    file.tied_embeddings = config.value.get("tie_word_embeddings") != Some(&Value::Bool(false));
    file.learned_positions = config.number(&["max_position_embeddings"])? + 2;
    file.norm_bias = true;
    file.attention = Some(multi_head(file.hidden, heads));
    file.ffn = Some(plain_ffn(config.number(&["ffn_dim"])?));
    Ok(())
}

fn bloom(config: &Config<'_>, file: &mut ModelFile) -> Result<(), ModelError> {
    let heads = config.number(&["num_attention_heads", "n_head"])?;
    file.tied_embeddings = true;
    file.norm_bias = true;
    file.attention = Some(multi_head(file.hidden, heads));
    file.ffn = Some(plain_ffn(4 * file.hidden));
    Ok(())
}

fn multi_head(hidden: u32, heads: u32) -> GroupedSection {
    GroupedSection {
        heads,
        kv_heads: heads,
        head_dim: hidden / heads.max(1),
        bias: Some(BiasName::All),
        qk_norm: false,
        window: None,
    }
}

const fn plain_ffn(size: u32) -> FfnSection {
    FfnSection {
        size,
        gated: false,
        bias: true,
    }
}

fn deepseek(config: &Config<'_>, file: &mut ModelFile) -> Result<(), ModelError> {
    file.mla = Some(LatentSection {
        heads: config.number(&["num_attention_heads"])?,
        q_lora_rank: config.optional(&["q_lora_rank"])?,
        kv_lora_rank: config.number(&["kv_lora_rank"])?,
        qk_nope_head_dim: config.number(&["qk_nope_head_dim"])?,
        qk_rope_head_dim: config.number(&["qk_rope_head_dim"])?,
        v_head_dim: config.number(&["v_head_dim"])?,
    });
    file.ffn = Some(gated_ffn(config.number(&["intermediate_size"])?));
    file.moe = Some(shared_moe(config)?);
    Ok(())
}

const fn gated_ffn(size: u32) -> FfnSection {
    FfnSection {
        size,
        gated: true,
        bias: false,
    }
}

/// The mixture of DeepSeek and GLM: routed and shared experts after some dense layers.
fn shared_moe(config: &Config<'_>) -> Result<MoeSection, ModelError> {
    let size = config.number(&["moe_intermediate_size"])?;
    Ok(MoeSection {
        experts: config.number(&["n_routed_experts"])?,
        top_k: config.number(&["num_experts_per_tok"])?,
        size,
        shared_size: size * config.optional(&["n_shared_experts"])?.unwrap_or(0),
        first_dense_layers: config.optional(&["first_k_dense_replace"])?.unwrap_or(0),
        every: config.optional(&["moe_layer_freq"])?.unwrap_or(1),
        bias: false,
    })
}

fn grouped(
    config: &Config<'_>,
    architecture: &str,
    file: &mut ModelFile,
) -> Result<(), ModelError> {
    let heads = config.number(&["num_attention_heads"])?;
    let head_dim = match config.optional(&["head_dim"])? {
        Some(d) => d,
        None => file.hidden / heads.max(1),
    };
    let bias = match architecture {
        "Qwen2ForCausalLM" => Some(BiasName::Qkv),
        "GptOssForCausalLM" => Some(BiasName::All),
        "Glm4MoeForCausalLM" if config.flag("attention_bias") => Some(BiasName::Qkv),
        _ if config.flag("attention_bias") => Some(BiasName::All),
        _ => None,
    };
    let qk_norm = matches!(architecture, "Qwen3ForCausalLM" | "Qwen3MoeForCausalLM")
        || config.flag("use_qk_norm");
    file.attention = Some(GroupedSection {
        heads,
        kv_heads: config.optional(&["num_key_value_heads"])?.unwrap_or(heads),
        head_dim,
        bias,
        qk_norm,
        window: window(config, architecture, file.layers)?,
    });
    match architecture {
        "MixtralForCausalLM" | "GptOssForCausalLM" => {
            file.moe = Some(MoeSection {
                experts: config.number(&["num_local_experts"])?,
                top_k: config.number(&["num_experts_per_tok", "experts_per_token"])?,
                size: config.number(&["intermediate_size"])?,
                shared_size: 0,
                first_dense_layers: 0,
                every: 1,
                bias: architecture == "GptOssForCausalLM",
            });
        }
        "Qwen3MoeForCausalLM" => {
            file.moe = Some(MoeSection {
                experts: config.number(&["num_experts"])?,
                top_k: config.number(&["num_experts_per_tok"])?,
                size: config.number(&["moe_intermediate_size"])?,
                shared_size: 0,
                first_dense_layers: 0,
                every: config.optional(&["decoder_sparse_step"])?.unwrap_or(1),
                bias: false,
            });
        }
        "Glm4MoeForCausalLM" => {
            file.ffn = Some(gated_ffn(config.number(&["intermediate_size"])?));
            file.moe = Some(shared_moe(config)?);
        }
        _ => file.ffn = Some(gated_ffn(config.number(&["intermediate_size"])?)),
    }
    Ok(())
}

/// Windowed layers: listed one by one, or all of them where the config gives a window and uses it.
fn window(
    config: &Config<'_>,
    architecture: &str,
    layers: u32,
) -> Result<Option<WindowSection>, ModelError> {
    let Some(tokens) = config.optional(&["sliding_window"])? else {
        return Ok(None);
    };
    if let Some(kinds) = config.value.get("layer_types").and_then(Value::as_array) {
        let windowed = kinds
            .iter()
            .filter(|k| k.as_str() == Some("sliding_attention"))
            .count();
        let windowed = u32::try_from(windowed).unwrap_or(layers);
        return Ok((windowed > 0).then_some(WindowSection {
            tokens,
            layers: windowed,
        }));
    }
    // Qwen gives a window it does not use unless told to; Mistral uses the one it gives.
    let used = architecture == "MistralForCausalLM" || config.flag("use_sliding_window");
    Ok(used.then_some(WindowSection { tokens, layers }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::model;

    const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 8192,
        "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
        "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false}"#;

    #[test]
    fn a_dense_config_becomes_the_shipped_model() {
        let imported = import(LLAMA, "config.json", "mine").unwrap();
        let shipped = model("llama-3.1-70b").unwrap();
        assert_eq!(imported.spec.parameters(), shipped.parameters());
        assert_eq!(imported.spec.attention, shipped.attention);
        let again = crate::model::parse(&imported.yaml, "mine.yaml").unwrap();
        assert_eq!(again, imported.spec);
    }

    #[test]
    fn a_mixture_with_latent_attention_becomes_the_shipped_model() {
        let text = r#"{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168,
            "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 128,
            "num_hidden_layers": 61, "n_routed_experts": 256, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "first_k_dense_replace": 3, "q_lora_rank": 1536,
            "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "vocab_size": 129280, "num_nextn_predict_layers": 1,
            "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;
        let imported = import(text, "config.json", "deepseek-v3").unwrap();
        let shipped = model("deepseek-v3").unwrap();
        assert_eq!(imported.spec.parameters(), shipped.parameters());
        assert_eq!(imported.spec.native_weights, shipped.native_weights);
    }

    #[test]
    fn listed_windows_are_counted() {
        let text = r#"{"architectures": ["GptOssForCausalLM"], "hidden_size": 2880,
            "intermediate_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
            "head_dim": 64, "num_hidden_layers": 4, "num_local_experts": 32,
            "experts_per_token": 4, "vocab_size": 201088, "sliding_window": 128,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}"#;
        let spec = import(text, "c", "x").unwrap().spec;
        let crate::model::Attention::Grouped(a) = spec.attention else {
            panic!("grouped attention");
        };
        assert_eq!(a.window.map(|w| (w.tokens, w.layers)), Some((128, 2)));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (from, to, needle) in [
            (
                "\"num_attention_heads\": 64,",
                "",
                "`num_attention_heads` is missing",
            ),
            (
                "LlamaForCausalLM",
                "MambaForCausalLM",
                "`MambaForCausalLM` is not known; known: BloomForCausalLM",
            ),
            (
                "\"hidden_size\": 8192",
                "\"hidden_size\": \"big\"",
                "hidden_size: \"big\" is not a whole number",
            ),
            (
                "{\"architectures\": [\"LlamaForCausalLM\"],",
                "{",
                "`architectures` is missing",
            ),
        ] {
            let message = import(&LLAMA.replace(from, to), "config.json", "x")
                .unwrap_err()
                .to_string();
            assert!(message.contains(needle), "{message}");
        }
    }
}
