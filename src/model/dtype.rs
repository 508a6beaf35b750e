//! Number formats of weights and of the KV cache.

/// Format of the weights of the linear layers; embeddings, LM head and norms stay at 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WeightDtype {
    /// 16 bits.
    Bf16,
    /// 8-bit float, one scale per tensor.
    Fp8,
    /// 8-bit float, one 32-bit scale per 128 × 128 block (DeepSeek-V3).
    Fp8Block,
    /// 8-bit integer, one scale per row.
    Int8,
    /// 4-bit integer, weight only: groups of 128 with a 16-bit scale and a 4-bit zero point (AWQ, GPTQ).
    Int4,
    /// NVIDIA FP4: groups of 16 with an 8-bit scale.
    Nvfp4,
    /// Microscaling FP4: groups of 32 with an 8-bit scale.
    Mxfp4,
}

impl WeightDtype {
    /// All formats.
    pub const ALL: [Self; 7] = [
        Self::Bf16,
        Self::Fp8,
        Self::Fp8Block,
        Self::Int8,
        Self::Int4,
        Self::Nvfp4,
        Self::Mxfp4,
    ];

    /// The name used in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Fp8Block => "fp8_block",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
            Self::Nvfp4 => "nvfp4",
            Self::Mxfp4 => "mxfp4",
        }
    }

    /// Finds a format by name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes per parameter, scales included.
    #[must_use]
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Bf16 => 2.0,
            Self::Fp8 | Self::Int8 => 1.0,
            Self::Fp8Block => 1.0 + 4.0 / 16384.0,
            Self::Int4 => 0.5 + 2.5 / 128.0,
            Self::Nvfp4 => 0.5 + 1.0 / 16.0,
            Self::Mxfp4 => 0.5 + 1.0 / 32.0,
        }
    }
}

/// Format of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KvDtype {
    /// 16 bits.
    Bf16,
    /// 8-bit float.
    Fp8,
    /// 8-bit integer.
    Int8,
}

impl KvDtype {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Bf16, Self::Fp8, Self::Int8];

    /// The name used in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::Int8 => "int8",
        }
    }

    /// Finds a format by name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes per element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Bf16 => 2,
            Self::Fp8 | Self::Int8 => 1,
        }
    }
}
