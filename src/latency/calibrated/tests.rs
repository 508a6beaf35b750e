//! Tests of the shipped profiles through the model that uses them.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use proptest::prelude::*;

use super::*;
use crate::hardware::{gpu_names, profile as profile_of};
use crate::latency::{LatencyModel, Stage, StepShape};
use crate::model::model;
use crate::units::SimDuration;

pub(super) const FITTED: [&str; 3] = ["a100-80g-sxm", "h100-sxm", "b200-sxm"];

/// Reading a fitted profile takes tens of milliseconds, hundreds of cases need it.
static READ: LazyLock<Mutex<BTreeMap<String, Calibrated>>> = LazyLock::new(Mutex::default);

pub(super) fn kernels(gpu: &str) -> Calibrated {
    let mut read = READ.lock().unwrap();
    read.entry(gpu.to_owned())
        .or_insert_with(|| Calibrated::new(&profile_of(gpu).unwrap(), gpu).unwrap())
        .clone()
}

pub(super) fn instance(name: &str, gpu: &str, tp: u32) -> Composed<Calibrated> {
    calibrated(
        &model(name).unwrap(),
        kernels(gpu),
        Parallelism::new(tp, 1),
        Formats::BF16,
        Overhead::NONE,
    )
    .unwrap()
}

pub(super) fn cut_so(name: &str, cut: Parallelism, engine: Overhead) -> Composed<Calibrated> {
    let kernels = kernels("h100-sxm");
    calibrated(&model(name).unwrap(), kernels, cut, Formats::BF16, engine).unwrap()
}

pub(super) const fn chunk(new: u32, past: u32) -> Chunk {
    Chunk {
        new,
        past,
        last: true,
    }
}

#[test]
fn every_profile_reads_and_the_fitted_ones_are_small() {
    for name in gpu_names() {
        let kernels = kernels(name);
        let own = profile_of(name).unwrap().surfaces.is_some();
        assert_eq!(own, kernels.has_surfaces() && kernels.lender.is_none());
        let path = format!(
            "{}/profiles/gpus/{name}/profile.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let bytes = std::fs::metadata(path).unwrap().len();
        assert!(bytes < 200_000, "{name}: {bytes} bytes");
    }
}

#[test]
fn a_measured_product_is_measured_and_a_borrowed_one_is_not() {
    let gemm = Gemm {
        format: WeightDtype::Bf16,
        m: 512,
        n: 4096,
        k: 4096,
    };
    assert!(kernels("h100-sxm").gemm(gemm).measured);
    assert!(!kernels("h20").gemm(gemm).measured);
    let far = Gemm { m: 1 << 20, ..gemm };
    assert!(!kernels("h100-sxm").gemm(far).measured);
}

#[test]
fn a_uniform_batch_of_prompts_costs_what_was_measured() {
    let kernels = kernels("h100-sxm");
    let layout = HeadLayout {
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        kv: KvDtype::Bf16,
        window: None,
    };
    let chunks = [chunk(1024, 0); 8];
    let ours = kernels.prefill_attention(&layout, &chunks).seconds;
    let kind = SurfaceKind::PrefillAttention(KvDtype::Bf16, 128);
    let measured = kernels
        .read(kind, &[8.0, 1024.0, 32.0, 4.0])
        .unwrap()
        .seconds;
    assert!(
        (ours / measured - 1.0).abs() < 1e-9,
        "{ours} against {measured}"
    );
}

#[test]
fn an_empty_step_is_overhead_alone() {
    let shape = StepShape {
        chunks: &[],
        decodes: 0,
        context: 0,
    };
    let time = instance("llama-3.1-8b", "h100-sxm", 1).step_time(&shape, Stage::ONLY);
    assert_eq!(time, SimDuration::ZERO);
}

#[test]
fn block_scaled_products_do_not_pay_the_launch_cost() {
    let gemm = Gemm {
        format: WeightDtype::Fp8Block,
        m: 16,
        n: 4096,
        k: 7168,
    };
    let seconds = kernels("h100-sxm").gemm(gemm).seconds;
    assert!(seconds < 40e-6, "{seconds}");
}

#[test]
fn a_lone_prompt_keeps_one_rank_busy_and_many_keep_all() {
    let cut = Parallelism {
        dp: 8,
        ep: 8,
        ..Parallelism::SINGLE
    };
    let spec = model("deepseek-v3").unwrap();
    let kernels = kernels("h100-sxm");
    let made = calibrated(&spec, kernels, cut, Formats::BF16, Overhead::NONE).unwrap();
    let seconds = |chunks: &[Chunk], decodes: u32| {
        let shape = StepShape {
            chunks,
            decodes,
            context: u64::from(decodes) * 500,
        };
        let parts = made.operators(&shape, Stage::ONLY);
        let sum: f64 = parts
            .iter()
            .map(crate::latency::compose::Operator::seconds)
            .sum();
        let step = made.step_time(&shape, Stage::ONLY).as_secs_f64();
        assert!((step / sum - 1.0).abs() < 0.01, "{step} against {sum}");
        let named = |name| parts.iter().find(|o| o.name == name).unwrap().seconds();
        (named("attention output"), named("experts"))
    };
    let (lone, spread) = (
        seconds(&[chunk(2048, 0)], 0),
        seconds(&[chunk(256, 0); 8], 0),
    );
    assert!(lone.0 > 3.0 * spread.0, "{lone:?} {spread:?}");
    assert!(
        (lone.1 / spread.1 - 1.0).abs() < 1e-12,
        "{lone:?} {spread:?}"
    );
    let decodes = seconds(&[], 2048);
    assert!(
        (decodes.0 / spread.0 - 1.0).abs() < 1e-12,
        "{decodes:?} {spread:?}"
    );
    // 64 decodes are 8 on each rank, beside the prompt on one.
    seconds(&[chunk(500, 100)], 64);
}

/// Eight ranks of DeepSeek-V3 with experts cut (`ep` 1) or whole.
fn eight_ranks(ep: u32, engine: Overhead) -> Composed<Calibrated> {
    let cut = Parallelism {
        dp: 8,
        ep,
        ..Parallelism::SINGLE
    };
    cut_so("deepseek-v3", cut, engine)
}

const fn prompts(chunks: &[Chunk]) -> StepShape<'_> {
    StepShape {
        chunks,
        decodes: 0,
        context: 0,
    }
}

#[test]
fn attention_is_that_of_the_slowest_rank_not_of_the_one_with_most_tokens() {
    let made = eight_ranks(8, Overhead::NONE);
    let attention = |chunks: &[Chunk]| {
        let parts = made.operators(&prompts(chunks), Stage::ONLY);
        let named = |o: &&crate::latency::compose::Operator| o.name == "prefill attention";
        let op = parts.iter().find(named).unwrap();
        (op.seconds(), op.flops)
    };
    let (fresh, late) = (chunk(1100, 0), chunk(1000, 60_000));
    assert_eq!(attention(&[fresh, late]), attention(&[late]));
    assert!(attention(&[late]).0 > 10.0 * attention(&[fresh]).0);
    // Nine on eight ranks: two of them in turn, which is less than nine at once.
    let (nine, one) = (attention(&[late; 9]), attention(&[late]));
    assert!((nine.0 / one.0 - 2.0).abs() < 1e-9, "{nine:?} {one:?}");
    assert!((nine.1 / one.1 - 2.0).abs() < 1e-9, "{nine:?} {one:?}");
    let time = |chunks: &[Chunk]| made.step_time(&prompts(chunks), Stage::ONLY);
    assert!(time(&[fresh, late]) > time(&[fresh, fresh]));
}

#[test]
fn experts_that_are_cut_need_all_tokens_and_whole_ones_only_their_own() {
    let exchange = |ep, tp| {
        let cut = Parallelism {
            dp: 8 / tp,
            ep,
            ..Parallelism::new(tp, 1)
        };
        let made = cut_so("deepseek-v3", cut, Overhead::NONE);
        let chunks = [chunk(512, 0); 8];
        let parts = made.operators(&prompts(&chunks), Stage::ONLY);
        let words = [
            "expert all",
            "expert reduce",
            "expert dispatch",
            "all-reduce",
        ];
        parts
            .iter()
            .filter(|o| words.iter().any(|word| o.name.starts_with(word)))
            .map(|o| (o.name, o.count, o.bytes))
            .collect::<Vec<_>>()
    };
    // 58 of 61 layers have experts; 4096 tokens of 7168 numbers of two bytes.
    let all = 4096.0 * 7168.0 * 2.0;
    let both = |count: f64| {
        [
            ("expert all-gather", count, all),
            ("expert reduce-scatter", count, all),
        ]
    };
    assert_eq!(exchange(1, 1), both(58.0));
    let whole = exchange(8, 1);
    assert_eq!(
        (whole.len(), whole[0].0, whole[0].1.to_bits()),
        (1, "expert dispatch and combine", 58f64.to_bits())
    );
    // Two GPUs of a rank add up what they have of its quarter: after attention and after experts or the dense block.
    let pairs = exchange(1, 2);
    assert_eq!(pairs[0], ("all-reduce", 122.0, all / 4.0));
    assert_eq!(pairs[1..], both(58.0));
}

#[test]
fn every_rank_has_an_engine_for_its_own_sequences_and_tokens() {
    let engine = Overhead {
        step: SimDuration::from_us(100),
        per_sequence: SimDuration::from_us(10),
        per_token: SimDuration::from_us(1),
        ..Overhead::NONE
    };
    let made = eight_ranks(8, engine);
    let free = eight_ranks(8, Overhead::NONE);
    let micros = |chunks: &[Chunk], decodes: u32| {
        let shape = StepShape {
            chunks,
            decodes,
            context: u64::from(decodes) * 100,
        };
        let step = |of: &Composed<Calibrated>| of.step_time(&shape, Stage::ONLY).as_secs_f64();
        let parts = made.operators(&shape, Stage::ONLY);
        let told = parts.iter().find(|o| o.is_engine()).unwrap().seconds();
        let found = step(&made) - step(&free);
        assert!((found - told).abs() < 1e-9, "{found} {told}");
        (1e6 * told).round()
    };
    // 64 decodes are 8 on a rank, 65 are 9; three prompts are one, of which the largest has 50 tokens.
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    close(micros(&[], 64), 100.0 + 80.0 + 8.0);
    close(micros(&[], 65), 100.0 + 90.0 + 9.0);
    let three = [chunk(50, 0), chunk(20, 0), chunk(30, 7)];
    close(micros(&three, 0), 100.0 + 10.0 + 50.0);
    close(micros(&three, 64), 100.0 + 90.0 + 58.0);
}

#[test]
fn eight_bit_integers_take_what_eight_bit_floats_do_where_both_have_one_peak() {
    let product = |gpu: &str, format| {
        let (m, n, k) = (333, 4096, 4096);
        kernels(gpu).gemm(Gemm { format, m, n, k })
    };
    let experts = |gpu: &str, format| {
        kernels(gpu).experts(&Experts {
            format,
            tokens: 300,
            hidden: 4096,
            size: 2048,
            top_k: 2,
            experts: 8,
            tp: 1,
            ep: 1,
        })
    };
    for time in [&product as &dyn Fn(&str, WeightDtype) -> Timed, &experts] {
        let (int, float) = (
            time("h100-sxm", WeightDtype::Int8),
            time("h100-sxm", WeightDtype::Fp8),
        );
        assert_eq!(int, Timed::unmeasured(float.seconds));
        // B300 has 153.5 TOP/s of one and 4,500 TFLOP/s of the other.
        let (int, float) = (
            time("b300-sxm", WeightDtype::Int8),
            time("b300-sxm", WeightDtype::Fp8),
        );
        assert!(int.seconds > 2.0 * float.seconds, "{int:?} {float:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn products_are_above_the_roofline_and_grow(
        gpu in prop::sample::select(FITTED.to_vec()),
        format in prop::sample::select(vec![WeightDtype::Bf16, WeightDtype::Fp8, WeightDtype::Fp8Block]),
        exponents in (0u32..18, 4u32..18, 4u32..18), sixteenths in (16u64..32, 16u64..32, 16u64..32),
    ) {
        let kernels = kernels(gpu);
        let between = |exponent: u32, sixteenths: u64| (sixteenths << exponent) / 16;
        let gemm = Gemm {
            format,
            m: between(exponents.0, sixteenths.0),
            n: between(exponents.1, sixteenths.1),
            k: between(exponents.2, sixteenths.2),
        };
        let t = kernels.gemm(gemm).seconds;
        let least = roofline_seconds(SurfaceKind::Gemm(format), &profile::gemm_point(gemm), &kernels.gpu);
        prop_assert!(t.is_finite() && t > 0.0 && t >= least * (1.0 - 1e-9), "{t} against {least}");
        let grows = |g: Gemm| kernels.gemm(g).seconds >= t * (1.0 - 1e-12);
        let wider = Gemm { m: gemm.m + 1, ..gemm };
        prop_assert!(grows(wider));
        let wider = Gemm { n: gemm.n + 1, ..gemm };
        prop_assert!(grows(wider));
        let wider = Gemm { k: gemm.k + 1, ..gemm };
        prop_assert!(grows(wider));
    }

    #[test]
    fn surfaces_are_continuous_across_the_edge_of_the_grid(
        gpu in prop::sample::select(FITTED.to_vec()), n in 100u64..60_000, k in 100u64..60_000,
    ) {
        let kernels = kernels(gpu);
        let surface = &kernels.surfaces[&SurfaceKind::Gemm(WeightDtype::Bf16)];
        let edge = *surface.grid.axes()[0].knots.last().unwrap();
        let at = |m: f64| profile::predict(surface, &[m, n as f64, k as f64], &kernels.gpu).seconds;
        prop_assert!((at(edge * (1.0 + 1e-9)) / at(edge * (1.0 - 1e-9)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn decode_attention_grows_with_batch_and_context(
        gpu in prop::sample::select(FITTED.to_vec()),
        batch in 1u32..3000, each in 1u32..300_000, kv_heads in 1u32..9, group in 1u32..9,
    ) {
        let kernels = kernels(gpu);
        let layout = HeadLayout {
            heads: kv_heads * group, kv_heads, head_dim: 128, kv: KvDtype::Bf16, window: None,
        };
        let time = |batch: u32, each: u32| {
            let context = f64::from(batch) * f64::from(each);
            kernels.decode_attention(&layout, batch, context).seconds
        };
        let t = time(batch, each);
        prop_assert!(t > 0.0 && t.is_finite());
        prop_assert!(time(batch + 1, each) >= t * (1.0 - 1e-12));
        prop_assert!(time(batch, each + 1) >= t * (1.0 - 1e-12));
    }

    #[test]
    fn prefill_attention_grows_with_the_chunk_and_its_past(
        gpu in prop::sample::select(FITTED.to_vec()), new in 1u32..20_000, past in 0u32..50_000,
    ) {
        let kernels = kernels(gpu);
        let layout = HeadLayout {
            heads: 32, kv_heads: 8, head_dim: 128, kv: KvDtype::Bf16, window: None,
        };
        let time = |new, past| kernels.prefill_attention(&layout, &[chunk(new, past)]).seconds;
        let t = time(new, past);
        prop_assert!(t > 0.0 && t.is_finite());
        prop_assert!(time(new + 1, past) >= t * (1.0 - 1e-12), "new {t} {}", time(new + 1, past));
        prop_assert!(time(new, past + 1) >= t * (1.0 - 1e-12), "past {t} {}", time(new, past + 1));
    }
}

#[test]
fn steps_of_real_models_are_plausible() {
    // Llama-3.1-8B on one H100 at 16 bits: weights alone take 4.8 ms at the data sheet's bandwidth.
    let model = instance("llama-3.1-8b", "h100-sxm", 1);
    let shape = StepShape {
        chunks: &[],
        decodes: 16,
        context: 16_000,
    };
    let ms = model.step_time(&shape, Stage::ONLY).as_ms_f64();
    assert!((5.5..9.0).contains(&ms), "{ms} ms");
}
