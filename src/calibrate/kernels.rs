//! The CUDA sources and the ways they are compiled.

use crate::model::KvDtype;

const PRELUDE: &str = include_str!("../../calibrate/kernels/prelude.cuh");

/// A source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Source {
    Memory,
    Elementwise,
    Decode,
    Prefill,
    Matmul,
    Collective,
}

impl Source {
    const fn file(self) -> &'static str {
        match self {
            Self::Memory => "memory.cu",
            Self::Elementwise => "elementwise.cu",
            Self::Decode => "decode_attention.cu",
            Self::Prefill => "prefill_attention.cu",
            Self::Matmul => "matmul.cu",
            Self::Collective => "collective.cu",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Memory => include_str!("../../calibrate/kernels/memory.cu"),
            Self::Elementwise => include_str!("../../calibrate/kernels/elementwise.cu"),
            Self::Decode => include_str!("../../calibrate/kernels/decode_attention.cu"),
            Self::Prefill => include_str!("../../calibrate/kernels/prefill_attention.cu"),
            Self::Matmul => include_str!("../../calibrate/kernels/matmul.cu"),
            Self::Collective => include_str!("../../calibrate/kernels/collective.cu"),
        }
    }

    const fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["stream_read", "nothing", "fill_bf16", "fill_e4m3"],
            Self::Elementwise => &["rms_norm", "silu_mul", "rotary"],
            Self::Decode => &["decode_attention", "decode_attention_join"],
            Self::Prefill => &["prefill_attention"],
            Self::Matmul => &["matmul"],
            Self::Collective => &["all_reduce_one_shot", "all_reduce_two_shot"],
        }
    }
}

/// The tile of the matrix product kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tile {
    /// 128 × 128, for many rows.
    Large,
    /// 16 × 64, for few.
    Small,
}

impl Tile {
    /// Rows and columns of the output that a block works out.
    #[must_use]
    pub const fn size(self) -> (u32, u32) {
        match self {
            Self::Large => (128, 128),
            Self::Small => (16, 64),
        }
    }

    /// Warps along rows and columns, stages of shared memory.
    pub(super) const fn layout(self) -> (u32, u32, u32) {
        match self {
            Self::Large => (2, 4, 3),
            Self::Small => (1, 4, 4),
        }
    }
}

/// One compilation of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// Reads, fills and nothing.
    Memory,
    /// Norm, activation, rotary.
    Elementwise,
    /// Decode attention for a head size and a KV format.
    Decode {
        /// 64 or 128.
        head_dim: u32,
        /// bf16 or fp8.
        kv: KvDtype,
    },
    /// Prefill attention for a head size.
    Prefill {
        /// 64 or 128.
        head_dim: u32,
    },
    /// Matrix product.
    Matmul(Tile),
    /// All-reduce.
    Collective,
}

impl Variant {
    /// Every variant there is.
    pub const ALL: [Self; 11] = [
        Self::Memory,
        Self::Elementwise,
        Self::Decode {
            head_dim: 64,
            kv: KvDtype::Bf16,
        },
        Self::Decode {
            head_dim: 64,
            kv: KvDtype::Fp8,
        },
        Self::Decode {
            head_dim: 128,
            kv: KvDtype::Bf16,
        },
        Self::Decode {
            head_dim: 128,
            kv: KvDtype::Fp8,
        },
        Self::Prefill { head_dim: 64 },
        Self::Prefill { head_dim: 128 },
        Self::Matmul(Tile::Large),
        Self::Matmul(Tile::Small),
        Self::Collective,
    ];

    const fn source(self) -> Source {
        match self {
            Self::Memory => Source::Memory,
            Self::Elementwise => Source::Elementwise,
            Self::Decode { .. } => Source::Decode,
            Self::Prefill { .. } => Source::Prefill,
            Self::Matmul(_) => Source::Matmul,
            Self::Collective => Source::Collective,
        }
    }

    /// The file the kernels stand in.
    #[must_use]
    pub const fn file(self) -> &'static str {
        self.source().file()
    }

    /// The whole text to compile.
    #[must_use]
    pub fn text(self) -> String {
        format!(
            "{PRELUDE}\n#line 1 \"{}\"\n{}",
            self.file(),
            self.source().text()
        )
    }

    /// The kernels in it.
    #[must_use]
    pub const fn functions(self) -> &'static [&'static str] {
        self.source().functions()
    }

    /// Macros it is compiled with.
    #[must_use]
    pub fn defines(self) -> Vec<(&'static str, u32)> {
        match self {
            Self::Memory | Self::Elementwise | Self::Collective => Vec::new(),
            Self::Decode { head_dim, kv } => {
                vec![
                    ("HEAD_DIM", head_dim),
                    ("KV_FP8", u32::from(kv != KvDtype::Bf16)),
                ]
            }
            Self::Prefill { head_dim } => vec![("HEAD_DIM", head_dim)],
            Self::Matmul(tile) => {
                let (rows, columns) = tile.size();
                let (warp_rows, warp_columns, stages) = tile.layout();
                vec![
                    ("TILE_M", rows),
                    ("TILE_N", columns),
                    ("WARPS_M", warp_rows),
                    ("WARPS_N", warp_columns),
                    ("STAGES", stages),
                ]
            }
        }
    }

    /// A name for messages: the file and its macros.
    #[must_use]
    pub fn label(self) -> String {
        let macros: Vec<String> = self
            .defines()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if macros.is_empty() {
            self.file().to_owned()
        } else {
            format!("{} {}", self.file(), macros.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_named_stands_in_its_source_and_the_other_way_round() {
        for variant in Variant::ALL {
            let text = variant.source().text();
            let declared = text.matches("KERNEL(").count();
            assert_eq!(declared, variant.functions().len(), "{}", variant.label());
            for function in variant.functions() {
                assert!(text.contains(&format!("{function}(")), "{function}");
            }
        }
    }

    #[test]
    fn sources_need_no_headers_and_keep_ptx_in_the_prelude() {
        for variant in Variant::ALL {
            assert!(
                !variant
                    .text()
                    .lines()
                    .any(|l| l.trim_start().starts_with("#include"))
            );
            assert!(
                !variant.source().text().contains("asm"),
                "{}",
                variant.file()
            );
        }
    }
}
