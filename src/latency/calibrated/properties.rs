//! What must hold of every time of every fitted profile, at random shapes.

use proptest::prelude::*;

use super::tests::{FITTED, chunk, cut_so, instance, kernels};
use super::*;
use crate::latency::compose::Operator;
use crate::latency::polynomial::published;
use crate::latency::share::SmCurve;
use crate::latency::{LatencyModel, Stage, StepShape};

/// Rounding of a sum of logarithms.
const SLACK: f64 = 1.0 - 1e-12;

fn layout(kv_heads: u32, group: u32, head_dim: u32, kv: KvDtype) -> HeadLayout {
    HeadLayout {
        heads: kv_heads * group,
        kv_heads,
        head_dim,
        kv,
        window: None,
    }
}

/// `dp` ranks of one GPU.
fn ranked(name: &str, dp: u32, ep: u32) -> Composed<Calibrated> {
    let cut = Parallelism {
        dp,
        ep,
        ..Parallelism::SINGLE
    };
    cut_so(name, cut, Overhead::NONE)
}

fn any_kv() -> impl Strategy<Value = KvDtype> {
    prop::sample::select(KvDtype::ALL.to_vec())
}

fn any_gpu() -> impl Strategy<Value = &'static str> {
    prop::sample::select(FITTED.to_vec())
}

fn sound(seconds: f64, least: f64) -> bool {
    seconds.is_finite() && seconds > 0.0 && seconds >= least * (1.0 - 1e-9)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn decode_attention_of_any_heads_is_above_the_roofline_and_grows(
        gpu in any_gpu(), kv in any_kv(), head_dim in prop::sample::select(vec![64u32, 96, 128]),
        batch in 1u32..2000, each in 1u32..200_000, kv_heads in 1u32..100, group in 1u32..5,
    ) {
        let kernels = kernels(gpu);
        let time = |kv_heads, batch: u32, each: u32| {
            let context = f64::from(batch) * f64::from(each);
            kernels.decode_attention(&layout(kv_heads, group, head_dim, kv), batch, context).seconds
        };
        let t = time(kv_heads, batch, each);
        let tokens = f64::from(batch) * f64::from(each);
        let bytes = layout(kv_heads, group, head_dim, kv).kv_bytes_per_token() * tokens;
        // A head size without a surface of its own scales another's times, launch excepted.
        let least = if head_dim == 96 { 0.0 } else { bytes / kernels.gpu.memory_bandwidth };
        prop_assert!(sound(t, least), "{t} against {least}");
        prop_assert!(time(kv_heads + 1, batch, each) >= t * SLACK, "heads");
        prop_assert!(time(kv_heads, batch + 1, each) >= t * SLACK, "batch");
        prop_assert!(time(kv_heads, batch, each + 1) >= t * SLACK, "context");
    }

    #[test]
    fn prefill_attention_of_any_heads_is_above_the_roofline_and_grows(
        gpu in any_gpu(), kv in any_kv(), new in 1u32..20_000, past in 0u32..40_000,
        kv_heads in 1u32..100, group in 1u32..5,
    ) {
        let kernels = kernels(gpu);
        let time = |kv_heads, new, past| {
            kernels.prefill_attention(&layout(kv_heads, group, 128, kv), &[chunk(new, past)]).seconds
        };
        let t = time(kv_heads, new, past);
        let flops = 2.0 * f64::from(kv_heads * group) * 128.0 * f64::from(new) * f64::from(new);
        let peak = kernels.gpu.peaks.fp8.unwrap_or(kernels.gpu.peaks.bf16);
        prop_assert!(sound(t, flops / peak), "{t}");
        prop_assert!(time(kv_heads + 1, new, past) >= t * SLACK, "heads");
        prop_assert!(time(kv_heads, new + 1, past) >= t * SLACK, "new");
        prop_assert!(time(kv_heads, new, past + 1) >= t * SLACK, "past");
    }

    #[test]
    fn a_second_chunk_never_makes_a_step_shorter(
        gpu in any_gpu(), a in 1u32..5000, b in 1u32..5000, past in 0u32..10_000,
    ) {
        let kernels = kernels(gpu);
        let of = layout(8, 4, 128, KvDtype::Bf16);
        let one = kernels.prefill_attention(&of, &[chunk(a, past)]).seconds;
        let two = kernels.prefill_attention(&of, &[chunk(a, past), chunk(b, 0)]).seconds;
        prop_assert!(two.is_finite() && two >= one * SLACK, "{one} then {two}");
    }

    #[test]
    fn latent_attention_is_above_the_roofline_and_grows(
        gpu in any_gpu(), kv in any_kv(), batch in 1u32..1000, each in 1u32..200_000,
        heads in prop::sample::select(vec![8u32, 16, 32, 64, 128]),
    ) {
        let kernels = kernels(gpu);
        let of = LatentLayout {
            heads, kv_lora_rank: 512, rope_dim: 64, qk_head_dim: 192, v_head_dim: 128, kv,
        };
        let time = |batch: u32, each: u32| {
            kernels.latent_decode(&of, batch, f64::from(batch) * f64::from(each)).seconds
        };
        let t = time(batch, each);
        let bytes = f64::from(batch) * f64::from(each) * 576.0 * kv.bytes() as f64;
        prop_assert!(sound(t, bytes / kernels.gpu.memory_bandwidth), "{t}");
        prop_assert!(time(batch + 1, each) >= t * SLACK);
        prop_assert!(time(batch, each + 1) >= t * SLACK);
        let prefill = |new, past| kernels.latent_prefill(&of, &[chunk(new, past)]).seconds;
        let (new, past) = (each.min(20_000), batch);
        let t = prefill(new, past);
        prop_assert!(sound(t, 0.0));
        prop_assert!(prefill(new + 1, past) >= t * SLACK);
        prop_assert!(prefill(new, past + 1) >= t * SLACK);
    }

    #[test]
    fn experts_are_above_the_roofline_and_grow_with_tokens(
        gpu in any_gpu(), tokens in 1u64..40_000, top_k in 1u32..9,
        format in prop::sample::select(WeightDtype::ALL.to_vec()),
        experts in prop::sample::select(vec![8u32, 32, 128, 256]),
        hidden in 1000u32..8000, size in 200u32..15_000, ep in prop::sample::select(vec![1u32, 2, 8]),
    ) {
        let kernels = kernels(gpu);
        let e = |tokens| Experts { format, tokens, hidden, size, top_k, experts, tp: 1, ep };
        let t = kernels.experts(&e(tokens)).seconds;
        let peak = crate::latency::roofline::compute_precision(format).and_then(|p| kernels.gpu.peaks.at(p));
        let least = e(tokens).flops() / peak.unwrap_or(kernels.gpu.peaks.bf16);
        prop_assert!(sound(t, least), "{t} against {least}");
        prop_assert!(kernels.experts(&e(tokens + 1)).seconds >= t * SLACK);
    }

    #[test]
    fn exchanges_grow_with_what_they_carry(
        gpu in any_gpu(), kind in prop::sample::select(CollectiveKind::ALL.to_vec()),
        bytes in 256f64..2e9, ranks in prop::sample::select(vec![2u32, 4, 8, 16]),
        tokens in 1u64..50_000, top_k in 1u32..9,
    ) {
        let kernels = kernels(gpu);
        let time = |bytes| kernels.collective(Collective { kind, bytes, ranks }).seconds;
        let t = time(bytes);
        prop_assert!(sound(t, 0.0) && time(bytes * 1.01) >= t * SLACK);
        let trip = |tokens, top_k| {
            kernels.dispatch(Dispatch { tokens, hidden: 7168, top_k, ranks }).seconds
        };
        let t = trip(tokens, top_k);
        prop_assert!(sound(t, 0.0));
        prop_assert!(trip(tokens + 1, top_k) >= t * SLACK && trip(tokens, top_k + 1) >= t * SLACK);
        let moved = |bytes| kernels.elementwise(bytes).seconds;
        prop_assert!(sound(moved(bytes), bytes / kernels.gpu.memory_bandwidth));
        prop_assert!(moved(bytes * 1.01) >= moved(bytes) * SLACK);
    }

    #[test]
    fn every_surface_is_continuous_across_every_edge_of_its_grid(
        gpu in any_gpu(), shares in prop::array::uniform6(0f64..1.0),
    ) {
        let kernels = kernels(gpu);
        for surface in kernels.surfaces.values() {
            let axes = surface.grid.axes();
            let inside: Vec<f64> = axes
                .iter()
                .zip(shares)
                .map(|(axis, share)| {
                    let (low, high) = (axis.knots[0], axis.knots[axis.knots.len() - 1]);
                    low * (high / low).powf(share)
                })
                .collect();
            for (d, axis) in axes.iter().enumerate() {
                for edge in [axis.knots[0], axis.knots[axis.knots.len() - 1]] {
                    let at = |x: f64| {
                        let mut on = inside.clone();
                        on[d] = x;
                        profile::predict(surface, &surface.point_at(&on), &kernels.gpu).seconds
                    };
                    let jump = at(edge * (1.0 + 1e-9)) / at(edge * (1.0 - 1e-9)) - 1.0;
                    prop_assert!(jump.abs() < 1e-6, "{:?} {}: {jump}", surface.kind, axis.name);
                }
            }
        }
    }

    #[test]
    fn chunks_take_what_their_breakdown_says(
        (name, dp) in prop::sample::select(vec![
            ("llama-3.1-8b", 1), ("gpt-oss-20b", 1), ("deepseek-v3", 1), ("gpt-oss-20b", 2), ("deepseek-v3", 8),
        ]),
        shared in any::<bool>(),
        chunks in prop::collection::vec((1u32..12_000, 0u32..20_000), 1..12),
    ) {
        let model = ranked(name, dp, dp);
        let chunks: Vec<Chunk> = chunks.into_iter().map(|(new, past)| chunk(new, past)).collect();
        let shape = StepShape { chunks: &chunks, decodes: 0, context: 0 };
        let check = |model: &dyn LatencyModel| {
            let parts = model.breakdown(&shape, Stage::ONLY).unwrap();
            let attention = |o: &&Operator| o.name == "prefill attention";
            let direct: f64 = parts.iter().filter(attention).map(Operator::seconds).sum();
            let others: f64 = parts.iter().map(Operator::seconds).sum::<f64>() - direct;
            let tabulated = model.step_time(&shape, Stage::ONLY).as_secs_f64() - others;
            (tabulated / direct - 1.0, direct)
        };
        let (error, direct) = if shared {
            check(&*model.on_shared_gpu(SmCurve::default().at(0.4)).unwrap())
        } else {
            check(&model)
        };
        prop_assert!(error.abs() < 1e-3, "{error} of {direct}");
    }

    #[test]
    fn a_step_of_chunks_never_gets_shorter_as_one_grows(
        (name, dp) in prop::sample::select(vec![
            ("llama-3.1-8b", 1), ("gpt-oss-20b", 1), ("deepseek-v3", 1),
            ("gpt-oss-20b", 2), ("gpt-oss-20b", 8), ("deepseek-v3", 2), ("deepseek-v3", 8),
        ]),
        whole in any::<bool>(),
        chunks in prop::collection::vec((1u32..4000, 0u32..10_000), 1..24),
        which in any::<prop::sample::Index>(), more in 1u32..50,
    ) {
        let model = ranked(name, dp, if whole { dp } else { 1 });
        let mut chunks: Vec<Chunk> = chunks.into_iter().map(|(new, past)| chunk(new, past)).collect();
        let time = |chunks: &[Chunk]| {
            let shape = StepShape { chunks, decodes: 0, context: 0 };
            model.step_time(&shape, Stage::ONLY)
        };
        let (before, i) = (time(&chunks), which.index(chunks.len()));
        chunks[i].past += more;
        let behind = time(&chunks);
        prop_assert!(behind >= before, "{before:?} then {behind:?}");
        chunks[i].past -= more;
        chunks[i].new += more;
        let longer = time(&chunks);
        prop_assert!(longer >= before, "{before:?} then {longer:?}");
        chunks.push(chunk(more, 0));
        prop_assert!(time(&chunks) >= longer, "a chunk more");
    }
}

#[test]
fn one_gpu_has_no_exchange_and_two_have() {
    let chunks = [chunk(100, 0)];
    let shape = StepShape {
        chunks: &chunks,
        decodes: 8,
        context: 8000,
    };
    let exchanges = |tp| {
        let model = instance("llama-3.1-8b", "h100-sxm", tp);
        let all = model.operators(&shape, Stage::ONLY);
        let words = ["reduce", "gather", "dispatch", "send"];
        all.iter()
            .filter(|o| words.iter().any(|word| o.name.contains(word)))
            .count()
    };
    assert_eq!((exchanges(1), exchanges(2)), (0, 2));
}

#[test]
fn heads_beyond_those_timed_are_more_sequences() {
    let kernels = kernels("a100-80g-sxm");
    let time = |kv_heads, batch| {
        let of = layout(kv_heads, 1, 128, KvDtype::Bf16);
        let context = f64::from(batch) * 999.0;
        kernels.decode_attention(&of, batch, context)
    };
    let (many, few) = (time(40, 4), time(8, 20));
    assert!((many.seconds / few.seconds - 1.0).abs() < 1e-9);
    assert!(many.measured && few.measured);
}

/// Decode steps of OPT-13B on A100 as DistServe's profiler fitted them: another engine with slower attention at large
/// contexts, so that the bound is loose there. Its 2 ms of engine time are part of the coefficients' use, not of the
/// kernels.
#[test]
fn multi_head_attention_is_as_fast_as_distserve_measured_within_a_fifth() {
    let measured = published("distserve", "a100-80g-sxm", "opt-13b", 1).unwrap();
    let ours = instance("opt-13b", "a100-80g-sxm", 1);
    for (decodes, each) in [
        (1, 512),
        (1, 1024),
        (8, 512),
        (8, 1024),
        (32, 512),
        (64, 512),
    ] {
        let shape = StepShape {
            chunks: &[],
            decodes,
            context: u64::from(decodes * each),
        };
        let theirs = measured.step_time(&shape, Stage::ONLY).as_ms_f64();
        let kernels = ours.step_time(&shape, Stage::ONLY).as_ms_f64();
        let ratio = (kernels + 2.0) / theirs;
        assert!((0.85..1.2).contains(&ratio), "{decodes} × {each}: {ratio}");
    }
}
