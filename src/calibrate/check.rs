//! Holds every kernel against its CPU reference before anything is timed.

use rand::RngExt;

use super::build::{Target, build};
use super::device::{Device, DeviceError, GpuFacts};
use super::float::{bf16_from_f32, bf16s, floats, halves};
use super::program::{Fill, Program};
use super::reference::{exclusive_or, reference};
use super::work::{
    Collective, Copy, CopyKind, Decode, Elementwise, ElementwiseOp, Gemm, GemmDtype, Kind, Prefill,
    Work,
};
use crate::model::KvDtype;
use crate::rng;

/// A small piece of work with its inputs and the right answer.
#[derive(Debug, Clone)]
pub struct Case {
    /// The work.
    pub work: Work,
    /// The program, one round, every input given as bytes.
    pub program: Program,
    /// The right output.
    pub expected: Vec<f32>,
    /// Largest relative error allowed.
    pub tolerance: f64,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The work checked.
    pub work: Work,
    /// ‖answer − reference‖ / ‖reference‖.
    pub relative_error: f64,
    /// The largest allowed.
    pub tolerance: f64,
    /// Why the check could not be made, where it could not.
    pub failure: Option<DeviceError>,
}

impl Verdict {
    /// Whether the kernel is right.
    #[must_use]
    pub fn right(&self) -> bool {
        // A NaN error is not right.
        self.failure.is_none() && self.relative_error <= self.tolerance
    }
}

/// Rounding of the output to bf16 alone gives about 2⁻⁹/√3 = 0.0011; weights rounded to bf16 before the second product
/// of attention give as much again. A wrong index gives errors near 1.
const TOLERANCE: f64 = 0.008;

impl Case {
    /// Makes inputs and the right answer for `work`.
    ///
    /// # Errors
    /// When no program can be built.
    pub fn new(work: Work, target: &Target) -> Result<Self, DeviceError> {
        let mut program = build(
            &work,
            &Target {
                single: true,
                ..target.clone()
            },
        )?;
        let mut random = rng::stream(7, "kernel checks");
        for buffer in &mut program.buffers {
            let data = match &buffer.fill {
                Fill::RandomBf16 { scale } => (0..buffer.bytes / 2)
                    .flat_map(|_| {
                        bf16_from_f32(random.random_range(-1.0..1.0f32) * scale).to_le_bytes()
                    })
                    .collect(),
                Fill::RandomE4m3 => (0..buffer.bytes)
                    .map(|_| (random.random::<u8>() & 0x87) | (random.random_range(4..8u8) << 3))
                    .collect(),
                Fill::Nothing | Fill::Zeros | Fill::Bytes(_) | Fill::Addresses(_) => continue,
            };
            buffer.fill = Fill::Bytes(data);
        }
        let expected = reference(&work, &host_contents(&program));
        Ok(Self {
            work,
            program,
            expected,
            tolerance: if matches!(work, Work::Copy(_)) {
                0.0
            } else {
                TOLERANCE
            },
        })
    }

    /// Reads the output buffer of the work.
    #[must_use]
    pub fn answer(&self, bytes: &[u8]) -> Vec<f32> {
        match self.work {
            Work::Gemm(Gemm {
                dtype: GemmDtype::Fp16,
                ..
            }) => halves(bytes),
            Work::Copy(c) if c.kind == CopyKind::StreamRead => {
                vec![f32::from_bits(exclusive_or(bytes))]
            }
            Work::Copy(_) => floats(bytes),
            _ => bf16s(bytes),
        }
    }

    /// ‖answer − reference‖ / ‖reference‖ of an output buffer; for exact work 0 or 1.
    #[must_use]
    pub fn relative_error(&self, bytes: &[u8]) -> f64 {
        let answer = self.answer(bytes);
        if matches!(self.work, Work::Copy(_)) {
            let same = answer.len() >= self.expected.len()
                && answer
                    .iter()
                    .zip(&self.expected)
                    .all(|(a, e)| a.to_bits() == e.to_bits());
            return if same { 0.0 } else { 1.0 };
        }
        if answer.len() < self.expected.len() {
            return f64::NAN;
        }
        let (mut wrong, mut right) = (0.0, 0.0);
        for (a, e) in answer.iter().zip(&self.expected) {
            wrong += f64::from(a - e).powi(2);
            right += f64::from(*e).powi(2);
        }
        (wrong / right).sqrt()
    }

    /// Runs the work on a device.
    pub fn check(&self, device: &mut dyn Device) -> Verdict {
        let run = |device: &mut dyn Device| {
            device.load(&self.work, &self.program)?;
            device.replay(1)?;
            self.program
                .output
                .map_or_else(|| Ok(Vec::new()), |o| device.read(o))
        };
        let (relative_error, failure) = match run(device) {
            Ok(bytes) => (self.relative_error(&bytes), None),
            Err(e) => (f64::NAN, Some(e)),
        };
        Verdict {
            work: self.work,
            relative_error,
            tolerance: self.tolerance,
            failure,
        }
    }
}

/// The bytes of every buffer before the first round; empty where nothing is given.
#[must_use]
pub fn host_contents(program: &Program) -> Vec<Vec<u8>> {
    let contents = program.buffers.iter().map(|b| match &b.fill {
        Fill::Bytes(bytes) => bytes.clone(),
        _ => Vec::new(),
    });
    contents.collect()
}

/// The work that shows every kernel of ours and the library right or wrong: odd sizes, several splits, pages in
/// disorder, tails.
#[must_use]
pub fn suite(facts: &GpuFacts) -> Vec<Work> {
    let mut works = vec![
        Work::Copy(Copy {
            kind: CopyKind::StreamRead,
            bytes: 65_600 * 16,
        }),
        Work::Copy(Copy {
            kind: CopyKind::Device,
            bytes: 1 << 16,
        }),
        Work::Copy(Copy {
            kind: CopyKind::HostToDevice,
            bytes: 1 << 16,
        }),
        Work::Copy(Copy {
            kind: CopyKind::DeviceToHost,
            bytes: 1 << 16,
        }),
    ];
    let dtypes = gemm_dtypes(facts);
    for (m, n, k) in [(1, 256, 512), (17, 192, 264), (200, 320, 1024)] {
        // 8-bit products want sizes in 16s.
        let whole = |x: u32| x.div_ceil(16) * 16;
        works.extend(dtypes.iter().map(|&dtype| match dtype {
            GemmDtype::Fp8 => Work::Gemm(Gemm {
                dtype,
                m: whole(m),
                n: whole(n),
                k: whole(k),
            }),
            GemmDtype::Bf16 | GemmDtype::Fp16 => Work::Gemm(Gemm { dtype, m, n, k }),
        }));
    }
    if facts.runs_kernels() {
        works.extend(attention_suite());
        works.extend(ElementwiseOp::ALL.map(|op| {
            Work::Elementwise(Elementwise {
                op,
                rows: 5,
                columns: 1280,
            })
        }));
    }
    if facts.gpus > 1 {
        works.push(Work::Copy(Copy {
            kind: CopyKind::Peer,
            bytes: 1 << 16,
        }));
        let ranks = facts.gpus.min(8);
        works.extend([4096, 1 << 20].map(|bytes| {
            Work::Collective(Collective {
                ranks,
                bytes: bytes * u64::from(ranks),
            })
        }));
    }
    works
}

/// The formats of matrix products a GPU can be measured in.
#[must_use]
pub fn gemm_dtypes(facts: &GpuFacts) -> Vec<GemmDtype> {
    match (facts.runs_kernels(), facts.library) {
        (true, true) if facts.has_fp8() => vec![GemmDtype::Bf16, GemmDtype::Fp8],
        (true, _) => vec![GemmDtype::Bf16],
        (false, true) => vec![GemmDtype::Fp16],
        (false, false) => Vec::new(),
    }
}

fn attention_suite() -> Vec<Work> {
    let mut works = Vec::new();
    for head_dim in [64, 128] {
        for kv_dtype in [KvDtype::Bf16, KvDtype::Fp8] {
            for (batch, context_tokens, heads, kv_heads) in [
                (1, 1, 1, 1),
                (2, 333, 8, 2),
                (1, 130, 16, 1),
                (3, 1024, 4, 4),
            ] {
                works.push(Work::Decode(Decode {
                    kv_dtype,
                    batch,
                    context_tokens,
                    heads,
                    kv_heads,
                    head_dim,
                }));
            }
        }
        for (batch, new_tokens, past_tokens, heads, kv_heads) in [
            (1, 1, 0, 1, 1),
            (2, 150, 0, 4, 2),
            (1, 129, 77, 2, 1),
            (1, 64, 128, 2, 2),
        ] {
            works.push(Work::Prefill(Prefill {
                batch,
                new_tokens,
                past_tokens,
                heads,
                kv_heads,
                head_dim,
            }));
        }
    }
    works
}

/// Which samples a wrong kernel makes worthless.
#[must_use]
pub fn refused(verdicts: &[Verdict]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = verdicts
        .iter()
        .filter(|v| !v.right())
        .map(|v| v.work.kind())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Runs the whole suite.
pub fn check_all(device: &mut dyn Device, target: &Target) -> Vec<Verdict> {
    let works = suite(device.facts());
    let verdict = |work| match Case::new(work, target) {
        Ok(case) => case.check(device),
        Err(failure) => Verdict {
            work,
            relative_error: f64::NAN,
            tolerance: TOLERANCE,
            failure: Some(failure),
        },
    };
    works.into_iter().map(verdict).collect()
}
