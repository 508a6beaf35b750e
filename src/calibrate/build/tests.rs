use super::*;
use crate::calibrate::fake::Fake;
use crate::calibrate::launch::{Argument, Launch};
use crate::calibrate::plan::{Options, plan};
use crate::calibrate::work::PAGE;
use crate::calibrate::{Device, Gemm};
use crate::model;

fn target() -> Target {
    Target::of(Fake::new().facts())
}

fn planned() -> Vec<Work> {
    let models: Vec<_> = model::model_names()
        .map(|n| model::model(n).unwrap())
        .collect();
    let mut facts = Fake::new().facts().clone();
    facts.gpus = 4;
    plan(
        &facts,
        &models,
        &Options {
            quick: true,
            dtypes: Vec::new(),
        },
    )
}

fn addresses(launch: &Launch) -> impl Iterator<Item = (usize, u64)> + '_ {
    launch.arguments.iter().filter_map(|a| match *a {
        Argument::Address(buffer, offset) => Some((buffer, offset)),
        _ => None,
    })
}

#[test]
fn every_planned_point_builds_within_its_budget_and_its_buffers() {
    for work in planned() {
        let program = build(&work, &target()).unwrap_or_else(|e| panic!("{work:?}: {e}"));
        assert!(program.device_bytes() <= target().budget_bytes, "{work:?}");
        for (_, step) in program.rounds.iter().flatten() {
            if let Step::Kernel(launch) = step {
                for (buffer, offset) in addresses(launch) {
                    assert!(offset < program.buffers[buffer].bytes, "{work:?}");
                    assert_eq!(offset % 4, 0);
                }
            }
        }
    }
}

#[test]
fn rounds_of_a_product_touch_other_weights_until_the_cache_has_turned_over_twice() {
    let g = Gemm {
        dtype: GemmDtype::Bf16,
        m: 8,
        n: 4096,
        k: 4096,
    };
    let program = build(&Work::Gemm(g), &target()).unwrap();
    let mut weights = std::collections::BTreeSet::new();
    for (_, step) in program.rounds.iter().flatten() {
        let Step::Library(product) = step else {
            panic!("{step:?}")
        };
        weights.insert(product.operands[1]);
    }
    let bytes = weights.len() as u64 * 2 * 4096 * 4096;
    assert!(bytes >= 2 * target().l2_bytes, "{bytes}");
}

#[test]
fn block_tables_name_every_block_of_the_pool_once() {
    let d = crate::calibrate::Decode {
        kv_dtype: model::KvDtype::Bf16,
        batch: 3,
        context_tokens: 100,
        heads: 8,
        kv_heads: 2,
        head_dim: 128,
    };
    let program = build(&Work::Decode(d), &target()).unwrap();
    let Fill::Bytes(table) = &program.buffers[3].fill else {
        panic!()
    };
    let mut pages = crate::calibrate::float::words(table);
    let blocks = program.buffers[1].bytes / d.page_bytes();
    assert_eq!(pages.len() as u64, blocks);
    assert_ne!(pages[..8], [0, 1, 2, 3, 4, 5, 6, 7], "in disorder");
    pages.sort_unstable();
    assert!(pages.iter().zip(0..).all(|(page, i)| *page == i));
    assert_eq!(
        u64::from(d.pages()),
        u64::from(d.context_tokens.div_ceil(PAGE))
    );
}

#[test]
fn what_does_not_fit_says_how_much_it_needs() {
    let mut small = target();
    small.budget_bytes = 1 << 20;
    let g = Gemm {
        dtype: GemmDtype::Bf16,
        m: 8,
        n: 4096,
        k: 4096,
    };
    let error = build(&Work::Gemm(g), &small).unwrap_err();
    assert!(
        matches!(
            error,
            DeviceError::OutOfMemory {
                free_bytes: 1_048_576,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn little_memory_means_fewer_sets_and_not_a_failure() {
    let g = Work::Gemm(Gemm {
        dtype: GemmDtype::Bf16,
        m: 8,
        n: 4096,
        k: 4096,
    });
    let mut small = target();
    small.budget_bytes = 80 << 20;
    let program = build(&g, &small).unwrap();
    assert!(program.device_bytes() <= small.budget_bytes);
    assert!(program.device_bytes() < build(&g, &target()).unwrap().device_bytes());
}

#[test]
fn without_the_library_only_bf16_products_are_offered() {
    let mut bare = target();
    bare.library = false;
    let g = |dtype| {
        Work::Gemm(Gemm {
            dtype,
            m: 8,
            n: 256,
            k: 256,
        })
    };
    assert!(build(&g(GemmDtype::Bf16), &bare).is_ok());
    let error = build(&g(GemmDtype::Fp8), &bare).unwrap_err();
    assert!(error.to_string().contains("cuBLASLt"), "{error}");
    assert!(error.goes_on());
}
