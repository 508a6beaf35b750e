//! Kernel times from data-sheet peaks and stated efficiencies.
//!
//! `time = kernel + max(FLOP / (peak · compute), bytes / (bandwidth · memory))`. It knows nothing of tiles, waves or
//! split-K, so it is too fast for odd shapes; use a measured profile where one exists.

use super::compose::{Composed, Formats, Overhead};
use super::kernels::{
    Collective, Dispatch, Experts, Gemm, HeadLayout, Kernels, LatentLayout, Timed,
};
use super::{Chunk, LatencyError};
use crate::hardware::{GpuSpec, Precision};
use crate::model::{ModelSpec, Parallelism, WeightDtype};

/// Shares of the data-sheet peaks that kernels reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Efficiency {
    /// Matrix products, of the tensor-core peak.
    pub gemm: f64,
    /// Prefill attention, of the tensor-core peak.
    pub prefill_attention: f64,
    /// Anything that reads memory, of its bandwidth.
    pub memory: f64,
    /// Collectives, of the link between GPUs.
    pub link: f64,
    /// Fixed time of a kernel in seconds.
    pub kernel_seconds: f64,
    /// Fixed time of a collective in seconds.
    pub collective_seconds: f64,
}

impl Default for Efficiency {
    /// Three-parameter fits to published kernel timings on A100 and H100 (Vidur's and AIConfigurator's) give 0.68 to
    /// 0.76 for GEMM compute, 0.76 to 0.86 for memory and 2 to 10 µs per kernel; attention stays well below.
    /// Collectives: 0.6 to 0.8 of the link above 1 MiB.
    fn default() -> Self {
        Self {
            gemm: 0.70,
            prefill_attention: 0.45,
            memory: 0.78,
            link: 0.70,
            kernel_seconds: 4e-6,
            collective_seconds: 12e-6,
        }
    }
}

impl Efficiency {
    /// Checks that shares are above 0 and at most 1 and times not negative.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn validate(&self) -> Result<(), LatencyError> {
        let shares = [
            ("gemm", self.gemm),
            ("prefill_attention", self.prefill_attention),
            ("memory", self.memory),
            ("link", self.link),
        ];
        for (key, value) in shares {
            if !(value > 0.0 && value <= 1.0) {
                return Err(LatencyError::BadEfficiency {
                    key,
                    value,
                    allowed: "above 0 and at most 1",
                });
            }
        }
        for (key, value) in [
            ("kernel_seconds", self.kernel_seconds),
            ("collective_seconds", self.collective_seconds),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(LatencyError::BadEfficiency {
                    key,
                    value,
                    allowed: "a finite number of seconds, at least 0",
                });
            }
        }
        Ok(())
    }
}

/// Kernel times of one GPU type from its data sheet.
#[derive(Debug, Clone)]
pub struct Datasheet {
    gpu: GpuSpec,
    efficiency: Efficiency,
}

impl Datasheet {
    /// Times kernels on `gpu`.
    ///
    /// # Errors
    /// When an efficiency is impossible.
    pub fn new(gpu: GpuSpec, efficiency: Efficiency) -> Result<Self, LatencyError> {
        efficiency.validate()?;
        Ok(Self { gpu, efficiency })
    }

    fn peak(&self, format: WeightDtype) -> f64 {
        let peaks = &self.gpu.peaks;
        compute_precision(format)
            .and_then(|p| peaks.at(p))
            .unwrap_or(peaks.bf16)
    }

    /// How long a kernel would keep compute units and memory busy, without its fixed time.
    #[must_use]
    pub fn bounds(&self, unit: Unit, flops: f64, bytes: f64) -> Bounds {
        let rate = match unit {
            Unit::Product(format) => self.peak(format) * self.efficiency.gemm,
            Unit::Attention => self.gpu.peaks.bf16 * self.efficiency.prefill_attention,
            Unit::Memory => self.gpu.peaks.bf16,
        };
        Bounds {
            compute: flops / rate,
            memory: bytes / (self.gpu.memory_bandwidth * self.efficiency.memory),
        }
    }

    /// Fixed time of a kernel in seconds.
    #[must_use]
    pub const fn kernel_seconds(&self) -> f64 {
        self.efficiency.kernel_seconds
    }

    fn roofline(&self, unit: Unit, flops: f64, bytes: f64) -> Timed {
        let bounds = self.bounds(unit, flops, bytes);
        Timed::unmeasured(bounds.compute.max(bounds.memory) + self.efficiency.kernel_seconds)
    }
}

/// What a kernel computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Tensor cores, on weights of this format.
    Product(WeightDtype),
    /// Tensor cores, on queries, keys and values.
    Attention,
    /// Nothing to speak of: it moves bytes.
    Memory,
}

/// Seconds for which a kernel keeps each part of the GPU busy; the larger decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The compute units.
    pub compute: f64,
    /// The memory.
    pub memory: f64,
}

/// The precision a product with such weights is computed in; `None` for weight-only formats, which compute at 16 bits.
#[must_use]
pub const fn compute_precision(format: WeightDtype) -> Option<Precision> {
    match format {
        WeightDtype::Bf16 | WeightDtype::Int4 | WeightDtype::Mxfp4 => None,
        WeightDtype::Fp8 | WeightDtype::Fp8Block => Some(Precision::Fp8),
        WeightDtype::Int8 => Some(Precision::Int8),
        WeightDtype::Nvfp4 => Some(Precision::Fp4),
    }
}

impl Kernels for Datasheet {
    fn gemm(&self, g: Gemm) -> Timed {
        self.roofline(Unit::Product(g.format), g.flops(), g.bytes())
    }

    fn prefill_attention(&self, layout: &HeadLayout, chunks: &[Chunk]) -> Timed {
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        self.roofline(Unit::Attention, flops, layout.prefill_bytes(chunks))
    }

    fn decode_attention(&self, layout: &HeadLayout, batch: u32, context: f64) -> Timed {
        self.roofline(
            Unit::Attention,
            layout.decode_flops(batch, context),
            layout.decode_bytes(batch, context),
        )
    }

    fn latent_prefill(&self, layout: &LatentLayout, chunks: &[Chunk]) -> Timed {
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        self.roofline(Unit::Attention, flops, layout.prefill_bytes(chunks))
    }

    fn latent_decode(&self, layout: &LatentLayout, batch: u32, context: f64) -> Timed {
        self.roofline(
            Unit::Attention,
            layout.decode_flops(batch, context),
            layout.decode_bytes(batch, context),
        )
    }

    fn experts(&self, e: &Experts) -> Timed {
        self.roofline(Unit::Product(e.format), e.flops(), e.bytes())
    }

    fn collective(&self, c: Collective) -> Timed {
        let bandwidth = if c.ranks <= self.gpu.gpus_per_node {
            self.gpu.intra_node_bandwidth()
        } else {
            self.gpu.nic_bandwidth
        };
        Timed::unmeasured(
            self.efficiency.collective_seconds
                + c.bytes * c.kind.traffic(c.ranks) / (bandwidth * self.efficiency.link),
        )
    }

    fn dispatch(&self, d: Dispatch) -> Timed {
        Timed::unmeasured(2.0 * self.collective(d.all_to_all()).seconds)
    }

    fn elementwise(&self, bytes: f64) -> Timed {
        self.roofline(Unit::Memory, 0.0, bytes)
    }

    fn context_knots(&self) -> &[u32] {
        &[]
    }

    fn datasheet(&self) -> &Datasheet {
        self
    }
}

impl Formats {
    /// Checks that the GPU can compute with such weights.
    ///
    /// # Errors
    /// When it lacks the peak: names the formats it has.
    pub fn check(&self, gpu: &GpuSpec) -> Result<(), LatencyError> {
        match compute_precision(self.weights) {
            Some(p) if gpu.peaks.at(p).is_none() => Err(LatencyError::NoPeak {
                gpu: gpu.name.clone(),
                format: self.weights.name(),
                precision: p.name(),
                known: WeightDtype::ALL
                    .into_iter()
                    .filter(|w| compute_precision(*w).is_none_or(|p| gpu.peaks.at(p).is_some()))
                    .map(WeightDtype::name)
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
            _ => Ok(()),
        }
    }
}

/// Step times of a model on a GPU from the data sheet alone.
///
/// # Errors
/// When the model cannot be cut so, the GPU cannot compute in the format, or an efficiency is impossible.
pub fn roofline(
    model: &ModelSpec,
    gpu: &GpuSpec,
    parallelism: Parallelism,
    formats: Formats,
    efficiency: Efficiency,
    overhead: Overhead,
) -> Result<Composed<Datasheet>, LatencyError> {
    formats.check(gpu)?;
    let kernels = Datasheet::new(gpu.clone(), efficiency)?;
    Composed::new(model, kernels, parallelism, formats, overhead)
}

#[cfg(test)]
mod tests;
