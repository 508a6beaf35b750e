//! What each kind of surface is a function of: its axes, knots, smoothness and roofline.

use super::layout::{self, AxisShape, Layout, Place, axis};
use super::load::Load;
use crate::hardware::GpuSpec;
use crate::latency::kernels::{
    Collective, CollectiveKind, Dispatch, DispatchMode, DispatchPhase, Experts, Gemm, HeadLayout,
    LatentLayout,
};
use crate::latency::roofline::compute_precision;
use crate::model::{KvDtype, WeightDtype};

/// A kind of surface with its variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SurfaceKind {
    /// Matrix product by format; over m, n, k.
    Gemm(WeightDtype),
    /// Causal attention by KV format and head elements; over batch, new tokens, heads, heads per KV head.
    PrefillAttention(KvDtype, u32),
    /// Decode attention by KV format and head elements; over batch, context, KV heads, heads per KV head.
    DecodeAttention(KvDtype, u32),
    /// Latent prefill attention; over batch, new tokens, heads.
    LatentPrefill(KvDtype),
    /// Latent decode attention; over batch, context, heads.
    LatentDecode(KvDtype),
    /// Routed experts by format; over visits, experts on the rank, hidden, inner size on the rank, skew.
    Experts(WeightDtype),
    /// Collective by kind; over bytes, ranks.
    Collective(CollectiveKind),
    /// Memory-bound kernels; over bytes.
    Elementwise,
    /// Tokens to experts on other ranks or back; over tokens per rank, elements of a token that leave its rank, ranks.
    Dispatch(DispatchPhase, DispatchMode),
    /// A kernel without work; over nothing (an axis of one knot).
    Launch(Launch),
    /// A copy between memories; over bytes.
    Copy(CopyPath),
}

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Launch {
    /// One by one.
    Kernel,
    /// A recorded graph of one.
    Graph,
    /// As one more of a recorded graph: what it adds.
    GraphNode,
}

impl Launch {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kernel, Self::Graph, Self::GraphNode];

    /// The name used in files.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyPath {
    /// Inside device memory.
    Device,
    /// A kernel that only reads device memory.
    StreamRead,
    /// Pinned host memory to the device.
    HostToDevice,
    /// The device to pinned host memory.
    DeviceToHost,
    /// To another GPU of the node.
    Peer,
}

impl CopyPath {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Device,
        Self::StreamRead,
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::Peer,
    ];

    /// The name used in files.
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

/// Coordinates on the axes of a kind.
pub type Point = Vec<f64>;

const GEMM: &[AxisShape] = &[
    axis(
        "m",
        &[
            // Pairs are the steps of tiles and of the shapes kernels were tuned for.
            1.0, 2.0, 8.0, 16.0, 17.0, 64.0, 128.0, 129.0, 192.0, 256.0, 257.0, 512.0, 1024.0,
            2048.0, 2049.0, 4096.0, 8192.0, 32768.0,
        ],
        1e-3,
        true,
    ),
    axis(
        "n",
        &[
            32.0, 128.0, 512.0, 1024.0, 2048.0, 3072.0, 4096.0, 8192.0, 16384.0, 65536.0,
        ],
        1e-2,
        true,
    ),
    axis(
        "k",
        &[
            32.0, 128.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 65536.0,
        ],
        1e-2,
        true,
    ),
];

const BATCHES: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0,
];
const CONTEXTS: &[f64] = &[
    2.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 131_072.0,
];
const PROMPTS: &[f64] = &[
    1.0, 16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
];

const PREFILL: &[AxisShape] = &[
    axis("batch", &[1.0, 2.0, 4.0, 16.0, 64.0, 256.0], 1e-2, true),
    axis("new_tokens", PROMPTS, 3e-3, true),
    axis("heads", &[1.0, 4.0, 8.0, 16.0, 32.0, 96.0], 1e-2, true),
    axis("group", &[1.0, 4.0, 16.0, 96.0], 1e-2, false),
];

const DECODE: &[AxisShape] = &[
    axis("batch", BATCHES, 3e-3, true),
    axis("context", CONTEXTS, 3e-3, true),
    axis("kv_heads", &[1.0, 2.0, 4.0, 8.0, 96.0], 1e-2, true),
    axis("group", &[1.0, 2.0, 4.0, 8.0, 16.0, 96.0], 1e-2, false),
];

const LATENT_PREFILL: &[AxisShape] = &[
    axis(
        "batch",
        &[1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0],
        3e-3,
        true,
    ),
    axis("new_tokens", PROMPTS, 3e-3, true),
    axis(
        "heads",
        &[1.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        3e-3,
        true,
    ),
];

const LATENT_DECODE: &[AxisShape] = &[
    axis("batch", BATCHES, 3e-3, true),
    axis("context", CONTEXTS, 3e-3, true),
    // Kernels for 32 and 64 heads are slower than those for 16 and for 128 on Blackwell.
    axis("heads", &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0], 5e-4, false),
];

const EXPERTS: &[AxisShape] = &[
    axis(
        "visits",
        &[
            2.0, 16.0, 64.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 32768.0,
        ],
        3e-3,
        true,
    ),
    axis("experts", &[1.0, 8.0, 64.0, 256.0], 1e-2, false),
    axis("hidden", &[1024.0, 2880.0, 7168.0], 1e-2, false),
    axis("inner", &[256.0, 1024.0, 4096.0], 1e-2, false),
    axis("skew", &[1.0], 1e-2, false),
];

const COLLECTIVE: &[AxisShape] = &[
    axis(
        "bytes",
        &[
            256.0,
            1024.0,
            4096.0,
            16384.0,
            32768.0,
            65536.0,
            131_072.0,
            262_144.0,
            524_288.0,
            1_048_576.0,
            2_097_152.0,
            4_194_304.0,
            8_388_608.0,
            16_777_216.0,
            67_108_864.0,
            268_435_456.0,
            1_073_741_824.0,
        ],
        1e-3,
        true,
    ),
    axis("ranks", &[2.0, 4.0, 8.0], 1e-3, false),
];

const ELEMENTWISE: &[AxisShape] = &[axis(
    "bytes",
    &[
        1024.0,
        16384.0,
        131_072.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
        67_108_864.0,
        268_435_456.0,
        4_294_967_296.0,
    ],
    1e-3,
    true,
)];

const DISPATCH: &[AxisShape] = &[
    axis(
        "tokens",
        &[
            1.0, 8.0, 32.0, 128.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0,
        ],
        3e-3,
        true,
    ),
    axis("row", &[4096.0, 16384.0, 65536.0], 1e-2, true),
    axis("ranks", &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0], 1e-2, false),
];

const LAUNCH: &[AxisShape] = &[axis("launches", &[1.0], 1e-3, false)];

impl SurfaceKind {
    /// Kind and variant as written: `gemm` and `bf16`.
    #[must_use]
    pub fn names(self) -> (&'static str, String) {
        match self {
            Self::Gemm(w) => ("gemm", w.name().to_owned()),
            Self::PrefillAttention(kv, d) => ("prefill_attention", format!("{}-d{d}", kv.name())),
            Self::DecodeAttention(kv, d) => ("decode_attention", format!("{}-d{d}", kv.name())),
            Self::LatentPrefill(kv) => ("mla_prefill", kv.name().to_owned()),
            Self::LatentDecode(kv) => ("mla_decode", kv.name().to_owned()),
            Self::Experts(w) => ("moe", w.name().to_owned()),
            Self::Collective(c) => ("collective", c.name().to_owned()),
            Self::Elementwise => ("elementwise", "copy".to_owned()),
            Self::Dispatch(phase, mode) => {
                ("moe_dispatch", format!("{}-{}", phase.name(), mode.name()))
            }
            Self::Launch(launch) => ("launch", launch.name().to_owned()),
            Self::Copy(path) => ("copy", path.name().to_owned()),
        }
    }

    /// The kind named so.
    #[must_use]
    pub fn from_names(kind: &str, variant: &str) -> Option<Self> {
        let layout = || {
            let (kv, d) = variant.split_once("-d")?;
            Some((KvDtype::from_name(kv)?, d.parse().ok()?))
        };
        match kind {
            "gemm" => WeightDtype::from_name(variant).map(Self::Gemm),
            "prefill_attention" => layout().map(|(kv, d)| Self::PrefillAttention(kv, d)),
            "decode_attention" => layout().map(|(kv, d)| Self::DecodeAttention(kv, d)),
            "mla_prefill" => KvDtype::from_name(variant).map(Self::LatentPrefill),
            "mla_decode" => KvDtype::from_name(variant).map(Self::LatentDecode),
            "moe" => WeightDtype::from_name(variant).map(Self::Experts),
            "collective" => CollectiveKind::from_name(variant).map(Self::Collective),
            "elementwise" => Some(Self::Elementwise),
            "moe_dispatch" => {
                let (phase, mode) = variant.split_once('-')?;
                Some(Self::Dispatch(
                    named(&DispatchPhase::ALL, phase, DispatchPhase::name)?,
                    named(&DispatchMode::ALL, mode, DispatchMode::name)?,
                ))
            }
            "launch" => named(&Launch::ALL, variant, Launch::name).map(Self::Launch),
            "copy" => named(&CopyPath::ALL, variant, CopyPath::name).map(Self::Copy),
            _ => None,
        }
    }

    /// Sets of axes a surface of the kind may have; the first is the plain one.
    #[must_use]
    pub(super) fn layouts(self) -> &'static [Layout] {
        const GEMMS: &[Layout] = &[Layout::plain(GEMM)];
        const PREFILLS: &[Layout] = &[Layout::plain(PREFILL)];
        const DECODES: &[Layout] = &[
            Layout::plain(DECODE),
            Layout::new(layout::DECODE_UNITS, Place::SequenceHeads),
        ];
        const LATENT_PREFILLS: &[Layout] = &[Layout::plain(LATENT_PREFILL)];
        const LATENT_DECODES: &[Layout] = &[Layout::plain(LATENT_DECODE)];
        const MIXTURES: &[Layout] = &[
            Layout::plain(EXPERTS),
            Layout::new(layout::EXPERTS_TOUCHED, Place::ExpertsTouched),
            Layout::new(layout::EXPERTS_TOUCHED_NARROW, Place::ExpertsTouched),
        ];
        const COLLECTIVES: &[Layout] = &[Layout::plain(COLLECTIVE)];
        const ELEMENTWISES: &[Layout] = &[Layout::plain(ELEMENTWISE)];
        const DISPATCHES: &[Layout] = &[Layout::plain(DISPATCH)];
        const LAUNCHES: &[Layout] = &[Layout::plain(LAUNCH)];
        match self {
            Self::Gemm(_) => GEMMS,
            Self::PrefillAttention(..) => PREFILLS,
            Self::DecodeAttention(..) => DECODES,
            Self::LatentPrefill(_) => LATENT_PREFILLS,
            Self::LatentDecode(_) => LATENT_DECODES,
            Self::Experts(_) => MIXTURES,
            Self::Collective(_) => COLLECTIVES,
            Self::Elementwise | Self::Copy(_) => ELEMENTWISES,
            Self::Dispatch(..) => DISPATCHES,
            Self::Launch(_) => LAUNCHES,
        }
    }

    /// Fewest samples that make a surface: a dozen per axis. A launch is one figure, a copy a line.
    pub(super) fn fewest_samples(self) -> usize {
        match self {
            Self::Launch(_) => 1,
            Self::Copy(_) => 4,
            _ => 12 * self.layouts()[0].len(),
        }
    }
}

/// The least seconds the data sheet allows at a point of a kind. Log-convex in every coordinate.
#[must_use]
pub fn roofline_seconds(kind: SurfaceKind, point: &[f64], gpu: &GpuSpec) -> f64 {
    let bound = |flops: f64, format: WeightDtype, bytes: f64| {
        let peak = compute_precision(format)
            .and_then(|p| gpu.peaks.at(p))
            .unwrap_or(gpu.peaks.bf16);
        (flops / peak).max(bytes / gpu.memory_bandwidth)
    };
    match kind {
        SurfaceKind::Gemm(format) => {
            let (m, n, k) = (point[0], point[1], point[2]);
            let bytes = 2.0 * m * (k + n) + format.bytes() * n * k;
            bound(2.0 * m * n * k, format, bytes)
        }
        SurfaceKind::PrefillAttention(_, d) => {
            let (batch, new, heads) = (point[0], point[1], point[2]);
            let flops = 2.0 * batch * heads * f64::from(d) * new * new;
            bound(
                flops,
                attention_format(kind),
                4.0 * batch * heads * f64::from(d) * new,
            )
        }
        SurfaceKind::DecodeAttention(kv, d) => {
            let (batch, context, kv_heads) = (point[0], point[1], point[2]);
            let bytes = 2.0 * batch * context * kv_heads * f64::from(d) * kv.bytes() as f64;
            bytes / gpu.memory_bandwidth
        }
        SurfaceKind::LatentPrefill(_) => {
            let (batch, new, heads) = (point[0], point[1], point[2]);
            let flops = batch * heads * 320.0 * new * new;
            bound(flops, attention_format(kind), 640.0 * batch * heads * new)
        }
        SurfaceKind::LatentDecode(kv) => {
            let (batch, context, heads) = (point[0], point[1], point[2]);
            let bytes = batch * context * 576.0 * kv.bytes() as f64;
            bound(
                2.0 * batch * context * heads * 1088.0,
                attention_format(kind),
                bytes,
            )
        }
        SurfaceKind::Experts(format) => {
            let (visits, _, hidden, inner) = (point[0], point[1], point[2], point[3]);
            // How many experts are read depends on the routing; inputs and outputs always move.
            bound(6.0 * visits * hidden * inner, format, 4.0 * visits * hidden)
        }
        SurfaceKind::Collective(c) => {
            // Ranks is not a continuous quantity here: take its least traffic, that of two.
            point[0] * c.traffic(2) / gpu.intra_node_bandwidth()
        }
        SurfaceKind::Elementwise => point[0] / gpu.memory_bandwidth,
        // At no fewer than four bits per element; more ranks than a node has only go slower.
        SurfaceKind::Dispatch(..) => point[0] * point[1] * 0.5 / gpu.intra_node_bandwidth(),
        // A launch does no work. Small copies run from caches, and the data sheet of a link is not that of its host.
        SurfaceKind::Launch(_) | SurfaceKind::Copy(_) => 0.0,
    }
}

/// The one of `all` that has this name.
fn named<T: Copy>(all: &[T], name: &str, name_of: impl Fn(T) -> &'static str) -> Option<T> {
    all.iter().copied().find(|x| name_of(*x) == name)
}

/// Attention over an 8-bit KV cache may compute in FP8.
const fn attention_format(kind: SurfaceKind) -> WeightDtype {
    match kind {
        SurfaceKind::PrefillAttention(KvDtype::Fp8, _)
        | SurfaceKind::LatentPrefill(KvDtype::Fp8)
        | SurfaceKind::LatentDecode(KvDtype::Fp8) => WeightDtype::Fp8,
        _ => WeightDtype::Bf16,
    }
}

/// Where a product lies on its surface.
#[must_use]
pub fn gemm_point(g: Gemm) -> [f64; 3] {
    [g.m as f64, g.n as f64, g.k as f64]
}

/// Where a uniform batch of prompts without past lies; its heads as `fold` times the sequences with fewer heads, 1 to
/// take them as they are.
#[must_use]
pub fn prefill_point(layout: &HeadLayout, batch: f64, new: f64, fold: f64) -> [f64; 4] {
    let heads = f64::from(layout.heads);
    let group = heads / f64::from(layout.kv_heads);
    [batch * fold, new, heads / fold, group]
}

/// Where a decode batch lies; `context` per sequence with the step's own token, `fold` as in [`prefill_point`].
#[must_use]
pub fn decode_point(layout: &HeadLayout, batch: u32, context: f64, fold: f64) -> [f64; 4] {
    let kv_heads = f64::from(layout.kv_heads);
    let group = f64::from(layout.heads) / kv_heads;
    [f64::from(batch) * fold, context, kv_heads / fold, group]
}

/// Where a latent batch lies.
#[must_use]
pub fn latent_point(layout: &LatentLayout, batch: f64, tokens: f64) -> [f64; 3] {
    [batch, tokens, f64::from(layout.heads)]
}

/// Where experts lie, for the tokens of all ranks; `skew` is 1 for even routing, else one more than the exponent of a
/// power law. Visits are those of the mean rank of even routing and of the busiest of a power law. Two more numbers: the visits of the whole group of ranks, which every rank routes and permutes (see
/// [`routing_seconds`]), and the experts of this rank that are touched.
#[must_use]
pub fn experts_point(e: &Experts, skew: f64) -> [f64; 7] {
    let load = if skew > 1.0 {
        Load::skewed(e, skew - 1.0)
    } else {
        Load::even(e)
    };
    loaded_point(e, skew, load)
}

/// Where experts lie that were timed with tokens dealt to them in turn.
pub(super) fn dealt_point(e: &Experts) -> [f64; 7] {
    loaded_point(e, 1.0, Load::dealt(e))
}

fn loaded_point(e: &Experts, skew: f64, load: Load) -> [f64; 7] {
    [
        load.visits,
        f64::from(e.experts) / f64::from(e.ep),
        f64::from(e.hidden),
        f64::from(e.size) / f64::from(e.tp),
        skew,
        e.tokens as f64 * f64::from(e.top_k),
        load.touched,
    ]
}

/// Seconds to move the inputs of all visits of the group once, for kinds that route; zero for others.
#[must_use]
pub fn routing_seconds(kind: SurfaceKind, point: &[f64], gpu: &GpuSpec) -> f64 {
    match kind {
        SurfaceKind::Experts(_) => 2.0 * point[2] * point[5] / gpu.memory_bandwidth,
        _ => 0.0,
    }
}

/// Where one way of a dispatch lies.
#[must_use]
pub fn dispatch_point(d: Dispatch) -> [f64; 3] {
    [d.tokens as f64, d.row(), f64::from(d.ranks)]
}

/// Where a collective lies.
#[must_use]
pub fn collective_point(c: Collective) -> [f64; 2] {
    [c.bytes, f64::from(c.ranks)]
}
