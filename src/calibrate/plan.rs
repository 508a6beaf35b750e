//! Which points to measure, and in which order.
//!
//! The order is coarse to fine: every prefix of the plan covers the whole range of every kernel about evenly, so that a
//! run that is cut short by its time limit leaves a coarser profile and not a lopsided one.

mod attention;
mod sites;

pub use sites::{Site, gemm_sites};

use super::check::gemm_dtypes;
use super::device::GpuFacts;
use super::work::{
    Collective, Copy, CopyKind, Elementwise, ElementwiseOp, Gemm, GemmDtype, Kind, LaunchKind, Work,
};
use crate::model::{KvDtype, ModelSpec};

/// What is wanted of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Fewer points.
    pub quick: bool,
    /// Formats of matrix products and of the KV cache to measure, by name; all the GPU has when empty.
    pub dtypes: Vec<String>,
}

/// Rows of matrix products, full.
const ROWS: &[u32] = &[
    1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    8192, 16_384,
];
/// And quick.
const FEW_ROWS: &[u32] = &[1, 8, 32, 64, 128, 256, 512, 1024, 2048, 8192];

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.dtypes.is_empty() || self.dtypes.iter().any(|d| d == name)
    }

    fn wants_kv(&self, kv: KvDtype) -> bool {
        self.wants(kv.name())
    }
}

/// The points, most telling first.
#[must_use]
pub fn plan(facts: &GpuFacts, models: &[ModelSpec], options: &Options) -> Vec<Work> {
    let mut lists = vec![launches(), copies(facts, options.quick)];
    lists.extend(gemms(facts, models, options));
    if facts.runs_kernels() {
        lists.push(attention::prefill(models, options));
        for kv in [KvDtype::Bf16, KvDtype::Fp8] {
            if options.wants_kv(kv) {
                lists.push(attention::decode(models, options, kv));
            }
        }
        lists.push(elementwise(options.quick));
    }
    if facts.gpus > 1 {
        lists.push(collectives(facts, options.quick));
    }
    interleave(lists)
}

/// How many points of each kind a plan has.
#[must_use]
pub fn counts(plan: &[Work]) -> Vec<(Kind, usize)> {
    let of = |kind| plan.iter().filter(|w| w.kind() == kind).count();
    Kind::ALL
        .into_iter()
        .map(|k| (k, of(k)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// Merges lists so that every prefix has about the same share of each; the few launches and copies come first.
fn interleave(lists: Vec<Vec<Work>>) -> Vec<Work> {
    let mut keyed: Vec<(f64, Work)> = Vec::new();
    for list in lists {
        let length = list.len() as f64;
        for (i, work) in list.into_iter().enumerate() {
            let key = match work {
                Work::Launch(_) | Work::Copy(_) => 0.0,
                _ => (i as f64 + 0.5) / length,
            };
            keyed.push((key, work));
        }
    }
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    keyed.into_iter().map(|(_, w)| w).collect()
}

/// The places of `0..count` in an order whose every prefix is spread out (bit reversal, ends first).
fn spread_out(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::with_capacity(count);
    let mut add = |i: usize| {
        if !order.contains(&i) {
            order.push(i);
        }
    };
    if count == 0 {
        return Vec::new();
    }
    add(0);
    add(count - 1);
    let mut parts = 2;
    while parts < 2 * count {
        for odd in (1..parts).step_by(2) {
            add(odd * (count - 1) / parts);
        }
        parts *= 2;
    }
    order
}

/// All pairs of a coarse-to-fine list of `a` and one of `b`, coarse pairs first.
fn pairs<A: Copy2, B: Copy2>(a: &[A], b: &[B]) -> Vec<(A, B)> {
    let share = |i: usize, n: usize| (i as f64 + 0.5) / n as f64;
    let mut keyed: Vec<(f64, (A, B))> = Vec::new();
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            keyed.push((share(i, a.len()) + share(j, b.len()), (*x, *y)));
        }
    }
    keyed.sort_by(|p, q| p.0.total_cmp(&q.0));
    keyed.into_iter().map(|(_, pair)| pair).collect()
}

/// `std`'s `Copy`, whose name is taken here.
trait Copy2: std::marker::Copy {}
impl<T: std::marker::Copy> Copy2 for T {}

/// The values of a grid, ends and middle first.
fn coarse_first<T: std::marker::Copy>(grid: &[T]) -> Vec<T> {
    spread_out(grid.len())
        .into_iter()
        .map(|i| grid[i])
        .collect()
}

fn gemms(facts: &GpuFacts, models: &[ModelSpec], options: &Options) -> Vec<Vec<Work>> {
    let all = gemm_sites(models);
    let most = if options.quick { 40 } else { 120 };
    let sites = &all[..all.len().min(most)];
    let rows = coarse_first(if options.quick { FEW_ROWS } else { ROWS });
    let list = |dtype: GemmDtype| {
        pairs(sites, &rows)
            .into_iter()
            .filter(|(site, _)| site.suits(dtype))
            .map(|(site, m)| Gemm {
                dtype,
                m,
                n: site.n,
                k: site.k,
            })
            .map(Work::Gemm)
            .filter(|w| w.flops() < 2e14)
            .collect()
    };
    let dtypes = gemm_dtypes(facts).into_iter();
    dtypes
        .filter(|d| options.wants(d.name()))
        .map(list)
        .collect()
}

fn elementwise(quick: bool) -> Vec<Work> {
    let rows: &[u32] = if quick {
        &[1, 64, 1024, 8192]
    } else {
        &[1, 8, 32, 128, 512, 1024, 2048, 4096, 8192, 16_384]
    };
    let columns: &[u32] = if quick {
        &[4096, 14_336]
    } else {
        &[1024, 2048, 4096, 8192, 14_336, 28_672]
    };
    let shapes = pairs(&coarse_first(rows), &coarse_first(columns));
    let ops = |(rows, columns)| {
        ElementwiseOp::ALL.map(|op| Work::Elementwise(Elementwise { op, rows, columns }))
    };
    shapes.into_iter().flat_map(ops).collect()
}

fn launches() -> Vec<Work> {
    vec![
        Work::Launch(LaunchKind::Kernel),
        Work::Launch(LaunchKind::Graph),
        Work::Launch(LaunchKind::GraphNode),
    ]
}

fn copies(facts: &GpuFacts, quick: bool) -> Vec<Work> {
    let mut kinds = vec![
        CopyKind::StreamRead,
        CopyKind::Device,
        CopyKind::HostToDevice,
        CopyKind::DeviceToHost,
    ];
    if !facts.runs_kernels() {
        kinds.remove(0);
    }
    if facts.gpus > 1 {
        kinds.push(CopyKind::Peer);
    }
    let step = if quick { 4 } else { 2 };
    let mut works = Vec::new();
    for kind in kinds {
        // Host memory is pinned, so large copies with it are costly to set up and tell nothing new.
        let device_only = matches!(kind, CopyKind::StreamRead | CopyKind::Device);
        let largest = if device_only { 32 } else { 28 };
        works.extend((14..=largest).step_by(step).map(|power| {
            Work::Copy(Copy {
                kind,
                bytes: 1 << power,
            })
        }));
    }
    works
}

fn collectives(facts: &GpuFacts, quick: bool) -> Vec<Work> {
    let groups: Vec<u32> = [2, 4, 8].into_iter().filter(|r| *r <= facts.gpus).collect();
    let powers: Vec<u32> = (11..=28).step_by(if quick { 3 } else { 1 }).collect();
    pairs(&groups, &coarse_first(&powers))
        .into_iter()
        .map(|(ranks, power)| {
            Work::Collective(Collective {
                ranks,
                bytes: 1 << power,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
