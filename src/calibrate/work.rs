//! What is measured: one kernel at one shape.

use crate::model::KvDtype;

/// Tokens of a KV block in the attention kernels.
pub(super) const PAGE: u32 = 16;

/// A number format of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GemmDtype {
    /// `bf16` in and out.
    Bf16,
    /// IEEE half in and out, for GPUs before `sm_80`.
    Fp16,
    /// e4m3 in, bf16 out, scales of 1; from `sm_89` on.
    Fp8,
}

impl GemmDtype {
    /// The name in samples.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
        }
    }

    /// Bytes of an input element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }
}

/// A matrix product `[m][k] × [n][k]ᵀ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Format of the inputs.
    pub dtype: GemmDtype,
    /// Rows: tokens.
    pub m: u32,
    /// Output columns on one rank.
    pub n: u32,
    /// Inner size on one rank.
    pub k: u32,
}

/// Causal attention of `batch` chunks of equal shape, bf16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefill {
    /// Chunks in the step.
    pub batch: u32,
    /// New tokens of each.
    pub new_tokens: u32,
    /// Tokens of each already in the cache.
    pub past_tokens: u32,
    /// Query heads on one rank.
    pub heads: u32,
    /// Key/value heads on one rank.
    pub kv_heads: u32,
    /// Elements per head: 64 or 128.
    pub head_dim: u32,
}

/// Attention of one new token for each of `batch` sequences of equal context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decode {
    /// Format of the cache.
    pub kv_dtype: KvDtype,
    /// Sequences.
    pub batch: u32,
    /// Tokens each reads, the new one included.
    pub context_tokens: u32,
    /// Query heads on one rank.
    pub heads: u32,
    /// Key/value heads on one rank, at most 16 times fewer.
    pub kv_heads: u32,
    /// Elements per head: 64 or 128.
    pub head_dim: u32,
}

impl Decode {
    /// Blocks of the table of one sequence.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.context_tokens.div_ceil(PAGE)
    }

    /// Bytes of one block of keys (or of values).
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        u64::from(PAGE)
            * u64::from(self.kv_heads)
            * u64::from(self.head_dim)
            * self.kv_dtype.bytes()
    }
}

/// Which elementwise kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ElementwiseOp {
    /// Residual addition and RMS norm.
    RmsNorm,
    /// Gated activation.
    SiluMul,
    /// Rotary positions, in place.
    Rotary,
}

impl ElementwiseOp {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RmsNorm, Self::SiluMul, Self::Rotary];

    /// The name in samples.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RmsNorm => "rms_norm",
            Self::SiluMul => "silu_mul",
            Self::Rotary => "rotary",
        }
    }

    /// Elements of 16 bits read and written per row and column.
    const fn touches(self) -> u64 {
        match self {
            Self::RmsNorm => 4,
            Self::SiluMul => 3,
            Self::Rotary => 2,
        }
    }
}

/// An elementwise kernel over `rows` tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Elementwise {
    /// Which.
    pub op: ElementwiseOp,
    /// Tokens.
    pub rows: u32,
    /// Elements of an output row; a multiple of 128.
    pub columns: u32,
}

/// A way to start work on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LaunchKind {
    /// Empty kernels launched one by one.
    Kernel,
    /// A recorded graph of one empty kernel, launched again and again.
    Graph,
    /// One more empty kernel in a recorded graph.
    GraphNode,
}

impl LaunchKind {
    /// The name in samples.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::GraphNode => "graph_node",
        }
    }
}

/// Between which memories a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CopyKind {
    /// Inside device memory by the copy engine or the driver's kernel.
    Device,
    /// Not a copy: a kernel that only reads. The ceiling of anything bound by memory.
    StreamRead,
    /// Pinned host memory to the device.
    HostToDevice,
    /// The device to pinned host memory.
    DeviceToHost,
    /// To another GPU of the machine.
    Peer,
}

impl CopyKind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Device,
        Self::StreamRead,
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::Peer,
    ];

    /// The name in samples.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::StreamRead => "stream_read",
            Self::HostToDevice => "host_to_device",
            Self::DeviceToHost => "device_to_host",
            Self::Peer => "peer",
        }
    }
}

/// A copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Copy {
    /// Between which memories.
    pub kind: CopyKind,
    /// Bytes read; a multiple of 16.
    pub bytes: u64,
}

/// An all-reduce in bf16 over the GPUs of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collective {
    /// GPUs, 2 to 8.
    pub ranks: u32,
    /// Bytes of the message; a multiple of 16 · ranks.
    pub bytes: u64,
}

/// The samples file a point belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Matrix products.
    Gemm,
    /// Attention of prompts.
    PrefillAttention,
    /// Attention of generated tokens.
    DecodeAttention,
    /// Norms and activations.
    Elementwise,
    /// Launches.
    Launch,
    /// Copies.
    Copy,
    /// All-reduce.
    Collective,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Gemm,
        Self::PrefillAttention,
        Self::DecodeAttention,
        Self::Elementwise,
        Self::Launch,
        Self::Copy,
        Self::Collective,
    ];

    /// The name of the samples file without its ending.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::PrefillAttention => "prefill_attention",
            Self::DecodeAttention => "decode_attention",
            Self::Elementwise => "elementwise",
            Self::Launch => "launch",
            Self::Copy => "copy",
            Self::Collective => "collective",
        }
    }
}

/// One point to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A matrix product.
    Gemm(Gemm),
    /// Attention of prompts.
    Prefill(Prefill),
    /// Attention of generated tokens.
    Decode(Decode),
    /// A memory-bound kernel.
    Elementwise(Elementwise),
    /// A launch.
    Launch(LaunchKind),
    /// A copy.
    Copy(Copy),
    /// An all-reduce.
    Collective(Collective),
}

impl Work {
    /// The samples file it belongs to.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Gemm(_) => Kind::Gemm,
            Self::Prefill(_) => Kind::PrefillAttention,
            Self::Decode(_) => Kind::DecodeAttention,
            Self::Elementwise(_) => Kind::Elementwise,
            Self::Launch(_) => Kind::Launch,
            Self::Copy(_) => Kind::Copy,
            Self::Collective(_) => Kind::Collective,
        }
    }

    /// Floating-point operations of matrix products; 0 where memory alone counts.
    #[must_use]
    pub fn flops(&self) -> f64 {
        match *self {
            Self::Gemm(g) => 2.0 * f64::from(g.m) * f64::from(g.n) * f64::from(g.k),
            Self::Prefill(p) => {
                let (new, past) = (f64::from(p.new_tokens), f64::from(p.past_tokens));
                let pairs = new * past + new * (new + 1.0) / 2.0;
                4.0 * f64::from(p.batch) * f64::from(p.heads) * f64::from(p.head_dim) * pairs
            }
            Self::Decode(d) => {
                4.0 * f64::from(d.batch)
                    * f64::from(d.heads)
                    * f64::from(d.head_dim)
                    * f64::from(d.context_tokens)
            }
            Self::Elementwise(_) | Self::Launch(_) | Self::Copy(_) | Self::Collective(_) => 0.0,
        }
    }

    /// Bytes that must cross memory (or, for copies between memories, the link) at least once.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        match *self {
            Self::Gemm(g) => {
                let (m, n, k) = (f64::from(g.m), f64::from(g.n), f64::from(g.k));
                g.dtype.bytes() as f64 * (m * k + n * k) + 2.0 * m * n
            }
            Self::Prefill(p) => {
                let rows = f64::from(p.batch) * f64::from(p.head_dim) * 2.0;
                let queries = 2.0 * f64::from(p.new_tokens) * f64::from(p.heads);
                let keys = 2.0 * f64::from(p.new_tokens + p.past_tokens) * f64::from(p.kv_heads);
                rows * (queries + keys)
            }
            Self::Decode(d) => {
                2.0 * d.kv_dtype.bytes() as f64
                    * f64::from(d.batch)
                    * f64::from(d.context_tokens)
                    * f64::from(d.kv_heads)
                    * f64::from(d.head_dim)
            }
            Self::Elementwise(e) => {
                (u64::from(e.rows) * u64::from(e.columns) * e.op.touches() * 2) as f64
            }
            Self::Launch(_) => 0.0,
            Self::Copy(c) => match c.kind {
                CopyKind::Device => 2.0 * c.bytes as f64,
                _ => c.bytes as f64,
            },
            Self::Collective(c) => c.bytes as f64,
        }
    }
}
