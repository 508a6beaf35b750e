//! Facts of one GPU type.

use super::file::Provenance;

/// Number format of the tensor cores' inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Precision {
    /// 16-bit brain float (and FP16: the peaks are equal on every GPU here).
    Bf16,
    /// 8-bit float.
    Fp8,
    /// 8-bit integer.
    Int8,
    /// 4-bit float.
    Fp4,
}

impl Precision {
    /// The name used in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
            Self::Fp4 => "fp4",
        }
    }
}

/// Dense tensor-core peaks in FLOP/s (integer operations count as FLOP).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peaks {
    /// At 16 bits.
    pub bf16: f64,
    /// At FP8, where the GPU has it.
    pub fp8: Option<f64>,
    /// At INT8, where the GPU has it.
    pub int8: Option<f64>,
    /// At FP4, where the GPU has it.
    pub fp4: Option<f64>,
}

impl Peaks {
    /// The peak at a precision in FLOP/s, `None` where the GPU lacks it.
    #[must_use]
    pub const fn at(&self, precision: Precision) -> Option<f64> {
        match precision {
            Precision::Bf16 => Some(self.bf16),
            Precision::Fp8 => self.fp8,
            Precision::Int8 => self.int8,
            Precision::Fp4 => self.fp4,
        }
    }
}

/// One GPU type.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuSpec {
    /// Name as in scenarios: `a100-80g-sxm`.
    pub name: String,
    /// Architecture family, lower case: `hopper`.
    pub architecture: String,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Peak memory bandwidth in bytes per second.
    pub memory_bandwidth: f64,
    /// Tensor-core peaks.
    pub peaks: Peaks,
    /// NVLink (or its like) per GPU and direction in bytes per second, `None` without.
    pub nvlink_bandwidth: Option<f64>,
    /// PCIe per GPU and direction in bytes per second.
    pub pcie_bandwidth: f64,
    /// Network card per GPU and direction in bytes per second.
    pub nic_bandwidth: f64,
    /// GPUs of a node, the reach of NVLink.
    pub gpus_per_node: u32,
    /// Board power limit in watts.
    pub power_w: f64,
    /// Price per GPU-hour in US dollars, where the profile states one.
    pub price_per_hour_usd: Option<f64>,
    /// Where the profile's times come from.
    pub provenance: Provenance,
    /// Who says so.
    pub source: String,
}

impl GpuSpec {
    /// Bandwidth of the links inside a node in bytes per second and direction: NVLink, else PCIe.
    #[must_use]
    pub fn intra_node_bandwidth(&self) -> f64 {
        self.nvlink_bandwidth.unwrap_or(self.pcie_bandwidth)
    }
}
