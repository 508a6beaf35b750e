//! Tests of the polynomial model.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;
use crate::latency::Chunk;

fn chunk(new: u32, past: u32) -> Chunk {
    Chunk {
        new,
        past,
        last: true,
    }
}

fn prefill(chunks: &[Chunk]) -> StepShape<'_> {
    StepShape {
        chunks,
        decodes: 0,
        context: 0,
    }
}

const fn decode(decodes: u32, context: u64) -> StepShape<'static> {
    StepShape {
        chunks: &[],
        decodes,
        context,
    }
}

/// A published set with the overheads of the published simulator.
fn with_overheads(set: &str, model: &str, tp: u32) -> Polynomial {
    let published = published(set, "a100-80g-sxm", model, tp).unwrap();
    Polynomial::new(Coefficients {
        prefill_stage_overhead: 1.0,
        step_overhead: 2.0,
        step_overhead_per_token: 0.0001,
        ..*published.coefficients()
    })
    .unwrap()
}

fn assert_ms(time: SimDuration, ms: f64) {
    assert!(
        (time.as_ms_f64() - ms).abs() < 1e-6,
        "{} ms, expected {ms} ms",
        time.as_ms_f64()
    );
}

#[test]
fn a_prefill_step_matches_the_formula_by_hand() {
    let model = with_overheads("distserve", "opt-13b", 1);
    let chunks = [chunk(206, 0), chunk(100, 0)];
    // 18.10254647486372 + 0.1019122572698738·306 + 7.122264314252114e-6·(42436 + 10000), plus 1, 2 and 0.0306.
    assert_ms(
        model.step_time(&prefill(&chunks), Stage::ONLY),
        52.691_760_250,
    );
}

#[test]
fn a_decode_step_on_two_stages_matches_the_formula_by_hand() {
    let model = with_overheads("distserve", "opt-13b", 1);
    // (19.934702624895458 + 0.0006269356524350583·209 + 0.03850697740828398·3)/2 on both stages.
    assert_ms(
        model.step_time(&decode(3, 206), Stage { index: 1, of: 2 }),
        10.090_626_554,
    );
    // The first adds 2 + 0.0001·206.
    assert_ms(
        model.step_time(&decode(3, 206), Stage { index: 0, of: 2 }),
        12.111_226_554,
    );
}

#[test]
fn the_large_set_takes_over_at_its_batch_size() {
    let model = published("distserve", "a100-80g-sxm", "opt-13b", 1).unwrap();
    let large = model.coefficients().decode.large;
    let ms = large.a + large.b * 95.0 + large.c * 95.0;
    assert_ms(model.step_time(&decode(95, 0), Stage::ONLY), ms);
}

#[test]
fn a_mixed_step_pays_one_intercept() {
    let model = published("distserve", "a100-80g-sxm", "opt-13b", 1).unwrap();
    let c = model.coefficients();
    let chunks = [chunk(128, 512)];
    let shape = StepShape {
        chunks: &chunks,
        decodes: 10,
        context: 4000,
    };
    let ms = c.prefill.a.max(c.decode.small.a)
        + c.prefill.b * 128.0
        + c.prefill.c * (640.0f64.powi(2) - 512.0f64.powi(2))
        + c.decode.small.b * 4010.0
        + c.decode.small.c * 10.0;
    assert_ms(model.step_time(&shape, Stage::ONLY), ms);
}

#[test]
fn the_chunks_of_a_prompt_add_up_to_its_whole() {
    let model = published("distserve", "a100-80g-sxm", "opt-66b", 4).unwrap();
    let a = model.coefficients().prefill.a;
    let time = |c: Chunk| model.step_time(&prefill(&[c]), Stage::ONLY).as_ms_f64() - a;
    let parts = time(chunk(700, 0)) + time(chunk(300, 700)) + time(chunk(24, 1000));
    assert!((parts - time(chunk(1024, 0))).abs() < 1e-6);
}

#[test]
fn a_combination_without_coefficients_lists_what_there_is() {
    let message = published("distserve", "a100-80g-sxm", "opt-175b", 8)
        .unwrap_err()
        .to_string();
    assert!(message.contains("opt-13b tp 1"), "{message}");
}

#[test]
fn coefficients_that_make_steps_shrink_are_refused() {
    let mut c = *published("vllm", "a100-80g-sxm", "opt-13b", 1)
        .unwrap()
        .coefficients();
    c.decode.small.b = -1e-9;
    let message = Polynomial::new(c).unwrap_err().to_string();
    assert!(
        message.contains("decode.small.b: -0.000000001"),
        "{message}"
    );
}

proptest! {
    #[test]
    fn times_grow_with_tokens_and_context(
        set in prop::sample::select(vec!["distserve", "vllm"]),
        tp in prop::sample::select(vec![2u32, 4]),
        model in prop::sample::select(vec!["opt-13b", "opt-66b"]),
        new in 1u32..60_000, past in 0u32..60_000, decodes in 0u32..300, context in 0u64..1_000_000,
    ) {
        let model = with_overheads(set, model, tp);
        let time = |new, past, decodes, context| {
            let chunks = [chunk(new, past)];
            model.step_time(&StepShape { chunks: &chunks, decodes, context }, Stage::ONLY)
        };
        let t = time(new, past, decodes, context);
        prop_assert!(t > SimDuration::ZERO);
        prop_assert!(time(new + 1, past, decodes, context) >= t);
        if decodes > 0 {
            prop_assert!(time(new, past, decodes, context + 1) >= t);
        }
        // The published sets drop where the large one takes over.
        if decodes != 0 && decodes != 94 {
            prop_assert!(time(new, past, decodes + 1, context) >= t);
        }
    }

    #[test]
    fn a_decode_step_is_its_curve(decodes in 1u32..300, context in 0u64..1_000_000, index in 0u32..3) {
        let model = with_overheads("vllm", "opt-66b", 8);
        let stage = Stage { index, of: 3 };
        let curve = model.decode_curve(decodes, stage);
        prop_assert_eq!(model.step_time(&decode(decodes, context), stage), curve.at(context).ceil());
    }
}

/// A case of the reference folder: which coefficients, and how many workers prefill and decode at which pp.
struct Case {
    name: &'static str,
    set: &'static str,
    model: &'static str,
    tp: u32,
    pp: u32,
}

#[test]
fn the_iterations_of_the_published_simulator_are_reproduced() {
    let root = std::env::var("PDSIM_REFERENCE").map_or_else(
        |_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/reference"),
        PathBuf::from,
    );
    let case = |name, set, model, tp, pp| Case {
        name,
        set,
        model,
        tp,
        pp,
    };
    let mut rows = 0;
    for case in [
        case("disagg_1p1d", "distserve", "opt-13b", 1, 1),
        case("disagg_1p1d_bigbatch", "distserve", "opt-13b", 1, 1),
        case("disagg_pp2", "distserve", "opt-13b", 1, 2),
        case("colocated_1", "vllm", "opt-13b", 1, 1),
        case("colocated_pp2", "vllm", "opt-13b", 2, 2),
        case("long_prompts", "distserve", "opt-13b", 1, 1),
    ] {
        let path = root
            .join("simdistserve")
            .join(case.name)
            .join("iterations.csv");
        if !path.exists() {
            #[expect(clippy::print_stderr, reason = "a skipped test says so")]
            {
                eprintln!("SKIPPED: {} is not there", path.display());
            }
            return;
        }
        rows += check_iterations(&path, &case);
    }
    assert!(rows > 1000, "only {rows} rows");
}

/// Compares every row whose duration is known and whose shape the row determines; returns how many.
fn check_iterations(path: &std::path::Path, case: &Case) -> u32 {
    let model = with_overheads(case.set, case.model, case.tp);
    let mut rows = 0;
    for row in csv::Reader::from_path(path).unwrap().deserialize() {
        let (worker, _, duration, _, prompts, tokens, decodes, context): (
            u32,
            f64,
            f64,
            String,
            u32,
            u32,
            u32,
            u64,
        ) = row.unwrap();
        // A batch of several prompts does not say their lengths; 0 stands for "unknown".
        if duration == 0.0 || prompts > 1 {
            continue;
        }
        let chunks = [chunk(tokens, 0)];
        let shape = StepShape {
            chunks: &chunks[..prompts as usize],
            decodes,
            context,
        };
        let stage = Stage {
            index: worker % case.pp,
            of: case.pp,
        };
        // The file prints four decimals.
        let ours = model.step_time(&shape, stage).as_ms_f64();
        assert!(
            (ours - duration).abs() <= 0.000_051 + 0.000_051,
            "{}: {row_shape:?} on stage {}: {ours} ms, expected {duration} ms",
            case.name,
            stage.index,
            row_shape = shape
        );
        rows += 1;
    }
    rows
}
