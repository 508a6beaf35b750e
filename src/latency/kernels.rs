//! The kernels a transformer step is made of, and who knows their times.

use std::fmt::Debug;

use super::Chunk;
use super::roofline::Datasheet;
use crate::model::{KvDtype, WeightDtype};

/// A kernel's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Seconds, finite and not negative.
    pub seconds: f64,
    /// Whether the shape lies inside the range the times were measured in.
    pub measured: bool,
}

impl Timed {
    /// A time that comes from no measurement.
    #[must_use]
    pub const fn unmeasured(seconds: f64) -> Self {
        Self {
            seconds,
            measured: false,
        }
    }
}

/// `m × k` activations times `k × n` weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gemm {
    /// Format of the weights, and of the product where the GPU computes in it.
    pub format: WeightDtype,
    /// Rows: tokens.
    pub m: u64,
    /// Output columns on this rank.
    pub n: u64,
    /// Inner size on this rank.
    pub k: u64,
}

impl Gemm {
    /// Floating-point operations.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes read and written at least once; activations at 16 bits.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        2.0 * m * (k + n) + self.format.bytes() * n * k
    }
}

/// Heads of one rank and the format of its KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadLayout {
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// KV format.
    pub kv: KvDtype,
    /// Tokens a query sees, itself included; `None` for all.
    pub window: Option<u32>,
}

impl HeadLayout {
    /// Query/key pairs of a causal chunk.
    #[must_use]
    pub fn pairs(&self, chunk: Chunk) -> f64 {
        let (new, past) = (f64::from(chunk.new), f64::from(chunk.past));
        let full = new * past + new * (new + 1.0) / 2.0;
        let Some(window) = self.window.map(f64::from) else {
            return full;
        };
        // Queries whose context still fits the window see all of it, the others `window` tokens.
        let short = (window - past).clamp(0.0, new);
        short * past + short * (short + 1.0) / 2.0 + (new - short) * window
    }

    /// Floating-point operations of a causal chunk: scores and weighted values.
    #[must_use]
    pub fn prefill_flops(&self, chunk: Chunk) -> f64 {
        4.0 * f64::from(self.heads) * f64::from(self.head_dim) * self.pairs(chunk)
    }

    /// Bytes that causal chunks read and write: queries and outputs, keys and values.
    #[must_use]
    pub fn prefill_bytes(&self, chunks: &[Chunk]) -> f64 {
        let rows = 4.0 * f64::from(self.heads) * f64::from(self.head_dim);
        let bytes = |c: &Chunk| {
            f64::from(c.new) * rows + f64::from(c.new + c.past) * self.kv_bytes_per_token()
        };
        chunks.iter().map(bytes).sum()
    }

    /// KV bytes of one token.
    #[must_use]
    pub fn kv_bytes_per_token(&self) -> f64 {
        2.0 * f64::from(self.kv_heads) * f64::from(self.head_dim) * self.kv.bytes() as f64
    }

    /// KV bytes a decode step of `batch` sequences with `context` tokens in all reads.
    #[must_use]
    pub fn decode_bytes(&self, batch: u32, context: f64) -> f64 {
        let n = f64::from(batch);
        // Each sequence reads its context and the token it adds; evenly long contexts are assumed.
        let each = context / n + 1.0;
        let seen = self.window.map_or(each, |w| each.min(f64::from(w)));
        self.kv_bytes_per_token() * seen * n
    }

    /// Floating-point operations of that step.
    #[must_use]
    pub fn decode_flops(&self, batch: u32, context: f64) -> f64 {
        let tokens = self.decode_bytes(batch, context) / self.kv_bytes_per_token();
        4.0 * f64::from(self.heads) * f64::from(self.head_dim) * tokens
    }
}

/// Heads of one rank of multi-head latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatentLayout {
    /// Query heads.
    pub heads: u32,
    /// Cached latent elements per token.
    pub kv_lora_rank: u32,
    /// Rotary elements per token.
    pub rope_dim: u32,
    /// Elements of a query or key head when keys are unfolded (prefill).
    pub qk_head_dim: u32,
    /// Elements of a value head when values are unfolded.
    pub v_head_dim: u32,
    /// KV format.
    pub kv: KvDtype,
}

impl LatentLayout {
    /// Query/key pairs of a causal chunk.
    #[must_use]
    pub fn pairs(chunk: Chunk) -> f64 {
        let (new, past) = (f64::from(chunk.new), f64::from(chunk.past));
        new * past + new * (new + 1.0) / 2.0
    }

    /// Floating-point operations of a causal chunk over unfolded keys and values.
    #[must_use]
    pub fn prefill_flops(&self, chunk: Chunk) -> f64 {
        let per_pair = f64::from(self.heads) * f64::from(self.qk_head_dim + self.v_head_dim);
        2.0 * per_pair * Self::pairs(chunk)
    }

    /// Bytes that causal chunks read and write.
    #[must_use]
    pub fn prefill_bytes(&self, chunks: &[Chunk]) -> f64 {
        let per_token = f64::from(self.heads) * f64::from(self.qk_head_dim + self.v_head_dim) * 2.0;
        let bytes = |c: &Chunk| f64::from(2 * c.new + c.past) * per_token;
        chunks.iter().map(bytes).sum()
    }

    /// KV bytes a decode step reads.
    #[must_use]
    pub fn decode_bytes(&self, batch: u32, context: f64) -> f64 {
        f64::from(self.kv_lora_rank + self.rope_dim)
            * self.kv.bytes() as f64
            * (context + f64::from(batch))
    }

    /// Floating-point operations of a decode step in the latent space.
    #[must_use]
    pub fn decode_flops(&self, batch: u32, context: f64) -> f64 {
        2.0 * f64::from(self.heads)
            * f64::from(2 * self.kv_lora_rank + self.rope_dim)
            * (context + f64::from(batch))
    }
}

/// The routed experts of one layer on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Weight format.
    pub format: WeightDtype,
    /// Tokens of the whole group of ranks.
    pub tokens: u64,
    /// Residual width.
    pub hidden: u32,
    /// Inner size of an expert, uncut.
    pub size: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Experts of the layer, on all ranks.
    pub experts: u32,
    /// Ranks each expert is cut over.
    pub tp: u32,
    /// Ranks the experts are spread over.
    pub ep: u32,
}

impl Experts {
    /// Experts of this rank that at least one token visits, under even independent routing:
    /// `E·(1 − (1 − k/E)^tokens)` of the whole layer, a share of it here.
    #[must_use]
    pub fn touched(&self) -> f64 {
        let experts = f64::from(self.experts);
        let miss = 1.0 - f64::from(self.top_k) / experts;
        let all = experts * (1.0 - miss.powf(self.tokens as f64));
        all / f64::from(self.ep)
    }

    /// Token visits to experts of this rank.
    #[must_use]
    pub fn visits(&self) -> f64 {
        self.tokens as f64 * f64::from(self.top_k) / f64::from(self.ep)
    }

    /// Floating-point operations on this rank; gate, up and down projections.
    #[must_use]
    pub fn flops(&self) -> f64 {
        6.0 * self.visits() * f64::from(self.hidden) * f64::from(self.size) / f64::from(self.tp)
    }

    /// Bytes on this rank: weights of the experts touched, inputs and outputs.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        let weights = 3.0 * f64::from(self.hidden) * f64::from(self.size) / f64::from(self.tp);
        self.touched() * weights * self.format.bytes()
            + self.visits() * 2.0 * 2.0 * f64::from(self.hidden)
    }
}

/// What ranks exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CollectiveKind {
    /// Sum over ranks, result everywhere.
    AllReduce,
    /// Parts of all ranks, everywhere.
    AllGather,
    /// Sum over ranks, a part each.
    ReduceScatter,
    /// A part of every rank to every rank.
    AllToAll,
    /// One rank to one other.
    SendRecv,
}

impl CollectiveKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::SendRecv,
    ];

    /// The name used in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::SendRecv => "send_recv",
        }
    }

    /// Finds a kind by name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Bytes that cross a rank's link per byte of the message, of `ranks` ranks (ring algorithm).
    #[must_use]
    pub fn traffic(self, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::SendRecv => 1.0,
        }
    }
}

/// One collective operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collective {
    /// Which.
    pub kind: CollectiveKind,
    /// Bytes of the message: the whole tensor, or what a rank sends in all for [`CollectiveKind::AllToAll`].
    pub bytes: f64,
    /// Ranks taking part, at least 2.
    pub ranks: u32,
}

/// How the tokens of a layer travel to the ranks of their experts and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DispatchMode {
    /// Many tokens: as fast as the links.
    Normal,
    /// Few tokens: every rank writes straight into every other.
    LowLatency,
    /// Within one NVLink domain, by one-sided copies.
    OneSided,
}

impl DispatchMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Normal, Self::LowLatency, Self::OneSided];

    /// The name used in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::LowLatency => "low_latency",
            Self::OneSided => "one_sided",
        }
    }
}

/// Half of the round trip of a layer's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DispatchPhase {
    /// To the experts.
    Dispatch,
    /// Back, summed.
    Combine,
}

impl DispatchPhase {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Dispatch, Self::Combine];

    /// The name used in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Combine => "combine",
        }
    }
}

/// The way of a layer's tokens to the ranks of their experts and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// Tokens of one rank.
    pub tokens: u64,
    /// Residual width.
    pub hidden: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Ranks the experts are spread over, at least 2.
    pub ranks: u32,
}

impl Dispatch {
    /// Elements of a token that leave its rank, under even independent routing: `hidden · (R − 1) · (1 − (1 − 1/R)^k)`,
    /// once for each other rank that holds at least one of its experts.
    #[must_use]
    pub fn row(&self) -> f64 {
        let ranks = f64::from(self.ranks);
        let missed = (1.0 - 1.0 / ranks).powf(f64::from(self.top_k));
        f64::from(self.hidden) * (ranks - 1.0) * (1.0 - missed)
    }

    /// One way as a plain all-to-all, whose message counts the part that stays.
    #[must_use]
    pub fn all_to_all(&self) -> Collective {
        let ranks = f64::from(self.ranks);
        Collective {
            kind: CollectiveKind::AllToAll,
            bytes: self.bytes() / 2.0 * ranks / (ranks - 1.0),
            ranks: self.ranks,
        }
    }

    /// Bytes that leave a rank on both ways at 16 bits.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        2.0 * 2.0 * self.tokens as f64 * self.row()
    }
}

/// Knows the times of kernels on one GPU type.
///
/// Contract: pure; every time is finite, above zero for work above zero, and never decreases when the work grows.
pub trait Kernels: Debug + Send + Sync {
    /// A matrix product.
    fn gemm(&self, gemm: Gemm) -> Timed;

    /// Causal attention of the chunks of one step in one layer.
    fn prefill_attention(&self, layout: &HeadLayout, chunks: &[Chunk]) -> Timed;

    /// Attention of `batch` decoding sequences holding `context` tokens in all, in one layer.
    fn decode_attention(&self, layout: &HeadLayout, batch: u32, context: f64) -> Timed;

    /// [`Kernels::prefill_attention`] of latent attention.
    fn latent_prefill(&self, layout: &LatentLayout, chunks: &[Chunk]) -> Timed;

    /// [`Kernels::decode_attention`] of latent attention.
    fn latent_decode(&self, layout: &LatentLayout, batch: u32, context: f64) -> Timed;

    /// Routing and the routed experts of one layer on one rank.
    fn experts(&self, experts: &Experts) -> Timed;

    /// A collective.
    fn collective(&self, collective: Collective) -> Timed;

    /// The round trip of a layer's tokens to experts on other ranks.
    fn dispatch(&self, dispatch: Dispatch) -> Timed;

    /// Norms, activations and the like that read and write `bytes` in all.
    fn elementwise(&self, bytes: f64) -> Timed;

    /// `number` prompts of `length` tokens each without past, where those tell the time of any chunks (see
    /// `latency::chunks`), or none for any; not whole numbers as a rule. From 1,024 prompts on the time is proportional to their number.
    fn prompts(&self, _layout: &HeadLayout, _number: f64, _length: f64) -> Option<Timed> {
        None
    }

    /// [`Kernels::prompts`] of latent attention.
    fn latent_prompts(&self, _layout: &LatentLayout, _number: f64, _length: f64) -> Option<Timed> {
        None
    }

    /// The seconds of chunks for which [`Kernels::prompts`] tell `seconds`: the same, but for kernels that slow others down.
    fn prompts_slowed(&self, _layout: &HeadLayout, _chunks: &[Chunk], seconds: f64) -> f64 {
        seconds
    }

    /// [`Kernels::prompts_slowed`] of latent attention.
    fn latent_prompts_slowed(&self, _: &LatentLayout, _chunks: &[Chunk], seconds: f64) -> f64 {
        seconds
    }

    /// Contexts per sequence between which decode attention times are close to linear: where to put the knots of a
    /// decode curve. Ascending.
    fn context_knots(&self) -> &[u32];

    /// The data sheet of the GPU: what tells whether a kernel waits for its compute units or for memory.
    fn datasheet(&self) -> &Datasheet;
}
