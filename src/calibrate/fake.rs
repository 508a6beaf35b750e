//! A device with known parameters, for tests of everything above it.

use rand::RngExt;

use super::check::host_contents;
use super::device::{Device, DeviceError, GpuFacts};
use super::float::bf16_from_f32;
use super::program::{Fill, Program};
use super::reference::reference;
use super::work::{CopyKind, GemmDtype, Kind, LaunchKind, Work};
use crate::rng::{self, Rng};

/// What a fake device takes for everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameters {
    /// Matrix products at 16 bits, in FLOP/s.
    pub gemm_flops: f64,
    /// Matrix products at 8 bits, in FLOP/s.
    pub gemm_fp8_flops: f64,
    /// Attention, in FLOP/s.
    pub attention_flops: f64,
    /// Memory, in bytes per second.
    pub memory: f64,
    /// KV cache reads, in bytes per second.
    pub kv_read: f64,
    /// Links to the host and to other GPUs, in bytes per second.
    pub link: f64,
    /// Fixed time of every kernel, in seconds.
    pub kernel_s: f64,
    /// Launch of a kernel, in seconds.
    pub launch_s: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            gemm_flops: 700e12,
            gemm_fp8_flops: 1300e12,
            attention_flops: 380e12,
            memory: 4.2e12,
            kv_read: 3.9e12,
            link: 50e9,
            kernel_s: 3e-6,
            launch_s: 2.5e-6,
        }
    }
}

/// A device that answers rightly and takes `kernel + max(FLOP / rate, bytes / rate)`.
#[derive(Debug)]
pub struct Fake {
    /// Facts it states.
    pub facts: GpuFacts,
    /// Its rates.
    pub parameters: Parameters,
    /// Relative standard deviation of a replay, about.
    pub noise: f64,
    /// Share of replays that take twice as long.
    pub outliers: f64,
    /// A kind whose answers are wrong.
    pub wrong: Option<Kind>,
    /// What happens to some loads.
    pub fault: Option<fn(&Work) -> Option<DeviceError>>,
    /// Loads so far.
    pub loads: usize,
    loaded: Option<(Work, Program)>,
    random: Rng,
}

impl Default for Fake {
    fn default() -> Self {
        Self::new()
    }
}

impl Fake {
    /// A steady device of the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self {
            facts: GpuFacts {
                name: "Fake 80GB".to_owned(),
                memory_bytes: 80 << 30,
                free_bytes: 79 << 30,
                capability: (9, 0),
                multiprocessors: 132,
                l2_bytes: 50 << 20,
                driver_cuda: 13_000,
                library: true,
                gpus: 1,
            },
            parameters: Parameters::default(),
            noise: 0.0,
            outliers: 0.0,
            wrong: None,
            fault: None,
            loads: 0,
            loaded: None,
            random: rng::stream(3, "fake device"),
        }
    }

    /// The true time of one round.
    #[must_use]
    pub fn seconds(&self, work: &Work) -> f64 {
        let p = &self.parameters;
        let kernel =
            |flops: f64, bytes: f64| p.kernel_s + (work.flops() / flops).max(work.bytes() / bytes);
        match work {
            Work::Gemm(g) if g.dtype == GemmDtype::Fp8 => kernel(p.gemm_fp8_flops, p.memory),
            Work::Gemm(_) | Work::Elementwise(_) => kernel(p.gemm_flops, p.memory),
            Work::Prefill(_) => kernel(p.attention_flops, p.memory),
            Work::Decode(_) => kernel(p.attention_flops, p.kv_read),
            Work::Launch(LaunchKind::GraphNode) => p.launch_s / 2.0,
            Work::Launch(_) => p.launch_s,
            Work::Copy(c) => match c.kind {
                CopyKind::Device | CopyKind::StreamRead => kernel(1.0, p.memory),
                CopyKind::HostToDevice | CopyKind::DeviceToHost | CopyKind::Peer => {
                    kernel(1.0, p.link)
                }
            },
            Work::Collective(c) => {
                let ranks = f64::from(c.ranks);
                4.0 * p.kernel_s + work.bytes() * 2.0 * (ranks - 1.0) / ranks / p.link
            }
        }
    }
}

fn not_loaded() -> DeviceError {
    DeviceError::Driver {
        call: "replay",
        reason: "no program is loaded".to_owned(),
    }
}

impl Device for Fake {
    fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    fn load(&mut self, work: &Work, program: &Program) -> Result<(), DeviceError> {
        self.loads += 1;
        if let Some(error) = self.fault.and_then(|f| f(work)) {
            return Err(error);
        }
        let (needed_bytes, free_bytes) = (program.device_bytes(), self.facts.free_bytes);
        if needed_bytes > free_bytes {
            return Err(DeviceError::OutOfMemory {
                needed_bytes,
                free_bytes,
            });
        }
        self.loaded = Some((*work, program.clone()));
        Ok(())
    }

    fn replay(&mut self, times: u32) -> Result<f64, DeviceError> {
        let (work, program) = self.loaded.as_ref().ok_or_else(not_loaded)?;
        let rounds = f64::from(times) * program.rounds.len() as f64;
        // The sum of twelve even draws is near enough to a normal one.
        let draws: f64 = (0..12).map(|_| self.random.random::<f64>()).sum();
        let noise = (1.0 + self.noise * (draws - 6.0)).max(0.1);
        let outlier = if self.random.random::<f64>() < self.outliers {
            2.0
        } else {
            1.0
        };
        Ok(self.seconds(work) * rounds * noise * outlier)
    }

    fn read(&mut self, _buffer: usize) -> Result<Vec<u8>, DeviceError> {
        let (work, program) = self.loaded.as_ref().ok_or_else(not_loaded)?;
        let given = program
            .buffers
            .iter()
            .any(|b| matches!(b.fill, Fill::Bytes(_)));
        let mut answer = if given {
            reference(work, &host_contents(program))
        } else {
            Vec::new()
        };
        if self.wrong == Some(work.kind())
            && let Some(first) = answer.first_mut()
        {
            *first = 1000.0 - *first;
        }
        Ok(match work {
            Work::Copy(_) => answer
                .iter()
                .flat_map(|x| x.to_bits().to_le_bytes())
                .collect(),
            _ => answer
                .iter()
                .flat_map(|x| bf16_from_f32(*x).to_le_bytes())
                .collect(),
        })
    }
}
