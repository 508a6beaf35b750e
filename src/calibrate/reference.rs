//! What each kernel should answer, worked out on the CPU in the plainest way.
//!
//! Inputs are the bytes of the program's buffers in the order of [`super::build`], one round.

use super::float::{bf16s, e4m3s, floats, halves, words};
use super::work::{
    Collective, CopyKind, Decode, Elementwise, ElementwiseOp, Gemm, GemmDtype, PAGE, Prefill, Work,
};
use crate::model::KvDtype;

/// The output of the work as floats (for streaming reads and copies: the words, exactly, as their bits).
#[must_use]
pub(super) fn reference(work: &Work, buffers: &[Vec<u8>]) -> Vec<f32> {
    match work {
        Work::Gemm(g) => gemm(g, buffers),
        Work::Prefill(p) => prefill(p, buffers),
        Work::Decode(d) => decode(d, buffers),
        Work::Elementwise(e) => elementwise(e, buffers),
        Work::Launch(_) => Vec::new(),
        Work::Copy(c) if c.kind == CopyKind::StreamRead => {
            vec![f32::from_bits(exclusive_or(&buffers[0]))]
        }
        Work::Copy(_) => floats(&buffers[0]),
        Work::Collective(c) => all_reduce(c, buffers),
    }
}

/// The exclusive or of all words.
pub(super) fn exclusive_or(bytes: &[u8]) -> u32 {
    words(bytes).into_iter().fold(0, |seen, w| seen ^ w)
}

fn gemm(g: &Gemm, buffers: &[Vec<u8>]) -> Vec<f32> {
    let read = match g.dtype {
        GemmDtype::Bf16 => bf16s,
        GemmDtype::Fp16 => halves,
        GemmDtype::Fp8 => e4m3s,
    };
    let (a, w) = (read(&buffers[0]), read(&buffers[1]));
    let (m, n, k) = (g.m as usize, g.n as usize, g.k as usize);
    let mut c = Vec::with_capacity(m * n);
    for row in a.chunks_exact(k).take(m) {
        for column in w.chunks_exact(k).take(n) {
            c.push(dot(row, column));
        }
    }
    c
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    narrow(
        a.iter()
            .zip(b)
            .map(|(x, y)| f64::from(*x) * f64::from(*y))
            .sum(),
    )
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "rounding to float is meant"
)]
const fn narrow(value: f64) -> f32 {
    value as f32
}

/// Keys or values of a paged cache.
struct Cache<'a> {
    elements: Vec<f32>,
    table: &'a [u32],
    kv_heads: usize,
    head_dim: usize,
}

impl Cache<'_> {
    /// The head of a token of a sequence whose table starts at `first`.
    fn head(&self, first: usize, token: usize, head: usize) -> &[f32] {
        let page = self.table[first + token / PAGE as usize] as usize;
        let row = page * PAGE as usize + token % PAGE as usize;
        let start = (row * self.kv_heads + head) * self.head_dim;
        &self.elements[start..start + self.head_dim]
    }
}

/// Attention of one query over the first `visible` tokens.
fn attend(
    q: &[f32],
    (k, v): (&Cache<'_>, &Cache<'_>),
    first: usize,
    head: usize,
    visible: usize,
) -> Vec<f32> {
    let scale = 1.0 / (q.len() as f64).sqrt();
    let scores: Vec<f64> = (0..visible)
        .map(|t| f64::from(dot(q, k.head(first, t, head))) * scale)
        .collect();
    let peak = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|s| (s - peak).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mut out = vec![0.0; q.len()];
    for (t, weight) in weights.iter().enumerate() {
        for (o, x) in out.iter_mut().zip(v.head(first, t, head)) {
            *o += weight / sum * f64::from(*x);
        }
    }
    out.into_iter().map(narrow).collect()
}

fn decode(d: &Decode, buffers: &[Vec<u8>]) -> Vec<f32> {
    let q = bf16s(&buffers[0]);
    let (table, contexts) = (words(&buffers[3]), words(&buffers[4]));
    let read = match d.kv_dtype {
        KvDtype::Bf16 => bf16s,
        KvDtype::Fp8 | KvDtype::Int8 => e4m3s,
    };
    let cache = |bytes: &[u8]| Cache {
        elements: read(bytes),
        table: &table,
        kv_heads: d.kv_heads as usize,
        head_dim: d.head_dim as usize,
    };
    let kv = (cache(&buffers[1]), cache(&buffers[2]));
    let group = (d.heads / d.kv_heads) as usize;
    let mut out = Vec::new();
    for (row, q) in q.chunks_exact(d.head_dim as usize).enumerate() {
        let (sequence, head) = (row / d.heads as usize, row % d.heads as usize);
        let first = sequence * d.pages() as usize;
        out.extend(attend(
            q,
            (&kv.0, &kv.1),
            first,
            head / group,
            contexts[sequence] as usize,
        ));
    }
    out
}

fn prefill(p: &Prefill, buffers: &[Vec<u8>]) -> Vec<f32> {
    let q = bf16s(&buffers[0]);
    let table = words(&buffers[3]);
    let cache = |bytes: &[u8]| Cache {
        elements: bf16s(bytes),
        table: &table,
        kv_heads: p.kv_heads as usize,
        head_dim: p.head_dim as usize,
    };
    let kv = (cache(&buffers[1]), cache(&buffers[2]));
    let (heads, new) = (p.heads as usize, p.new_tokens as usize);
    let group = (p.heads / p.kv_heads) as usize;
    let pages = (p.new_tokens + p.past_tokens).div_ceil(PAGE) as usize;
    let mut out = Vec::new();
    for (row, q) in q.chunks_exact(p.head_dim as usize).enumerate() {
        let (token, head) = (row / heads, row % heads);
        let (sequence, position) = (token / new, token % new);
        let visible = p.past_tokens as usize + position + 1;
        out.extend(attend(
            q,
            (&kv.0, &kv.1),
            sequence * pages,
            head / group,
            visible,
        ));
    }
    out
}

fn elementwise(e: &Elementwise, buffers: &[Vec<u8>]) -> Vec<f32> {
    let columns = e.columns as usize;
    let x = bf16s(&buffers[0]);
    match e.op {
        ElementwiseOp::RmsNorm => {
            let (residual, weight) = (bf16s(&buffers[1]), bf16s(&buffers[2]));
            let rows = x.chunks_exact(columns).zip(residual.chunks_exact(columns));
            rows.flat_map(|(x, r)| rms_norm(x, r, &weight)).collect()
        }
        ElementwiseOp::SiluMul => x
            .chunks_exact(2 * columns)
            .flat_map(|row| {
                let (gate, up) = row.split_at(columns);
                let silu = |g: f32| g / (1.0 + (-g).exp());
                gate.iter()
                    .zip(up)
                    .map(|(g, u)| silu(*g) * u)
                    .collect::<Vec<_>>()
            })
            .collect(),
        ElementwiseOp::Rotary => rotary(&x, columns, &floats(&buffers[1]), &words(&buffers[2])),
    }
}

fn rms_norm(x: &[f32], residual: &[f32], weight: &[f32]) -> Vec<f32> {
    let sum: Vec<f32> = x.iter().zip(residual).map(|(a, b)| a + b).collect();
    let squares: f64 = sum.iter().map(|s| f64::from(*s).powi(2)).sum();
    let factor = 1.0 / (squares / sum.len() as f64 + 1e-5).sqrt();
    let scaled = sum.iter().zip(weight);
    scaled
        .map(|(s, w)| narrow(f64::from(*s) * factor * f64::from(*w)))
        .collect()
}

fn rotary(x: &[f32], columns: usize, angles: &[f32], positions: &[u32]) -> Vec<f32> {
    const HALF: usize = 64;
    let mut out = x.to_vec();
    for (row, position) in out.chunks_exact_mut(columns).zip(positions) {
        let turn = &angles[*position as usize * 2 * HALF..][..2 * HALF];
        for head in row.chunks_exact_mut(2 * HALF) {
            for i in 0..HALF {
                let (a, b) = (head[i], head[i + HALF]);
                let (cos, sin) = (turn[i], turn[i + HALF]);
                head[i] = a * cos - b * sin;
                head[i + HALF] = b * cos + a * sin;
            }
        }
    }
    out
}

fn all_reduce(c: &Collective, buffers: &[Vec<u8>]) -> Vec<f32> {
    let parts: Vec<Vec<f32>> = (0..c.ranks as usize)
        .map(|r| bf16s(&buffers[4 * r]))
        .collect();
    let length = parts[0].len();
    (0..length)
        .map(|i| parts.iter().map(|p| p[i]).sum())
        .collect()
}
