//! Kernel times from the fitted surfaces of a GPU profile.
//!
//! What no surface covers falls back to the data sheet and is marked as not measured. A profile may borrow the
//! surfaces of a measured GPU (`surfaces_from`): the part of a time beyond a kernel's fixed cost is then scaled by the
//! ratio of the rooflines, and nothing counts as measured.

use super::Chunk;
use super::LatencyError;
use super::chunks::chunked;
use super::compose::{Composed, Formats, Overhead};
use super::kernels::{
    Collective, CollectiveKind, Dispatch, DispatchMode, DispatchPhase, Experts, Gemm, HeadLayout,
    Kernels, LatentLayout, Timed,
};
use super::profile::{
    self, CopyPath, Launch, ProfileError, SurfaceKind, Surfaces, roofline_seconds,
};
use super::roofline::{Datasheet, Efficiency};
use crate::hardware::{self, GpuSpec, ProfileFile};
use crate::model::{KvDtype, ModelSpec, Parallelism, WeightDtype};

/// Contexts per sequence at which decode curves have knots.
const KNOTS: &[u32] = &[
    64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192, 16384, 32768, 65536, 131_072,
];

/// Fixed cost of a kernel that does not scale with the GPU, in seconds: launch, ramp and tail. Profiles that timed launches
/// say better.
const FIXED: f64 = 4e-6;

/// Ramp and tail of a kernel beside its launch.
const RAMP: f64 = 2e-6;

/// Kernel times of one GPU type from its profile.
#[derive(Debug, Clone)]
pub struct Calibrated {
    gpu: GpuSpec,
    surfaces: Surfaces,
    /// The GPU the surfaces were measured on, where it is another.
    lender: Option<GpuSpec>,
    /// Fixed cost of a kernel in seconds.
    fixed: f64,
    fallback: Datasheet,
    /// Least time of a product with block scales as timed, in seconds: what the host took to launch it.
    block_launch: f64,
    /// Exponent of the power law of expert popularity plus one; 1 is even.
    skew: f64,
}

impl Calibrated {
    /// Reads the surfaces of a profile; `path` names it in messages.
    ///
    /// # Errors
    /// When a surface is broken or the profile it borrows from does not exist.
    pub fn new(file: &ProfileFile, path: &str) -> Result<Self, LatencyError> {
        let gpu = file.gpu();
        let (surfaces, lender) = match (&file.surfaces, &file.surfaces_from) {
            (Some(value), _) => (profile::parse(value, path)?, None),
            (None, Some(name)) => {
                let lender = hardware::profile(name)?;
                let value = lender.surfaces.as_ref().ok_or_else(|| {
                    LatencyError::Profile(ProfileError::BadSurface {
                        path: path.to_owned(),
                        reason: format!("surfaces_from: {name} has no surfaces"),
                    })
                })?;
                (profile::parse(value, name)?, Some(lender.gpu()))
            }
            (None, None) => (Surfaces::new(), None),
        };
        // Engines replay recorded graphs: what one more kernel of a graph costs is what it costs them.
        let launch = surfaces.get(&SurfaceKind::Launch(Launch::GraphNode));
        let fixed = launch.map_or(FIXED, |s| s.grid.at(&[1.0]) + RAMP);
        let efficiency = Efficiency {
            kernel_seconds: fixed,
            ..Efficiency::default()
        };
        let block = surfaces.get(&SurfaceKind::Gemm(WeightDtype::Fp8Block));
        let least = |s: &profile::Surface| {
            s.grid
                .values()
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min)
        };
        Ok(Self {
            block_launch: block.map_or(0.0, |s| least(s).exp()),
            fallback: Datasheet::new(gpu.clone(), efficiency)?,
            fixed,
            gpu,
            surfaces,
            lender,
            skew: 1.0,
        })
    }

    /// Whether the profile has surfaces at all, its own or borrowed.
    #[must_use]
    pub fn has_surfaces(&self) -> bool {
        !self.surfaces.is_empty()
    }

    /// Sets how unevenly experts are visited: 0 is even, 1.2 the steepest power law measured.
    #[must_use]
    pub fn with_skew(mut self, exponent: f64) -> Self {
        self.skew = 1.0 + exponent.max(0.0);
        self
    }

    /// The time of a point, if a surface covers its kind.
    fn read(&self, kind: SurfaceKind, point: &[f64]) -> Option<Timed> {
        let surface = self.surfaces.get(&kind)?;
        let Some(lender) = &self.lender else {
            return Some(profile::predict(surface, point, &self.gpu));
        };
        let lent = profile::predict(surface, point, lender).seconds;
        let here = roofline_seconds(kind, point, &self.gpu);
        let there = roofline_seconds(kind, point, lender);
        let ratio = if there > 0.0 { here / there } else { 1.0 };
        let fixed = lent.min(self.fixed);
        Some(Timed::unmeasured(
            (fixed + (lent - fixed) * ratio).max(here),
        ))
    }

    /// Attention times: the surface of the head size, or of the nearest with the work scaled.
    fn attention(
        &self,
        make: impl Fn(u32) -> SurfaceKind,
        head_dim: u32,
        point: &[f64],
    ) -> Option<Timed> {
        if let Some(timed) = self.read(make(head_dim), point) {
            return Some(timed);
        }
        let timed = self.read(make(128), point)?;
        let fixed = timed.seconds.min(self.fixed);
        let scale = f64::from(head_dim) / 128.0;
        Some(Timed::unmeasured(fixed + (timed.seconds - fixed) * scale))
    }

    /// How often the layout exceeds the KV heads that were timed: attention works on each KV head of each sequence alone,
    /// so more heads are more sequences.
    fn fold(&self, layout: &HeadLayout) -> f64 {
        let edge = |kv, d| {
            let surface = self.surfaces.get(&SurfaceKind::DecodeAttention(kv, d))?;
            surface.grid.axes()[2].knots.last().copied()
        };
        let timed = KvDtype::ALL
            .into_iter()
            .find_map(|kv| edge(kv, layout.head_dim).or_else(|| edge(kv, 128)));
        (f64::from(layout.kv_heads) / timed.unwrap_or(f64::INFINITY)).max(1.0)
    }

    /// The time in the layout's KV format. The 8-bit formats share a surface; where there is none, `bf16` says what the surface
    /// of 16 bits comes to.
    fn in_format(
        &self,
        kv: KvDtype,
        read: impl Fn(KvDtype) -> Option<Timed>,
        bf16: impl Fn() -> Option<Timed>,
    ) -> Option<Timed> {
        let unmeasured = |t: Timed| Timed::unmeasured(t.seconds);
        match kv {
            KvDtype::Bf16 => read(kv),
            KvDtype::Fp8 => read(kv).or_else(|| bf16().map(unmeasured)),
            KvDtype::Int8 => read(KvDtype::Fp8).or_else(bf16).map(unmeasured),
        }
    }
}

impl Calibrated {
    /// Causal attention of a uniform batch of prompts without past.
    fn uniform(&self, layout: &HeadLayout, batch: f64, new: f64) -> Option<Timed> {
        let point = profile::prefill_point(layout, batch, new, self.fold(layout));
        let read = |kv| {
            let kind = |d| SurfaceKind::PrefillAttention(kv, d);
            self.attention(kind, layout.head_dim, &point)
        };
        // Prefill is bound by compute, which an 8-bit cache does not change without kernels for it.
        self.in_format(layout.kv, read, || read(KvDtype::Bf16))
    }

    /// [`Calibrated::uniform`] of latent attention.
    fn uniform_latent(&self, layout: &LatentLayout, batch: f64, new: f64) -> Option<Timed> {
        let point = profile::latent_point(layout, batch, new);
        let read = |kv| self.read(SurfaceKind::LatentPrefill(kv), &point);
        self.in_format(layout.kv, read, || read(KvDtype::Bf16))
    }

    /// The time in a weight format by its own surface; of `int8` also, as not measured, by that of `fp8`, which has the same bytes, where
    /// the GPU computes as fast in both. `int4` has no kindred surface: that of `mxfp4`, which too is unpacked to 16 bits, misses the
    /// published `int4` rows of H100 and H200 by more than the data sheet does.
    fn in_weights(
        &self,
        format: WeightDtype,
        kind: impl Fn(WeightDtype) -> SurfaceKind,
        point: &[f64],
    ) -> Option<Timed> {
        let peaks = &self.gpu.peaks;
        let alike = peaks.int8.is_some() && peaks.int8 == peaks.fp8;
        if format != WeightDtype::Int8 || !alike {
            return self.read(kind(format), point);
        }
        self.read(kind(format), point).or_else(|| {
            let timed = self.read(kind(WeightDtype::Fp8), point)?;
            Some(Timed::unmeasured(timed.seconds))
        })
    }

    /// A product with block scales under a CUDA graph.
    ///
    /// The published timings of these kernels were taken without one: small products show the host's launch cost (60
    /// to 230 µs), which a graph hides. What remains beyond that floor is kernel time, and a kernel takes at least as
    /// long as the same product with per-tensor scales, which was timed under a graph. An estimate, so not measured.
    fn graphed_block_gemm(&self, g: Gemm) -> Option<Timed> {
        let point = profile::gemm_point(g);
        let eager = self.read(SurfaceKind::Gemm(WeightDtype::Fp8Block), &point)?;
        let tensor = self.read(SurfaceKind::Gemm(WeightDtype::Fp8), &point)?;
        let kernel = eager.seconds - self.block_launch;
        Some(Timed::unmeasured(tensor.seconds.max(kernel)))
    }
}

impl Kernels for Calibrated {
    fn gemm(&self, g: Gemm) -> Timed {
        let timed = match g.format {
            WeightDtype::Fp8Block => self.graphed_block_gemm(g),
            _ => self.in_weights(g.format, SurfaceKind::Gemm, &profile::gemm_point(g)),
        };
        timed.unwrap_or_else(|| self.fallback.gemm(g))
    }

    fn prefill_attention(&self, layout: &HeadLayout, chunks: &[Chunk]) -> Timed {
        let uniform = |batch: f64, new: &f64| self.uniform(layout, batch, *new);
        chunked(chunks, |c| layout.pairs(c), Some, uniform)
            .unwrap_or_else(|| self.fallback.prefill_attention(layout, chunks))
    }

    fn decode_attention(&self, layout: &HeadLayout, batch: u32, context: f64) -> Timed {
        let each = context / f64::from(batch) + 1.0;
        let seen = layout.window.map_or(each, |w| each.min(f64::from(w)));
        let fold = self.fold(layout);
        let read = |kv, context: f64| {
            let point = profile::decode_point(layout, batch, context, fold);
            let kind = |d| SurfaceKind::DecodeAttention(kv, d);
            self.attention(kind, layout.head_dim, &point)
        };
        // Decode is bound by the KV bytes it reads: half the bytes are half the context.
        let halved = || read(KvDtype::Bf16, (seen / 2.0).max(1.0));
        self.in_format(layout.kv, |kv| read(kv, seen), halved)
            .unwrap_or_else(|| self.fallback.decode_attention(layout, batch, context))
    }

    fn latent_prefill(&self, layout: &LatentLayout, chunks: &[Chunk]) -> Timed {
        let uniform = |batch: f64, new: &f64| self.uniform_latent(layout, batch, *new);
        chunked(chunks, LatentLayout::pairs, Some, uniform)
            .unwrap_or_else(|| self.fallback.latent_prefill(layout, chunks))
    }

    fn latent_decode(&self, layout: &LatentLayout, batch: u32, context: f64) -> Timed {
        let each = context / f64::from(batch) + 1.0;
        let read = |kv, each: f64| {
            let point = profile::latent_point(layout, f64::from(batch), each);
            self.read(SurfaceKind::LatentDecode(kv), &point)
        };
        let halved = || read(KvDtype::Bf16, (each / 2.0).max(1.0));
        self.in_format(layout.kv, |kv| read(kv, each), halved)
            .unwrap_or_else(|| self.fallback.latent_decode(layout, batch, context))
    }

    fn experts(&self, e: &Experts) -> Timed {
        let point = profile::experts_point(e, self.skew);
        self.in_weights(e.format, SurfaceKind::Experts, &point)
            .unwrap_or_else(|| self.fallback.experts(e))
    }

    fn collective(&self, c: Collective) -> Timed {
        // Tables end at one node.
        if c.ranks > self.gpu.gpus_per_node || c.kind == CollectiveKind::SendRecv {
            return self.fallback.collective(c);
        }
        self.read(
            SurfaceKind::Collective(c.kind),
            &profile::collective_point(c),
        )
        .unwrap_or_else(|| self.fallback.collective(c))
    }

    fn dispatch(&self, d: Dispatch) -> Timed {
        let point = profile::dispatch_point(d);
        let way = |phase, mode| {
            let kind = SurfaceKind::Dispatch(phase, mode);
            // How times grow with ranks depends on where the links end: nobody's guess beyond the table.
            let most = *self.surfaces.get(&kind)?.grid.axes()[2].knots.last()?;
            (point[2] <= most).then(|| self.read(kind, &point))?
        };
        let trip = |mode| {
            let out = way(DispatchPhase::Dispatch, mode)?;
            let back = way(DispatchPhase::Combine, mode)?;
            Some(Timed {
                seconds: out.seconds + back.seconds,
                measured: out.measured && back.measured,
            })
        };
        // Engines take the mode that suits the step.
        let best = DispatchMode::ALL.into_iter().filter_map(trip);
        best.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .unwrap_or_else(|| {
                let way = self.collective(d.all_to_all());
                Timed {
                    seconds: 2.0 * way.seconds,
                    ..way
                }
            })
    }

    fn elementwise(&self, bytes: f64) -> Timed {
        self.read(SurfaceKind::Elementwise, &[bytes])
            .unwrap_or_else(|| self.fallback.elementwise(bytes))
    }

    fn prompts(&self, layout: &HeadLayout, number: f64, length: f64) -> Option<Timed> {
        self.uniform(layout, number, length)
    }

    fn latent_prompts(&self, layout: &LatentLayout, number: f64, length: f64) -> Option<Timed> {
        self.uniform_latent(layout, number, length)
    }

    fn context_knots(&self) -> &[u32] {
        KNOTS
    }

    fn datasheet(&self) -> &Datasheet {
        &self.fallback
    }
}

/// Bytes of a large copy, whose fixed part does not matter.
const LARGE_COPY: f64 = 256e6;

/// Bytes per second between host and device in the slower direction, where the profile timed copies.
///
/// # Errors
/// When a surface is broken.
pub fn host_bandwidth(file: &ProfileFile, path: &str) -> Result<Option<f64>, LatencyError> {
    let Some(value) = &file.surfaces else {
        return Ok(None);
    };
    let (surfaces, gpu) = (profile::parse(value, path)?, file.gpu());
    let rate = |direction| {
        let surface = surfaces.get(&SurfaceKind::Copy(direction))?;
        Some(LARGE_COPY / profile::predict(surface, &[LARGE_COPY], &gpu).seconds)
    };
    let both = (rate(CopyPath::HostToDevice), rate(CopyPath::DeviceToHost));
    Ok(match both {
        (Some(to), Some(from)) => Some(to.min(from)),
        _ => None,
    })
}

/// Step times of a model on the GPU of a profile.
///
/// # Errors
/// When a surface is broken, the model cannot be cut so or the GPU cannot compute in the format.
pub fn calibrated(
    model: &ModelSpec,
    kernels: Calibrated,
    parallelism: Parallelism,
    formats: Formats,
    overhead: Overhead,
) -> Result<Composed<Calibrated>, LatencyError> {
    formats.check(&kernels.gpu)?;
    Composed::new(model, kernels, parallelism, formats, overhead)
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
