//! A point as a device runs it: buffers, their contents, rounds of launches.

use super::launch::Launch;
use super::work::GemmDtype;

/// Where a buffer lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Memory of a GPU of the group; 0 is the one being measured.
    Gpu(usize),
    /// Pinned host memory.
    Host,
}

/// What a buffer holds before the first round.
#[derive(Debug, Clone, PartialEq)]
pub enum Fill {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Whatever is there; only for what is written before it is read.
    Nothing,
    /// Zeros; for counters, never for data.
    Zeros,
    /// bf16 spread over ±`scale`.
    RandomBf16 {
        /// Largest magnitude.
        scale: f32,
    },
    /// e4m3 of magnitudes from 1/8 to 2.
    RandomE4m3,
    /// Device addresses of other buffers (by index), 8 bytes each.
    Addresses(Vec<usize>),
}

/// One allocation.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Where.
    pub place: Place,
    /// Size in bytes, at least 16.
    pub bytes: u64,
    /// Contents.
    pub fill: Fill,
}

impl Buffer {
    /// A buffer on the measured GPU.
    #[must_use]
    pub const fn new(bytes: u64, fill: Fill) -> Self {
        Self {
            place: Place::Gpu(0),
            bytes,
            fill,
        }
    }

    /// A buffer with these contents on the measured GPU.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Self::new(bytes.len().max(16) as u64, Fill::Bytes(bytes))
    }
}

/// A matrix product by the vendor's library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatrixProduct {
    /// Format of the inputs.
    pub dtype: GemmDtype,
    /// Rows.
    pub m: u32,
    /// Output columns.
    pub n: u32,
    /// Inner size.
    pub k: u32,
    /// Buffer and byte offset of `a`, `w` and `c`.
    pub operands: [(usize, u64); 3],
}

/// One thing to start.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A kernel of ours.
    Kernel(Launch),
    /// The vendor's matrix product.
    Library(MatrixProduct),
    /// A copy between buffers, whole bytes from given offsets.
    Copy {
        /// Buffer and byte offset to read.
        from: (usize, u64),
        /// Buffer and byte offset to write.
        to: (usize, u64),
        /// Bytes.
        bytes: u64,
    },
}

/// What one repetition of the work starts, with the GPU each step runs on.
pub type Round = Vec<(usize, Step)>;

/// How rounds are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Recorded once as a graph, launched as a whole: launch costs hide.
    Graph,
    /// Started one by one.
    Stream,
}

/// A point as a device runs it. Rounds follow each other on other parts of the buffers, so that what one leaves in the
/// cache does not serve the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Allocations.
    pub buffers: Vec<Buffer>,
    /// Repetitions of the work.
    pub rounds: Vec<Round>,
    /// How they are started.
    pub mode: Mode,
    /// The buffer with the result, where there is one.
    pub output: Option<usize>,
}

impl Program {
    /// Bytes on the measured GPU.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        let on_gpu = |b: &&Buffer| b.place == Place::Gpu(0);
        self.buffers.iter().filter(on_gpu).map(|b| b.bytes).sum()
    }
}
