//! Tests of steps on part of the SMs, for every kind of model.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::hardware::{gpu, profile};
use crate::latency::calibrated::{Calibrated, calibrated};
use crate::latency::compose::{Formats, Overhead};
use crate::latency::fixed::Fixed;
use crate::latency::polynomial::published;
use crate::latency::roofline::{Efficiency, roofline};
use crate::latency::{Chunk, DecodeCurve, Segment, Stage, StepShape};
use crate::model::{Parallelism, model};
use crate::units::{Fine, SimDuration};

/// A model of each kind.
fn models() -> [(&'static str, Arc<dyn LatencyModel>); 4] {
    let (llama, h100) = (model("llama-3.1-8b").unwrap(), gpu("h100-sxm").unwrap());
    let overhead = Overhead {
        step: SimDuration::from_ms(1),
        ..Overhead::NONE
    };
    let cut = Parallelism::new(2, 1);
    let from_sheet = roofline(
        &llama,
        &h100,
        cut,
        Formats::BF16,
        Efficiency::default(),
        overhead,
    );
    let kernels = Calibrated::new(&profile("h100-sxm").unwrap(), "h100-sxm").unwrap();
    let measured = calibrated(&llama, kernels, cut, Formats::BF16, overhead);
    let fixed = Fixed {
        prefill: SimDuration::from_ms(10),
        prefill_per_token: SimDuration::from_ps(12_345),
        decode: SimDuration::from_ms(5),
        decode_per_sequence: SimDuration::from_ps(777),
    };
    let fitted = published("distserve", "a100-80g-sxm", "opt-13b", 1).unwrap();
    [
        ("roofline", Arc::new(from_sheet.unwrap())),
        ("calibrated", Arc::new(measured.unwrap())),
        ("polynomial", Arc::new(fitted)),
        ("fixed", Arc::new(fixed)),
    ]
}

fn prefill_ms(model: &Arc<dyn LatencyModel>, tokens: u32) -> f64 {
    let chunks = [Chunk {
        new: tokens,
        past: 0,
        last: true,
    }];
    let shape = StepShape {
        chunks: &chunks,
        decodes: 0,
        context: 0,
    };
    model.step_time(&shape, Stage::ONLY).as_ms_f64()
}

fn decode_ms(model: &Arc<dyn LatencyModel>, batch: u32, context: u64) -> f64 {
    let shape = StepShape {
        chunks: &[],
        decodes: batch,
        context,
    };
    let step = model.step_time(&shape, Stage::ONLY);
    let curve = model.decode_curve(batch, Stage::ONLY);
    assert_eq!(step, curve.at(context).ceil(), "a decode step is its curve");
    step.as_ms_f64()
}

fn split(prefill_share: f64) -> SmSplit {
    SmSplit {
        prefill_share,
        contention: 1.0,
        idle: IdleSms::Lent,
        curve: SmCurve::default(),
    }
}

#[test]
fn more_sms_never_make_a_step_slower_and_none_is_faster_than_on_all_of_them() {
    for (name, whole) in models() {
        let (mut prompts, mut decodes) = (f64::INFINITY, f64::INFINITY);
        for percent in [1, 5, 10, 20, 30, 35, 36, 50, 70, 90, 99] {
            let slow = slowed(&whole, SmCurve::default().at(f64::from(percent) / 100.0));
            let (prompt, decode) = (prefill_ms(&slow, 1500), decode_ms(&slow, 40, 60_000));
            assert!(prompt <= prompts && decode <= decodes, "{name} {percent} %");
            assert!(prompt > prefill_ms(&whole, 1500), "{name} {percent} %");
            assert!(
                decode >= decode_ms(&whole, 40, 60_000),
                "{name} {percent} %"
            );
            (prompts, decodes) = (prompt, decode);
        }
    }
}

#[test]
fn large_prompts_take_one_over_their_share_and_decodes_what_their_bandwidth_says() {
    for (name, whole) in models() {
        let slow = slowed(&whole, SmCurve::default().at(0.5));
        let ratio = prefill_ms(&slow, 4096) / prefill_ms(&whole, 4096);
        // Norms, launches and the engine's millisecond are not slowed twofold.
        assert!((1.7..=2.0 + 1e-9).contains(&ratio), "{name}: {ratio}");
        let (batch, context) = (16, 16_000);
        let half = decode_ms(&slow, batch, context) / decode_ms(&whole, batch, context);
        assert!(
            (1.0..1.01).contains(&half),
            "{name}: half of the SMs saturate the memory: {half}"
        );
        let tenth = slowed(&whole, SmCurve::default().at(0.1));
        let ratio = decode_ms(&tenth, batch, context) / decode_ms(&whole, batch, context);
        assert!((2.0..=3.5 + 1e-9).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn a_large_decode_batch_comes_to_wait_for_sms() {
    let [(_, whole), ..] = models();
    // 200 sequences multiply weights for 200 rows: close to the ridge of an H100, so that half of the SMs are not enough.
    let slow = slowed(&whole, SmCurve::default().at(0.3));
    let ratio = |batch: u32| decode_ms(&slow, batch, 100) / decode_ms(&whole, batch, 100);
    assert!(ratio(200) > 1.2 * ratio(8), "{} {}", ratio(8), ratio(200));
}

#[test]
fn contention_slows_kernels_but_not_the_engine() {
    for (name, whole) in models() {
        let contended = Slowdown {
            contention: 1.5,
            ..Slowdown::NONE
        };
        let slow = slowed(&whole, contended);
        for (slow, whole) in [
            (prefill_ms(&slow, 1000), prefill_ms(&whole, 1000)),
            (decode_ms(&slow, 8, 8000), decode_ms(&whole, 8, 8000)),
        ] {
            // One millisecond of CPU time in the models that know of it.
            let cpu = if ["roofline", "calibrated"].contains(&name) {
                1.0
            } else {
                0.0
            };
            let expected = cpu + 1.5 * (whole - cpu);
            assert!(
                (slow / expected - 1.0).abs() < 1e-6,
                "{name}: {slow} {expected}"
            );
        }
    }
}

#[test]
fn an_idle_stream_lends_its_sms_or_keeps_them() {
    let [(_, whole), ..] = models();
    let lent = split(0.4).streams(&whole);
    assert!(Arc::ptr_eq(&lent.prefill[0], &whole) && Arc::ptr_eq(&lent.decode[0], &whole));
    let kept = SmSplit {
        idle: IdleSms::Kept,
        contention: 1.2,
        ..split(0.4)
    };
    let [[alone, beside], [decode_alone, _]] = kept.slowdowns();
    let own = kept.curve.at(0.4);
    let contended = Slowdown {
        contention: 1.2,
        ..own
    };
    assert_eq!((alone, beside), (own, contended));
    assert_eq!(decode_alone, kept.curve.at(1.0 - 0.4));
    assert!((own.compute - 2.5).abs() < 1e-12 && (own.memory - 1.0).abs() < 1e-12);
}

#[test]
fn impossible_splits_are_named() {
    let wrong = |change: fn(&mut SmSplit)| {
        let mut split = split(0.5);
        change(&mut split);
        split.validate().unwrap_err().to_string()
    };
    for share in [0.0, 1.0, -0.5, f64::NAN] {
        let split = SmSplit {
            prefill_share: share,
            ..split(0.5)
        };
        let told = split.validate().unwrap_err().to_string();
        assert!(told.starts_with("prefill_share: "), "{told}");
    }
    assert!(wrong(|s| s.contention = 0.9).contains("a factor from 1"));
    assert!(wrong(|s| s.curve.compute_saturation = 1.5).starts_with("compute_saturation"));
    let above = wrong(|s| {
        s.curve = SmCurve {
            compute_saturation: 0.3,
            bandwidth_saturation: 0.5,
        }
    });
    assert!(above.contains("at most `compute_saturation`"), "{above}");
    assert_eq!(split(0.5).validate(), Ok(()));
}

proptest! {
    #[test]
    fn scaled_curves_never_decrease_nor_fall_below_the_whole_gpu(
        (share, contention) in (0.01f64..1.0, 1.0f64..3.0),
        (base, slope, knot) in (1u64..1 << 50, 0u64..1 << 30, 1u64..5000),
        contexts in prop::collection::vec(0u64..20_000, 2..20),
    ) {
        #[derive(Debug)]
        struct Pieces(DecodeCurve);
        impl LatencyModel for Pieces {
            fn step_time(&self, _: &StepShape<'_>, _: Stage) -> SimDuration {
                SimDuration::from_ps(1)
            }
            fn decode_curve(&self, _: u32, _: Stage) -> DecodeCurve {
                self.0.clone()
            }
        }
        let pieces = |i: u64| Segment { from: i * knot, base: Fine(base + i * slope * knot), slope: Fine(slope) };
        let whole = DecodeCurve::from_segments((0..4).map(pieces).collect());
        let slowdown = Slowdown { contention, ..SmCurve::default().at(share) };
        let slow = Scaled::new(Arc::new(Pieces(whole.clone())), slowdown).decode_curve(1, Stage::ONLY);
        let mut contexts = contexts;
        contexts.sort_unstable();
        let times: Vec<_> = contexts.iter().map(|&context| slow.at(context)).collect();
        prop_assert!(times.is_sorted());
        for (context, time) in contexts.iter().zip(times) {
            prop_assert!(time >= whole.at(*context));
        }
    }
}
