//! `pdsim model`: list, show, import, and what they refuse.

use crate::support::Scratch;

/// The fields of a small Llama.
const LLAMA: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 256, "vocab_size": 1000,
  "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512, "tie_word_embeddings": false
}"#;

#[test]
fn the_list_has_a_row_per_model() {
    let ran = Scratch::new().pdsim(&["model", "list"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for model in ["opt-13b", "llama-3.1-70b", "deepseek-v3", "gpt-oss-120b"] {
        let rows = ran
            .out
            .lines()
            .filter(|l| l.split_whitespace().next() == Some(model));
        assert_eq!(rows.count(), 1, "{model} in\n{}", ran.out);
    }
}

#[test]
fn a_model_is_shown_with_sizes_and_where_it_fits() {
    let ran = Scratch::new().pdsim(&["model", "show", "llama-3.1-70b"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for piece in [
        "parameters      70.55 1e9, 70.55 1e9 active per token (published",
        // 2 × 80 layers × 8 KV heads × 128 elements × 2 bytes.
        "KV cache        327680 bytes per token at bf16",
        "KV cache        163840 bytes per token at fp8",
        "(as published)",
    ] {
        assert!(ran.out.contains(piece), "{piece} is not in\n{}", ran.out);
    }
    let row = ran.out.lines().find(|l| l.trim().starts_with("h100-sxm"));
    let row = row.expect("every GPU has a row");
    assert!(row.contains("tp 2: "), "131 GiB need two of 72 GiB: {row}");
    assert!(!ran.out.contains("mxfp4"), "it has no experts: {}", ran.out);
    let a100 = ran
        .out
        .lines()
        .find(|l| l.trim().starts_with("a100-80g-sxm"));
    assert!(a100.is_some_and(|l| l.contains("no peak")), "{}", ran.out);
    let ran = Scratch::new().pdsim(&["model", "show", "gpt-oss-20b"]);
    assert!(ran.out.contains("at mxfp4 (as published)"), "{}", ran.out);
}

#[test]
fn an_imported_config_is_a_model_that_scenarios_take() {
    let scratch = Scratch::with("config.json", LLAMA);
    let printed = scratch.pdsim(&["model", "import", "config.json", "--name", "tiny"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    // Embedding and head 2 × 1000 × 256; per layer q, o 2 × 256², k, v 2 × 256 × 64, three of 256 × 512, two norms; a last norm.
    assert_eq!(printed.err, "tiny: 0.00 1e9 parameters\n");
    let written = [
        "model",
        "import",
        "config.json",
        "--name",
        "tiny",
        "--out",
        "tiny.yaml",
    ];
    let ran = scratch.pdsim(&written);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert_eq!(scratch.read("tiny.yaml"), printed.out);
    let shown = scratch.pdsim(&["model", "show", "tiny.yaml"]);
    assert!(
        shown
            .out
            .contains("KV cache        512 bytes per token at bf16"),
        "{}",
        shown.out
    );
    scratch.write("s.yaml", crate::support::SMALL);
    let ran = scratch.pdsim(&["check", "s.yaml", "--set", "model=./tiny.yaml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn bad_configs_are_refused_by_field() {
    let refused = |text: &str, pieces: &[&str]| {
        let scratch = Scratch::with("config.json", text);
        scratch
            .pdsim(&[
                "model",
                "import",
                "config.json",
                "--name",
                "x",
                "--out",
                "x.yaml",
            ])
            .refused(pieces);
        assert!(!scratch.path("x.yaml").exists());
    };
    refused("{", &["config.json: "]);
    refused("{}", &["config.json: the field `architectures` is missing"]);
    refused(
        &LLAMA.replace("LlamaForCausalLM", "MambaForCausalLM"),
        &[
            "architectures: `MambaForCausalLM` is not known; known: BloomForCausalLM, ",
            "LlamaForCausalLM",
        ],
    );
    for field in [
        "num_hidden_layers",
        "hidden_size",
        "vocab_size",
        "num_attention_heads",
        "intermediate_size",
    ] {
        let text = LLAMA.replace(&format!("\"{field}\""), "\"other\"");
        refused(&text, &["config.json: the field `", field, "is missing"]);
    }
    refused(
        &LLAMA.replace("\"hidden_size\": 256", "\"hidden_size\": \"wide\""),
        &["config.json: hidden_size: \"wide\" is not a whole number"],
    );
}

#[test]
fn unknown_models_and_files_are_refused() {
    let scratch = Scratch::new();
    scratch.pdsim(&["model", "show", "llama-3.1-7b"]).refused(&[
        "unknown model `llama-3.1-7b`, did you mean `llama-3.1-70b`?",
        "known: ",
    ]);
    scratch
        .pdsim(&["model", "import", "no.json", "--name", "x"])
        .refused(&["cannot read no.json"]);
    scratch
        .pdsim(&["model", "show", "no.yaml"])
        .refused(&["cannot read no.yaml"]);
}
