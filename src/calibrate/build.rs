//! Turns a point into a program.
//!
//! Buffers come in a fixed order per kind of work, which `reference` relies on:
//!
//! | work | buffers |
//! |---|---|
//! | gemm | a, w, c |
//! | prefill | q, k, v, table, out |
//! | decode | q, k, v, table, contexts, out, partial, partial sums |
//! | `rms_norm` | x, residual, weight, out |
//! | `silu_mul` | x, out |
//! | rotary | x, angles, positions |
//! | copies | from, to |
//! | collective | of each rank: data, scratch, flags, out; then the peers tables |

mod attention;
mod multi;

use super::device::{DeviceError, GpuFacts};
use super::launch;
use super::program::{Buffer, Fill, MatrixProduct, Mode, Place, Program, Round, Step};
use super::work::{Copy, CopyKind, Elementwise, ElementwiseOp, Gemm, GemmDtype, LaunchKind, Work};

/// Most rounds of a program.
const MOST_ROUNDS: u64 = 256;
/// Fewest rounds of short work, so that the launch of the graph itself hardly counts.
const SHORT_ROUNDS: u64 = 32;
/// Head size of the rotary kernel.
const ROTARY_HEAD: u32 = 128;

/// What a program is built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Level-2 cache in bytes; rounds use other data until twice this much has gone by.
    pub l2_bytes: u64,
    /// Device memory a program may use, in bytes.
    pub budget_bytes: u64,
    /// Whether matrix products go through the vendor's library.
    pub library: bool,
    /// One round only, for checks.
    pub single: bool,
}

impl Target {
    /// A target with the facts of a GPU, leaving a tenth of its free memory alone.
    #[must_use]
    pub const fn of(facts: &GpuFacts) -> Self {
        Self {
            multiprocessors: facts.multiprocessors,
            l2_bytes: facts.l2_bytes,
            budget_bytes: facts.free_bytes / 10 * 9,
            library: facts.library,
            single: false,
        }
    }

    /// How many sets of operands of `bytes` each to hold.
    fn sets(&self, bytes: u64) -> Result<u64, DeviceError> {
        let bytes = bytes.max(1);
        let fitting = self.budget_bytes / bytes;
        if fitting == 0 {
            return Err(DeviceError::OutOfMemory {
                needed_bytes: bytes,
                free_bytes: self.budget_bytes,
            });
        }
        let wanted = if self.single {
            1
        } else {
            (2 * self.l2_bytes).div_ceil(bytes) + 1
        };
        Ok(wanted.min(MOST_ROUNDS).min(fitting))
    }

    /// How many rounds to run on so many sets.
    fn rounds(&self, sets: u64, work: &Work) -> u64 {
        let short = work.bytes() < 64e6 && work.flops() < 2e10;
        if self.single {
            1
        } else if short {
            sets.max(SHORT_ROUNDS)
        } else {
            sets.max(2)
        }
    }
}

/// Rounds up to what device allocations are aligned to.
const fn aligned(bytes: u64) -> u64 {
    bytes.div_ceil(256) * 256
}

/// Builds the program of a point.
///
/// # Errors
/// When not even one set of operands fits, or nothing on this target can do the work.
pub fn build(work: &Work, target: &Target) -> Result<Program, DeviceError> {
    match work {
        Work::Gemm(g) => gemm(work, g, target),
        Work::Prefill(p) => attention::prefill(work, p, target),
        Work::Decode(d) => attention::decode(work, d, target),
        Work::Elementwise(e) => elementwise(work, e, target),
        Work::Launch(kind) => Ok(launches(*kind)),
        Work::Copy(c) => copy(work, c, target),
        Work::Collective(c) => Ok(multi::all_reduce(c, target)),
    }
}

/// Buffers whose parts take turns: operand `i` of round `r` lies in buffer `i` at `(r % sets) · size`.
struct Turns {
    sizes: Vec<u64>,
    sets: u64,
    rounds: u64,
}

impl Turns {
    fn new(work: &Work, target: &Target, sizes: &[u64]) -> Result<Self, DeviceError> {
        let sizes: Vec<u64> = sizes.iter().copied().map(aligned).collect();
        let sets = target.sets(sizes.iter().sum())?;
        Ok(Self {
            sizes,
            sets,
            rounds: target.rounds(sets, work),
        })
    }

    fn buffer(&self, operand: usize, fill: Fill) -> Buffer {
        Buffer::new(self.sizes[operand] * self.sets, fill)
    }

    fn at(&self, operand: usize, round: u64) -> (usize, u64) {
        (operand, round % self.sets * self.sizes[operand])
    }

    fn rounds(&self, mut step: impl FnMut(u64) -> Step) -> Vec<Round> {
        (0..self.rounds).map(|r| vec![(0, step(r))]).collect()
    }
}

fn gemm(work: &Work, g: &Gemm, target: &Target) -> Result<Program, DeviceError> {
    let (m, n, k) = (u64::from(g.m), u64::from(g.n), u64::from(g.k));
    let element = g.dtype.bytes();
    if !target.library && g.dtype != GemmDtype::Bf16 {
        return Err(DeviceError::Unsupported(format!(
            "{} products need cuBLASLt, which was not found",
            g.dtype.name()
        )));
    }
    let turns = Turns::new(work, target, &[element * m * k, element * n * k, 2 * m * n])?;
    let random = || match g.dtype {
        GemmDtype::Fp8 => Fill::RandomE4m3,
        // Read as halves, bf16 of up to 1 have magnitudes up to 1.88.
        GemmDtype::Bf16 | GemmDtype::Fp16 => Fill::RandomBf16 { scale: 1.0 },
    };
    let rounds = turns.rounds(|r| {
        let operands = [turns.at(0, r), turns.at(1, r), turns.at(2, r)];
        if target.library {
            Step::Library(MatrixProduct {
                dtype: g.dtype,
                m: g.m,
                n: g.n,
                k: g.k,
                operands,
            })
        } else {
            Step::Kernel(launch::matmul(launch::tile(g.m), [g.m, g.n, g.k], operands))
        }
    });
    Ok(Program {
        buffers: vec![
            turns.buffer(0, random()),
            turns.buffer(1, random()),
            turns.buffer(2, Fill::Nothing),
        ],
        rounds,
        mode: Mode::Graph,
        output: Some(2),
    })
}

fn random() -> Fill {
    Fill::RandomBf16 { scale: 1.0 }
}

fn elementwise(work: &Work, e: &Elementwise, target: &Target) -> Result<Program, DeviceError> {
    let row_bytes = 2 * u64::from(e.columns);
    let all = u64::from(e.rows) * row_bytes;
    let (turns, buffers, output) = match e.op {
        ElementwiseOp::RmsNorm => {
            let turns = Turns::new(work, target, &[all, all, row_bytes, all])?;
            let mut buffers: Vec<Buffer> = (0..3).map(|i| turns.buffer(i, random())).collect();
            buffers.push(turns.buffer(3, Fill::Nothing));
            (turns, buffers, 3)
        }
        ElementwiseOp::SiluMul => {
            let turns = Turns::new(work, target, &[2 * all, all])?;
            let buffers = vec![turns.buffer(0, random()), turns.buffer(1, Fill::Nothing)];
            (turns, buffers, 1)
        }
        ElementwiseOp::Rotary => {
            let angles = rotary_angles(e.rows);
            let positions: Vec<u8> = (0..e.rows).flat_map(u32::to_le_bytes).collect();
            let turns = Turns::new(work, target, &[all])?;
            let buffers = vec![
                turns.buffer(0, random()),
                Buffer::of(angles),
                Buffer::of(positions),
            ];
            (turns, buffers, 0)
        }
    };
    let rounds = turns.rounds(|r| {
        Step::Kernel(match e.op {
            ElementwiseOp::RmsNorm => {
                launch::rms_norm(e.rows, e.columns, [0, 1, 2, 3].map(|i| turns.at(i, r)))
            }
            ElementwiseOp::SiluMul => {
                launch::silu_mul(e.rows, e.columns, [0, 1].map(|i| turns.at(i, r)))
            }
            ElementwiseOp::Rotary => launch::rotary(
                e.rows,
                e.columns / ROTARY_HEAD,
                ROTARY_HEAD / 2,
                [turns.at(0, r), (1, 0), (2, 0)],
            ),
        })
    });
    Ok(Program {
        buffers,
        rounds,
        mode: Mode::Graph,
        output: Some(output),
    })
}

/// Cosines and sines of the first `positions` positions, base 10,000 (`RoFormer`, arXiv 2104.09864).
fn rotary_angles(positions: u32) -> Vec<u8> {
    let half = ROTARY_HEAD / 2;
    let mut bytes = Vec::new();
    for position in 0..positions {
        let angle = |i: u32| f64::from(position) * 10_000f64.powf(-f64::from(i) / f64::from(half));
        for turn in [f64::cos, f64::sin] {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rounding to float is meant"
            )]
            bytes.extend((0..half).flat_map(|i| (turn(angle(i)) as f32).to_le_bytes()));
        }
    }
    bytes
}

fn launches(kind: LaunchKind) -> Program {
    let nothing = || vec![(0, Step::Kernel(launch::nothing()))];
    let (rounds, mode) = match kind {
        LaunchKind::Kernel => (64, Mode::Stream),
        LaunchKind::Graph => (1, Mode::Graph),
        LaunchKind::GraphNode => (1024, Mode::Graph),
    };
    Program {
        buffers: Vec::new(),
        rounds: (0..rounds).map(|_| nothing()).collect(),
        mode,
        output: None,
    }
}

/// Blocks of the streaming read per multiprocessor.
const STREAM_BLOCKS: u32 = 16;

fn copy(work: &Work, c: &Copy, target: &Target) -> Result<Program, DeviceError> {
    // A check reads little: few blocks, so that each thread has several turns.
    let blocks = if target.single {
        STREAM_BLOCKS
    } else {
        STREAM_BLOCKS * target.multiprocessors
    };
    let result = if c.kind == CopyKind::StreamRead {
        4 * launch::stream_words(blocks)
    } else {
        c.bytes
    };
    let turns = Turns::new(work, target, &[c.bytes, result])?;
    let mut from = turns.buffer(0, random());
    let mut to = turns.buffer(1, Fill::Nothing);
    match c.kind {
        CopyKind::Device | CopyKind::StreamRead => {}
        CopyKind::HostToDevice => from.place = Place::Host,
        CopyKind::DeviceToHost => to.place = Place::Host,
        CopyKind::Peer => to.place = Place::Gpu(1),
    }
    let rounds = turns.rounds(|r| {
        let (from, to) = (turns.at(0, r), turns.at(1, r));
        if c.kind == CopyKind::StreamRead {
            Step::Kernel(launch::stream_read(blocks, from, to, c.bytes))
        } else {
            Step::Copy {
                from,
                to,
                bytes: c.bytes,
            }
        }
    });
    Ok(Program {
        buffers: vec![from, to],
        rounds,
        mode: Mode::Graph,
        output: Some(1),
    })
}

#[cfg(test)]
mod tests;
