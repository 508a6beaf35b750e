//! One GPU: facts, context, stream, memory, compiled kernels.

use std::collections::BTreeMap;
use std::ffi::c_int;

use cudarc::driver::{result, sys};

use super::compile::{CompileError, compile};
use super::driver::{self, Memory, failed};
use super::libraries::{Missing, probe_driver};
use crate::calibrate::device::DeviceError;
use crate::calibrate::kernels::Variant;
use crate::calibrate::launch::Launch;

/// A GPU as `--list` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Index for `--gpu`.
    pub index: usize,
    /// Name as the driver gives it.
    pub name: String,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// CUDA version of the driver, as 1000 · major + 10 · minor.
    pub driver_cuda: u32,
    /// UUID as `nvidia-smi` writes it; of an instance of a cut GPU: `MIG-…`.
    pub uuid: String,
}

/// All GPUs the driver shows.
///
/// # Errors
/// When there is no driver or no GPU, or the driver is too old.
pub fn list() -> Result<Vec<Listed>, Missing> {
    let count = probe_driver()?;
    let listed = |index| describe(index).map_err(|e| Missing::Gpu(format!("GPU {index}: {e}")));
    (0..count).map(listed).collect()
}

fn handle(index: usize) -> Result<sys::CUdevice, DeviceError> {
    let ordinal = c_int::try_from(index).unwrap_or(c_int::MAX);
    result::device::get(ordinal).map_err(failed("finding a GPU"))
}

fn attribute(device: sys::CUdevice, which: sys::CUdevice_attribute) -> Result<u32, DeviceError> {
    // SAFETY: the handle came from the driver.
    let value = unsafe { result::device::get_attribute(device, which) };
    let value = value.map_err(failed("asking for an attribute"))?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn describe(index: usize) -> Result<Listed, DeviceError> {
    use sys::CUdevice_attribute as Of;
    let device = handle(index)?;
    let mut version = 0;
    // SAFETY: the pointer is valid for one int.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(failed("asking for the version"))?;
    // SAFETY: the handle came from the driver.
    let memory =
        unsafe { result::device::total_mem(device) }.map_err(failed("asking for memory"))?;
    Ok(Listed {
        index,
        name: result::device::get_name(device).map_err(failed("asking for the name"))?,
        memory_bytes: memory as u64,
        capability: (
            attribute(device, Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(device, Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        driver_cuda: u32::try_from(version).unwrap_or(0),
        uuid: uuid(device)?,
    })
}

fn uuid(device: sys::CUdevice) -> Result<String, DeviceError> {
    let mut raw = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the pointer is valid for one UUID. The second version names instances of cut GPUs apart.
    unsafe { sys::cuDeviceGetUuid_v2(&raw mut raw, device) }
        .result()
        .map_err(failed("asking for the UUID"))?;
    let hex: String = raw.bytes.iter().map(|b| format!("{b:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    Ok(format!("GPU-{}", parts.join("-")))
}

/// A GPU opened for work.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) listed: Listed,
    pub(super) multiprocessors: u32,
    pub(super) l2_bytes: u64,
    pub(super) context: sys::CUcontext,
    pub(super) stream: sys::CUstream,
    pub(super) started: sys::CUevent,
    pub(super) ended: sys::CUevent,
    device: sys::CUdevice,
    modules: BTreeMap<Variant, sys::CUmodule>,
    functions: BTreeMap<(Variant, &'static str), sys::CUfunction>,
    arena: Option<Memory>,
}

impl Gpu {
    pub(super) fn open(index: usize) -> Result<Self, DeviceError> {
        use sys::CUdevice_attribute as Of;
        let device = handle(index)?;
        // SAFETY: the handle came from the driver; released on drop.
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(failed("opening a GPU"))?;
        driver::enter(context)?;
        Ok(Self {
            listed: describe(index)?,
            multiprocessors: attribute(device, Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: u64::from(attribute(device, Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            context,
            stream: driver::stream()?,
            started: driver::event()?,
            ended: driver::event()?,
            device,
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            arena: None,
        })
    }

    /// Lets kernels and copies of this GPU reach the memory of `other`; false where the machine does not allow it.
    pub(super) fn reach(&self, other: &Self) -> Result<bool, DeviceError> {
        let mut can = 0;
        // SAFETY: the pointer is valid for one int; both handles came from the driver.
        unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, self.device, other.device) }
            .result()
            .map_err(failed("asking for peer access"))?;
        if can == 0 {
            return Ok(false);
        }
        driver::enter(self.context)?;
        // SAFETY: both contexts are retained.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {
                Ok(true)
            }
            code => code
                .result()
                .map(|()| true)
                .map_err(failed("opening peer access")),
        }
    }

    pub(super) fn free_bytes(&self) -> Result<u64, DeviceError> {
        driver::enter(self.context)?;
        driver::free_bytes()
    }

    /// Address of at least so many bytes; what was there before is lost when it must grow.
    pub(super) fn memory(&mut self, bytes: u64) -> Result<u64, DeviceError> {
        const STEP: u64 = 64 << 20;
        if self.arena.as_ref().is_none_or(|a| a.bytes < bytes) {
            // The old one goes first, or both would have to fit.
            self.arena = None;
            let wanted = bytes.max(1).div_ceil(STEP) * STEP;
            self.arena = Some(
                Memory::new(self.context, wanted).or_else(|_| Memory::new(self.context, bytes))?,
            );
        }
        Ok(self.arena.as_ref().map_or(0, |a| a.address))
    }

    /// The kernel of a launch, compiled on first use.
    pub(super) fn function(&mut self, launch: &Launch) -> Result<sys::CUfunction, DeviceError> {
        let key = (launch.variant, launch.function);
        let function = match self.functions.get(&key) {
            Some(function) => *function,
            None => {
                let module = self.module(launch.variant)?;
                let function = driver::function(module, launch.function)?;
                self.functions.insert(key, function);
                function
            }
        };
        // Beyond 48 KiB a kernel must ask (CUDA programming guide, shared memory).
        if launch.shared > 48 * 1024 {
            driver::allow_shared(function, launch.shared)?;
        }
        Ok(function)
    }

    fn module(&mut self, variant: Variant) -> Result<sys::CUmodule, DeviceError> {
        if let Some(module) = self.modules.get(&variant) {
            return Ok(*module);
        }
        let (major, minor) = self.listed.capability;
        let compiled = compile(variant, 10 * major + minor).map_err(|e| match e {
            CompileError::Missing(m) => DeviceError::Unsupported(m.to_string()),
            refused @ CompileError::Refused { .. } => DeviceError::Unsupported(refused.to_string()),
        })?;
        driver::enter(self.context)?;
        let module = driver::load_module(compiled.image())?;
        self.modules.insert(variant, module);
        Ok(module)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.arena = None;
        if driver::enter(self.context).is_err() {
            return;
        }
        for module in self.modules.values() {
            // SAFETY: loaded by `module`, unloaded once, nothing runs any more.
            let _ = unsafe { result::module::unload(*module) };
        }
        // SAFETY: made by `open`, each destroyed once; the context is released last.
        unsafe {
            let _ = result::event::destroy(self.started);
            let _ = result::event::destroy(self.ended);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
