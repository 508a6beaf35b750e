use super::*;
use crate::calibrate::Device;
use crate::calibrate::fake::Fake;
use crate::model;
use std::collections::BTreeSet;

fn models() -> Vec<ModelSpec> {
    model::model_names()
        .map(|n| model::model(n).unwrap())
        .collect()
}

fn planned(quick: bool) -> Vec<Work> {
    let options = Options {
        quick,
        dtypes: Vec::new(),
    };
    plan(Fake::new().facts(), &models(), &options)
}

#[test]
fn spread_out_visits_every_place_once_ends_first() {
    for count in 0..40 {
        let order = spread_out(count);
        let distinct: BTreeSet<usize> = order.iter().copied().collect();
        assert_eq!((order.len(), distinct.len()), (count, count));
    }
    assert_eq!(spread_out(9), [0, 8, 4, 2, 6, 1, 3, 5, 7]);
}

#[test]
fn plans_measure_no_point_twice() {
    for quick in [true, false] {
        let plan = planned(quick);
        let distinct: std::collections::HashSet<Work> = plan.iter().copied().collect();
        assert_eq!(distinct.len(), plan.len());
    }
}

#[test]
fn the_sites_of_a_known_model_are_in_the_plan_at_every_degree() {
    let sites = gemm_sites(&models());
    // Llama-3.1-70B: hidden 8192, 64 heads of 128 over 8, feed-forward 28672.
    for (n, k) in [
        (10_240, 8192),
        (8192, 8192),
        (57_344, 8192),
        (8192, 28_672),
        (1280, 8192),
        (8192, 1024),
    ] {
        assert!(sites.contains(&Site { n, k }), "{n} {k}");
    }
}

#[test]
fn a_tenth_of_the_plan_covers_every_kind_and_both_ends() {
    let plan = planned(false);
    let head = &plan[..plan.len() / 10];
    assert_eq!(counts(head).len(), counts(&plan).len());
    let rows: BTreeSet<u32> = head
        .iter()
        .filter_map(|w| match w {
            Work::Gemm(g) => Some(g.m),
            _ => None,
        })
        .collect();
    assert!(
        rows.contains(&1) && rows.iter().any(|m| *m >= 8192),
        "{rows:?}"
    );
}

#[test]
fn dtypes_asked_for_are_the_only_ones_planned() {
    let options = Options {
        quick: true,
        dtypes: vec!["fp8".to_owned()],
    };
    for work in plan(Fake::new().facts(), &models(), &options) {
        match work {
            Work::Gemm(g) => assert_eq!(g.dtype, GemmDtype::Fp8),
            Work::Decode(d) => assert_eq!(d.kv_dtype, KvDtype::Fp8),
            _ => {}
        }
    }
}

#[test]
fn old_gpus_get_half_products_and_no_tensor_core_kernels() {
    let mut facts = Fake::new().facts().clone();
    facts.capability = (7, 5);
    let options = Options {
        quick: true,
        dtypes: Vec::new(),
    };
    for work in plan(&facts, &models(), &options) {
        assert!(!matches!(
            work,
            Work::Decode(_) | Work::Prefill(_) | Work::Elementwise(_)
        ));
        if let Work::Gemm(g) = work {
            assert_eq!(g.dtype, GemmDtype::Fp16);
        }
    }
}

#[test]
fn usual_and_extreme_head_layouts_come_early() {
    let layouts = |quick| -> BTreeSet<(u32, u32)> {
        let heads = |w: &Work| match w {
            Work::Decode(d) if d.head_dim == 128 => Some((d.heads, d.kv_heads)),
            _ => None,
        };
        planned(quick).iter().filter_map(heads).collect()
    };
    let full = layouts(false);
    // Llama-3.1-8B whole and over 8 GPUs, Llama-3.1-70B over 8, BLOOM-176B whole.
    for layout in [(32, 8), (4, 1), (8, 1), (112, 112)] {
        assert!(full.contains(&layout), "{layout:?}: {full:?}");
    }
    assert!(layouts(true).is_subset(&full));
}
