//! What a device must be able to do to be measured.

use super::program::Program;
use super::work::Work;

/// Facts about the GPU being measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuFacts {
    /// Name as the driver gives it.
    pub name: String,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Device memory nobody uses, in bytes.
    pub free_bytes: u64,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Level-2 cache in bytes.
    pub l2_bytes: u64,
    /// CUDA version of the driver, as 1000 · major + 10 · minor.
    pub driver_cuda: u32,
    /// Whether the vendor's matrix library could be loaded.
    pub library: bool,
    /// GPUs of the group that reach each other's memory, this one included.
    pub gpus: u32,
}

impl GpuFacts {
    /// Whether the chip has 8-bit floating-point matrix units.
    #[must_use]
    pub const fn has_fp8(&self) -> bool {
        self.capability.0 > 8 || (self.capability.0 == 8 && self.capability.1 >= 9)
    }

    /// Whether our tensor-core kernels run on it.
    #[must_use]
    pub const fn runs_kernels(&self) -> bool {
        self.capability.0 >= 8
    }
}

/// Why a point could not be measured.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    /// It does not fit.
    #[error("needs {} MiB of device memory, {} are free", needed_bytes.div_ceil(1 << 20), free_bytes >> 20)]
    OutOfMemory {
        /// Bytes the point needs.
        needed_bytes: u64,
        /// Bytes there are.
        free_bytes: u64,
    },
    /// It took too long but ended; the device can go on.
    #[error("a launch took longer than {limit_s} s")]
    Slow {
        /// The limit in seconds.
        limit_s: f64,
    },
    /// It did not end; nothing more can be measured by this process.
    #[error("a launch did not end within {limit_s} s and still runs")]
    Stuck {
        /// The limit in seconds.
        limit_s: f64,
    },
    /// The device or its libraries cannot do this; others points may do.
    #[error("{0}")]
    Unsupported(String),
    /// The driver refused.
    #[error("{call} failed: {reason}")]
    Driver {
        /// What was asked of it.
        call: &'static str,
        /// Its answer.
        reason: String,
    },
}

impl DeviceError {
    /// Whether later points may still be measured.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        matches!(
            self,
            Self::OutOfMemory { .. } | Self::Slow { .. } | Self::Unsupported(_)
        )
    }
}

/// A GPU, or what stands in for one.
///
/// Contract: one program is loaded at a time; `replay` starts all its rounds `times` times, back to back and in order,
/// and waits for the end. Buffers keep their contents between replays.
pub trait Device {
    /// Facts, as of the opening.
    fn facts(&self) -> &GpuFacts;

    /// Makes `program` ready to run, replacing the one before.
    ///
    /// # Errors
    /// When it does not fit, cannot be compiled or the driver refuses.
    fn load(&mut self, work: &Work, program: &Program) -> Result<(), DeviceError>;

    /// Runs all rounds `times` times; returns the seconds from the start of the first launch to the end of the last, by
    /// the device's own clock.
    ///
    /// # Errors
    /// When a launch fails or does not end in time.
    fn replay(&mut self, times: u32) -> Result<f64, DeviceError>;

    /// The contents of a buffer of the loaded program.
    ///
    /// # Errors
    /// When the driver refuses.
    fn read(&mut self, buffer: usize) -> Result<Vec<u8>, DeviceError>;
}
