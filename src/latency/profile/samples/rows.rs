//! From a row to a point on a surface.

use super::super::error::ProfileError;
use super::super::shapes::{self, SurfaceKind};
use super::Sample;
use super::columns::Row;
use super::transfer;
use crate::latency::kernels::{Collective, CollectiveKind, Experts, HeadLayout};
use crate::model::{KvDtype, WeightDtype};

/// What a file times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Gemm,
    PrefillAttention,
    DecodeAttention,
    LatentPrefill,
    LatentDecode,
    Experts,
    ExpertsTrtllm,
    Collective,
    Elementwise,
    Quantize,
    Dispatch,
    DeepEp,
    AllToAll,
    Launch,
    Copy,
}

/// A sample, or why the row is none we fit.
pub(super) type Outcome = Result<Sample, &'static str>;

/// First word of file names; longer ones first.
const FILES: &[(&str, Option<RowKind>)] = &[
    ("gemm", Some(RowKind::Gemm)),
    ("prefill_attention", Some(RowKind::PrefillAttention)),
    ("context_attention", Some(RowKind::PrefillAttention)),
    ("decode_attention", Some(RowKind::DecodeAttention)),
    ("generation_attention", Some(RowKind::DecodeAttention)),
    ("mla_prefill", Some(RowKind::LatentPrefill)),
    ("mla_context", Some(RowKind::LatentPrefill)),
    ("mla_decode", Some(RowKind::LatentDecode)),
    ("mla_generation", Some(RowKind::LatentDecode)),
    ("moe_dispatch", Some(RowKind::Dispatch)),
    ("deepep", Some(RowKind::DeepEp)),
    ("moe_alltoall", Some(RowKind::AllToAll)),
    // Another scope, another engine: not the kernels of this table.
    ("moe_wideep", None),
    ("moe_deepseek_trtllm", Some(RowKind::ExpertsTrtllm)),
    ("moe", Some(RowKind::Experts)),
    ("collective", Some(RowKind::Collective)),
    ("elementwise", Some(RowKind::Elementwise)),
    ("quantize", Some(RowKind::Quantize)),
    ("launch", Some(RowKind::Launch)),
    ("copy", Some(RowKind::Copy)),
];

impl RowKind {
    /// The kind of a file by the start of its name.
    pub(super) fn of_file(stem: &str) -> Option<Self> {
        FILES
            .iter()
            .find(|(start, _)| stem.starts_with(start))
            .and_then(|(_, kind)| *kind)
    }

    /// Reads a row, which may time more than one thing.
    pub(super) fn samples(self, row: &Row<'_>) -> Result<Vec<Outcome>, ProfileError> {
        match self {
            Self::DeepEp => transfer::deepep(row),
            _ => Ok(vec![self.sample(row)?]),
        }
    }

    fn sample(self, row: &Row<'_>) -> Result<Outcome, ProfileError> {
        match self {
            Self::Gemm => gemm(row),
            Self::PrefillAttention => attention(row, false),
            Self::DecodeAttention => attention(row, true),
            Self::LatentPrefill => latent(row, false),
            Self::LatentDecode => latent(row, true),
            Self::Experts => experts(row, false),
            Self::ExpertsTrtllm => experts(row, true),
            Self::Collective => collective(row),
            Self::Elementwise => elementwise(row),
            Self::Quantize => quantize(row),
            Self::Dispatch | Self::DeepEp => transfer::dispatch(row),
            Self::AllToAll => transfer::all_to_all(row),
            Self::Launch => transfer::launch(row),
            Self::Copy => transfer::copy(row),
        }
    }
}

fn weights(row: &Row<'_>) -> Result<Option<WeightDtype>, ProfileError> {
    let name = row.text("dtype")?;
    if name.is_empty() {
        return Err(row.bad("dtype", "a weight format, such as bf16 or fp8"));
    }
    // Weight-only FP4 kernels of gpt-oss; weight-only INT4.
    Ok(match name {
        "w4a16_mxfp4" => Some(WeightDtype::Mxfp4),
        "int4_wo" => Some(WeightDtype::Int4),
        other => WeightDtype::from_name(other),
    })
}

fn kv(row: &Row<'_>) -> Result<KvDtype, ProfileError> {
    KvDtype::from_name(row.text("kv_dtype")?)
        .ok_or_else(|| row.bad("kv_dtype", "bf16, fp8 or int8"))
}

fn gemm(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let Some(format) = weights(row)? else {
        return Ok(Err("gemm in a format pdsim does not know"));
    };
    let (m, n, k) = (row.count("m", 1)?, row.count("n", 1)?, row.count("k", 1)?);
    Ok(Ok(Sample {
        kind: SurfaceKind::Gemm(format),
        point: [m, n, k].map(f64::from).to_vec(),
        site: format!("{n}x{k}"),
        seconds: row.seconds()?,
    }))
}

fn attention(row: &Row<'_>, decode: bool) -> Result<Outcome, ProfileError> {
    let layout = HeadLayout {
        heads: row.count("heads", 1)?,
        kv_heads: row.count("kv_heads", 1)?,
        head_dim: row.count("head_dim", 1)?,
        kv: kv(row)?,
        window: None,
    };
    if row.has("window") && row.count("window", 0)? > 0 {
        return Ok(Err("windowed attention, derived from the full one"));
    }
    if !decode && row.has("past_tokens") && row.count("past_tokens", 0)? > 0 {
        return Ok(Err(
            "a chunk behind past context, derived from whole prompts",
        ));
    }
    let batch = row.count("batch", 1)?;
    let (kind, point) = if decode {
        let context = f64::from(row.count("context_tokens", 1)?);
        (
            SurfaceKind::DecodeAttention(layout.kv, layout.head_dim),
            shapes::decode_point(&layout, batch, context, 1.0),
        )
    } else {
        let new = f64::from(row.count("new_tokens", 1)?);
        (
            SurfaceKind::PrefillAttention(layout.kv, layout.head_dim),
            shapes::prefill_point(&layout, f64::from(batch), new, 1.0),
        )
    };
    Ok(Ok(Sample {
        kind,
        point: point.to_vec(),
        site: format!("{} over {}", layout.heads, layout.kv_heads),
        seconds: row.seconds()?,
    }))
}

fn latent(row: &Row<'_>, decode: bool) -> Result<Outcome, ProfileError> {
    let heads = row.count("heads", 1)?;
    let (kind, tokens) = if decode {
        (
            SurfaceKind::LatentDecode(kv(row)?),
            row.count("context_tokens", 1)?,
        )
    } else {
        (
            SurfaceKind::LatentPrefill(kv(row)?),
            row.count("new_tokens", 1)?,
        )
    };
    Ok(Ok(Sample {
        kind,
        point: [row.count("batch", 1)?, tokens, heads]
            .map(f64::from)
            .to_vec(),
        site: heads.to_string(),
        seconds: row.seconds()?,
    }))
}

/// The exponent of a power law plus one is its coordinate, so that balanced routing sits at 1.
fn skew(distribution: &str) -> Option<f64> {
    match distribution {
        "balanced" | "uniform" => Some(1.0),
        other => other
            .strip_prefix("power_law_")
            .and_then(|a| a.parse::<f64>().ok())
            .map(|a| a + 1.0),
    }
}

fn experts(row: &Row<'_>, trtllm: bool) -> Result<Outcome, ProfileError> {
    let Some(format) = weights(row)? else {
        return Ok(Err("experts in a format pdsim does not know"));
    };
    let distribution = row.text("distribution")?;
    let Some(skew) = skew(distribution) else {
        return Ok(Err("expert distribution pdsim does not know"));
    };
    let e = Experts {
        format,
        tokens: u64::from(row.count("tokens", 1)?),
        hidden: row.count("hidden", 1)?,
        size: row.count("expert_size", 1)?,
        top_k: row.count("top_k", 1)?,
        experts: row.count("experts", 1)?,
        tp: row.count("tp", 1)?,
        ep: row.count("ep", 1)?,
    };
    // AIConfigurator's own warning: its vLLM rows of DeepSeek-V3 with expert parallelism overload rank 0.
    let deepseek = (e.hidden, e.experts, e.top_k) == (7168, 256, 8);
    if deepseek && !trtllm && e.ep > 1 && row.is_named("moe_ep") {
        return Ok(Err(
            "DeepSeek-V3 experts by vLLM with ep > 1, skewed by the benchmark",
        ));
    }
    // One engine per shape: the other table only where this one is not usable.
    if trtllm && e.ep == 1 {
        return Ok(Err(
            "DeepSeek-V3 experts by TensorRT-LLM where vLLM's are usable",
        ));
    }
    let point = if distribution == "balanced" {
        shapes::dealt_point(&e)
    } else {
        shapes::experts_point(&e, skew)
    };
    Ok(Ok(Sample {
        kind: SurfaceKind::Experts(format),
        point: point.to_vec(),
        site: format!(
            "{}x{} {} of {} tp{} ep{}",
            e.hidden, e.size, e.top_k, e.experts, e.tp, e.ep
        ),
        seconds: row.seconds()?,
    }))
}

fn collective(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let name = match row.text("kind")? {
        "alltoall" => "all_to_all",
        other => other,
    };
    let Some(kind) = CollectiveKind::from_name(name) else {
        return Err(row.bad(
            "kind",
            "all_reduce, all_gather, reduce_scatter, all_to_all or send_recv",
        ));
    };
    let implementation = if row.has("implementation") {
        row.text("implementation")?
    } else {
        ""
    };
    // One all-reduce per size and group: the custom kernel under a CUDA graph, as engines run it.
    let other = !matches!(implementation, "" | "vllm_graph");
    if kind == CollectiveKind::AllReduce && other {
        return Ok(Err(
            "all-reduce by another kernel than vLLM's under a CUDA graph",
        ));
    }
    let bytes = if row.has("message_bytes") {
        row.positive("message_bytes")?
    } else {
        2.0 * row.positive("message_elems")?
    };
    let collective = Collective {
        kind,
        bytes,
        ranks: row.count("ranks", 2)?,
    };
    Ok(Ok(Sample {
        kind: SurfaceKind::Collective(kind),
        point: shapes::collective_point(collective).to_vec(),
        site: format!("{} ranks", collective.ranks),
        seconds: row.seconds()?,
    }))
}

fn elementwise(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let bytes = row.positive("bytes")?;
    Ok(Ok(Sample {
        kind: SurfaceKind::Elementwise,
        point: vec![bytes],
        site: bytes.to_string(),
        seconds: row.seconds()?,
    }))
}

/// Static quantisation of an m × k matrix: reads 16 bits and writes 8 per element.
fn quantize(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    if row.text("kind")? != "scale_matrix" {
        return Ok(Err("difference of two timings"));
    }
    let bytes = 3.0 * row.positive("m")? * row.positive("k")?;
    Ok(Ok(Sample {
        kind: SurfaceKind::Elementwise,
        point: vec![bytes],
        site: format!("k {}", row.text("k")?),
        seconds: row.seconds()?,
    }))
}
