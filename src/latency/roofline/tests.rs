//! Tests of the roofline and of the composition it goes through.

use proptest::prelude::*;

use super::*;
use crate::hardware::{gpu, gpu_names};
use crate::latency::{LatencyModel, Stage, StepShape};
use crate::model::{KvDtype, model, model_names};
use crate::units::SimDuration;

fn instance(name: &str, on: &str, p: Parallelism) -> Composed<Datasheet> {
    roofline(
        &model(name).unwrap(),
        &gpu(on).unwrap(),
        p,
        Formats::BF16,
        Efficiency::default(),
        Overhead::NONE,
    )
    .unwrap()
}

fn chunk(new: u32, past: u32) -> Chunk {
    Chunk {
        new,
        past,
        last: true,
    }
}

fn decode_ms(model: &impl LatencyModel, decodes: u32, context: u64) -> f64 {
    let shape = StepShape {
        chunks: &[],
        decodes,
        context,
    };
    model.step_time(&shape, Stage::ONLY).as_ms_f64()
}

fn prefill_ms(model: &impl LatencyModel, chunks: &[Chunk]) -> f64 {
    let shape = StepShape {
        chunks,
        decodes: 0,
        context: 0,
    };
    model.step_time(&shape, Stage::ONLY).as_ms_f64()
}

#[test]
fn a_decode_step_reads_all_weights_once() {
    let spec = model("llama-3.1-8b").unwrap();
    let h100 = gpu("h100-sxm").unwrap();
    let ms = decode_ms(
        &instance("llama-3.1-8b", "h100-sxm", Parallelism::SINGLE),
        1,
        1000,
    );
    // All but the embedding table, at the stated share of the bandwidth; the rest is kernel overhead.
    let bytes = 2.0 * (spec.parameters() - spec.embedding_parameters()) as f64;
    let weights_ms = bytes / (h100.memory_bandwidth * Efficiency::default().memory) * 1e3;
    assert!(ms > weights_ms, "{ms} ms against {weights_ms} ms");
    let kernels = 32.0 * 9.0 + 2.0;
    assert!(ms < weights_ms + kernels * 4e-3 + 0.5, "{ms} ms");
}

#[test]
fn a_long_prompt_is_bound_by_compute() {
    let spec = model("llama-3.1-8b").unwrap();
    let h100 = gpu("h100-sxm").unwrap();
    let ms = prefill_ms(
        &instance("llama-3.1-8b", "h100-sxm", Parallelism::SINGLE),
        &[chunk(8192, 0)],
    );
    let body = spec.linear_flops_per_token() - 2.0 * spec.head_parameters() as f64;
    let linear_ms = 8192.0 * body / (h100.peaks.bf16 * Efficiency::default().gemm) * 1e3;
    assert!(
        ms > linear_ms && ms < 1.5 * linear_ms,
        "{ms} ms against {linear_ms} ms"
    );
}

#[test]
fn tensor_parallelism_pays_all_reduces_and_one_gpu_none() {
    let names = |p| {
        let chunks = [chunk(100, 0)];
        let shape = StepShape {
            chunks: &chunks,
            decodes: 3,
            context: 500,
        };
        instance("llama-3.1-8b", "h100-sxm", p)
            .operators(&shape, Stage::ONLY)
            .into_iter()
            .map(|o| (o.name, o.count))
            .collect::<Vec<_>>()
    };
    let collective = |(name, _): &(&str, f64)| name.contains("reduce") || name.contains("gather");
    assert!(!names(Parallelism::SINGLE).iter().any(collective));
    assert!(names(Parallelism::new(2, 1)).contains(&("all-reduce", 64.0)));
}

#[test]
fn the_breakdown_adds_up_to_the_step() {
    let model = instance("mixtral-8x7b", "h100-sxm", Parallelism::new(2, 1));
    let chunks = [chunk(300, 100), chunk(20, 0)];
    let shape = StepShape {
        chunks: &chunks,
        decodes: 9,
        context: 9000,
    };
    let sum: f64 = model
        .operators(&shape, Stage::ONLY)
        .iter()
        .map(super::super::compose::Operator::seconds)
        .sum();
    let step = model.step_time(&shape, Stage::ONLY).as_secs_f64();
    assert!((sum / step - 1.0).abs() < 1e-9, "{sum} s against {step} s");
}

#[test]
fn stages_of_a_pipeline_share_the_layers_and_the_ends() {
    let model = instance("llama-3.1-8b", "h100-sxm", Parallelism::new(1, 4));
    let chunks = [chunk(100, 0)];
    let shape = StepShape {
        chunks: &chunks,
        decodes: 0,
        context: 0,
    };
    let names = |index| {
        model
            .operators(&shape, Stage { index, of: 4 })
            .into_iter()
            .map(|o| o.name)
            .collect::<Vec<_>>()
    };
    assert!(names(0).contains(&"embedding") && names(0).contains(&"send to next stage"));
    assert!(!names(1).contains(&"embedding") && !names(1).contains(&"lm head"));
    assert!(names(3).contains(&"lm head") && !names(3).contains(&"send to next stage"));
}

#[test]
fn an_unfinished_prompt_samples_nothing() {
    let model = instance("llama-3.1-8b", "h100-sxm", Parallelism::SINGLE);
    let open = Chunk {
        last: false,
        ..chunk(512, 0)
    };
    assert!(prefill_ms(&model, &[open]) < prefill_ms(&model, &[chunk(512, 0)]));
}

#[test]
fn a_windowed_layer_stops_growing_at_its_window() {
    let model = instance("gpt-oss-20b", "h100-sxm", Parallelism::SINGLE);
    let slope = |from: u64| decode_ms(&model, 8, from + 80_000) - decode_ms(&model, 8, from);
    let full = {
        let mut spec = crate::model::model("gpt-oss-20b").unwrap();
        if let crate::model::Attention::Grouped(a) = &mut spec.attention {
            a.window = None;
        }
        roofline(
            &spec,
            &gpu("h100-sxm").unwrap(),
            Parallelism::SINGLE,
            Formats::BF16,
            Efficiency::default(),
            Overhead::NONE,
        )
        .unwrap()
    };
    let full_slope = decode_ms(&full, 8, 180_000) - decode_ms(&full, 8, 100_000);
    assert!((slope(100_000) / full_slope - 0.5).abs() < 0.02);
}

#[test]
fn engine_overhead_is_paid_once_and_on_the_first_stage() {
    let overhead = Overhead {
        step: SimDuration::from_ms(3),
        per_sequence: SimDuration::from_ms(1),
        ..Overhead::NONE
    };
    let with = roofline(
        &model("opt-13b").unwrap(),
        &gpu("a100-80g-sxm").unwrap(),
        Parallelism::new(1, 2),
        Formats::BF16,
        Efficiency::default(),
        overhead,
    )
    .unwrap();
    let without = instance("opt-13b", "a100-80g-sxm", Parallelism::new(1, 2));
    let shape = StepShape {
        chunks: &[],
        decodes: 4,
        context: 100,
    };
    let extra = |index| {
        let stage = Stage { index, of: 2 };
        with.step_time(&shape, stage).as_ms_f64() - without.step_time(&shape, stage).as_ms_f64()
    };
    assert!((extra(0) - 7.0).abs() < 1e-6);
    assert!(extra(1).abs() < 1e-6);
}

#[test]
fn a_gpu_without_the_peak_is_refused_with_what_it_has() {
    let message = roofline(
        &model("opt-13b").unwrap(),
        &gpu("a100-80g-sxm").unwrap(),
        Parallelism::SINGLE,
        Formats {
            weights: WeightDtype::Fp8,
            kv: KvDtype::Bf16,
        },
        Efficiency::default(),
        Overhead::NONE,
    )
    .unwrap_err()
    .to_string();
    assert_eq!(
        message,
        "a100-80g-sxm has no fp8 peak, which fp8 weights need; allowed: bf16, int8, int4, mxfp4"
    );
}

#[test]
fn every_model_runs_on_every_gpu() {
    for name in model_names() {
        for on in gpu_names() {
            let ms = decode_ms(&instance(name, on, Parallelism::SINGLE), 8, 8000);
            assert!(ms > 0.0 && ms < 60_000.0, "{name} on {on}: {ms} ms");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn times_grow_with_tokens_sequences_and_context(
        name in prop::sample::select(vec!["opt-13b", "llama-3.1-70b", "deepseek-v3", "gpt-oss-20b", "mixtral-8x7b"]),
        tp in prop::sample::select(vec![1u32, 2, 4]),
        new in 1u32..9000, past in 0u32..50_000, decodes in 0u32..600, context in 0u64..2_000_000,
    ) {
        let model = instance(name, "h100-sxm", Parallelism::new(tp, 1));
        let time = |new, past, decodes, context| {
            let chunks = [chunk(new, past)];
            model.step_time(&StepShape { chunks: &chunks, decodes, context }, Stage::ONLY)
        };
        let t = time(new, past, decodes, context);
        prop_assert!(t > SimDuration::ZERO);
        prop_assert!(time(new + 1, past, decodes, context) >= t);
        prop_assert!(time(new, past + 1, decodes, context) >= t);
        prop_assert!(time(new, past, decodes + 1, context) >= t);
        if decodes > 0 {
            prop_assert!(time(new, past, decodes, context + 1) >= t);
        }
    }

    #[test]
    fn a_decode_step_is_its_curve(decodes in 1u32..1100, context in 0u64..5_000_000, index in 0u32..2) {
        let model = instance("gpt-oss-20b", "h100-sxm", Parallelism::new(1, 2));
        let stage = Stage { index, of: 2 };
        let shape = StepShape { chunks: &[], decodes, context };
        prop_assert_eq!(
            model.step_time(&shape, stage),
            model.decode_curve(decodes, stage).at(context).ceil()
        );
    }
}
