//! The step-time models in the engine's hot loop: what the next piece of a decode curve costs, and a step with chunks.
//!
//! `cargo bench --bench steps`. Llama-3.1-8B on one H100 (OPT-13B on one A100 for the polynomial), 64 sequences of about
//! 1,000 tokens and 0, 1, 2 or 8 chunks, the first of 448 tokens behind 512; the calibrated model with windowed layers (GPT-OSS-20B)
//! and latent attention (DeepSeek-V3) as well.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pdsim::hardware::{gpu, profile};
use pdsim::latency::calibrated::{Calibrated, calibrated};
use pdsim::latency::compose::{Formats, Overhead};
use pdsim::latency::polynomial::published;
use pdsim::latency::roofline::{Efficiency, roofline};
use pdsim::latency::{Chunk, LatencyModel, Stage, StepShape};
use pdsim::model::{Parallelism, model};

fn models() -> Vec<(&'static str, Box<dyn LatencyModel>)> {
    let spec = model("llama-3.1-8b").expect("a shipped model");
    let one = Parallelism::SINGLE;
    let (formats, overhead) = (Formats::BF16, Overhead::NONE);
    let file = profile("h100-sxm").expect("a shipped profile");
    let kernels = Calibrated::new(&file, "h100-sxm").expect("a shipped profile is sound");
    // Whether a model fits the GPU's memory is not asked here.
    let composed = |name: &str| -> Box<dyn LatencyModel> {
        let spec = model(name).expect("a shipped model");
        let made = calibrated(&spec, kernels.clone(), one, formats, overhead);
        Box::new(made.expect("the model can be cut so"))
    };
    let h100 = gpu("h100-sxm").expect("a shipped profile");
    let shares = Efficiency::default();
    vec![
        (
            "polynomial",
            Box::new(
                published("distserve", "a100-80g-sxm", "opt-13b", 1).expect("a published set"),
            ),
        ),
        (
            "roofline",
            Box::new(
                roofline(&spec, &h100, one, formats, shares, overhead).expect("the model fits"),
            ),
        ),
        ("calibrated", composed("llama-3.1-8b")),
        ("calibrated_windowed", composed("gpt-oss-20b")),
        ("calibrated_latent", composed("deepseek-v3")),
    ]
}

/// Eight chunks of one step, of which the first two are benched alone as well.
fn chunks() -> [Chunk; 8] {
    let chunk = |new, past| Chunk {
        new,
        past,
        last: past == 0,
    };
    [
        chunk(448, 512),
        chunk(300, 0),
        chunk(120, 1000),
        chunk(37, 0),
        chunk(512, 2048),
        chunk(64, 64),
        chunk(200, 0),
        chunk(333, 777),
    ]
}

fn steps(c: &mut Criterion) {
    let chunks = chunks();
    for (name, model) in models() {
        let step = |chunks: &[Chunk], context: u64| {
            let shape = StepShape {
                chunks,
                decodes: 64,
                context,
            };
            model.step_time(black_box(&shape), Stage::ONLY)
        };
        // As the engine does: the curve of a batch is at hand, its piece at the present context is looked up.
        let curve = model.decode_curve(64, Stage::ONLY);
        let mut group = c.benchmark_group(name);
        group.bench_function("decode_curve_piece", |b| {
            let mut context = 60_000;
            b.iter(|| {
                context = 60_000 + (context + 64) % 8192;
                curve.segment(black_box(context))
            });
        });
        for (case, count) in [
            ("decode", 0),
            ("one_chunk", 1),
            ("two_chunks", 2),
            ("eight_chunks", 8),
        ] {
            group.bench_function(case, |b| {
                let mut context = 60_000;
                b.iter(|| {
                    context = 60_000 + (context + 64) % 8192;
                    step(&chunks[..count], context)
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, steps);
criterion_main!(benches);
