//! The matrix products of the shipped models.

use crate::calibrate::work::GemmDtype;
use crate::model::{Attention, Ffn, GroupedAttention, LatentAttention, ModelSpec};

/// Output columns and inner size of a linear layer on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Output columns.
    pub n: u32,
    /// Inner size.
    pub k: u32,
}

impl Site {
    /// Whether the library multiplies such shapes in a format: rows of whole 16 bytes.
    pub(super) const fn suits(self, dtype: GemmDtype) -> bool {
        match dtype {
            GemmDtype::Bf16 | GemmDtype::Fp16 => {
                self.n.is_multiple_of(8) && self.k.is_multiple_of(8)
            }
            GemmDtype::Fp8 => self.n.is_multiple_of(16) && self.k.is_multiple_of(16),
        }
    }

    /// Distance of two sites: doublings.
    fn distance(self, other: Self) -> f64 {
        let doublings = |a: u32, b: u32| (f64::from(a) / f64::from(b)).log2().powi(2);
        doublings(self.n, other.n) + doublings(self.k, other.k)
    }
}

/// Tensor-parallel degrees measured for.
pub(super) const DEGREES: [u32; 4] = [1, 2, 4, 8];

/// Corners of the range, so that shapes of other models are not extrapolated.
const CORNERS: [Site; 5] = [
    Site { n: 4096, k: 4096 },
    Site { n: 64, k: 64 },
    Site { n: 64, k: 32_768 },
    Site { n: 65_536, k: 64 },
    Site {
        n: 32_768,
        k: 32_768,
    },
];

/// Every distinct linear layer of the models at every degree, those that tell most first: each next one is the one
/// farthest from all before it.
#[must_use]
pub fn gemm_sites(models: &[ModelSpec]) -> Vec<Site> {
    let mut sites: Vec<Site> = models
        .iter()
        .flat_map(|m| DEGREES.into_iter().flat_map(move |tp| linears(m, tp)))
        .collect();
    sites.sort_unstable();
    sites.dedup();
    sites.retain(|s| !CORNERS.contains(s) && s.suits(GemmDtype::Bf16));
    farthest_first(CORNERS.to_vec(), sites)
}

fn farthest_first(mut chosen: Vec<Site>, mut rest: Vec<Site>) -> Vec<Site> {
    let nearest = |site: Site, chosen: &[Site]| {
        chosen
            .iter()
            .map(|c| c.distance(site))
            .fold(f64::INFINITY, f64::min)
    };
    let mut gaps: Vec<f64> = rest.iter().map(|s| nearest(*s, &chosen)).collect();
    while let Some((farthest, _)) = gaps.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) {
        let site = rest.swap_remove(farthest);
        gaps.swap_remove(farthest);
        for (gap, other) in gaps.iter_mut().zip(&rest) {
            *gap = gap.min(other.distance(site));
        }
        chosen.push(site);
    }
    chosen
}

/// The linear layers of a model on one of `tp` ranks; none where the model cannot be cut so.
fn linears(model: &ModelSpec, tp: u32) -> Vec<Site> {
    if !model.attention.heads().is_multiple_of(tp) {
        return Vec::new();
    }
    let hidden = model.hidden;
    let mut sites = match &model.attention {
        Attention::Grouped(a) => grouped(a, hidden, tp),
        Attention::Latent(a) => latent(a, hidden, tp),
    };
    if let Some(ffn) = model.ffn {
        sites.extend(block(ffn, hidden, tp));
    }
    if let Some(moe) = model.moe {
        sites.push(Site {
            n: moe.experts,
            k: hidden,
        });
        if moe.shared_size > 0 {
            let shared = Ffn {
                size: moe.shared_size,
                gated: true,
                bias: false,
            };
            sites.extend(block(shared, hidden, tp));
        }
    }
    sites.push(Site {
        n: model.vocab.div_ceil(tp).next_multiple_of(8),
        k: hidden,
    });
    sites
}

fn grouped(a: &GroupedAttention, hidden: u32, tp: u32) -> Vec<Site> {
    let columns = (a.heads / tp + 2 * a.kv_heads_per_rank(tp)) * a.head_dim;
    vec![
        Site {
            n: columns,
            k: hidden,
        },
        Site {
            n: hidden,
            k: a.heads / tp * a.head_dim,
        },
    ]
}

fn latent(a: &LatentAttention, hidden: u32, tp: u32) -> Vec<Site> {
    let heads = a.heads / tp;
    let qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
    let cached = a.kv_lora_rank + a.qk_rope_head_dim;
    let rank = a.q_lora_rank.unwrap_or(0);
    vec![
        Site {
            n: rank + cached,
            k: hidden,
        },
        Site {
            n: heads * qk,
            k: if rank == 0 { hidden } else { rank },
        },
        Site {
            n: heads * (a.qk_nope_head_dim + a.v_head_dim),
            k: a.kv_lora_rank,
        },
        Site {
            n: hidden,
            k: heads * a.v_head_dim,
        },
    ]
}

fn block(ffn: Ffn, hidden: u32, tp: u32) -> Vec<Site> {
    if !ffn.size.is_multiple_of(tp) {
        return Vec::new();
    }
    let size = ffn.size / tp;
    let up = if ffn.gated { 2 * size } else { size };
    vec![Site { n: up, k: hidden }, Site { n: hidden, k: size }]
}
