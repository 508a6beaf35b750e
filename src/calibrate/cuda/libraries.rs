//! Looks for libraries and symbols before anything calls into them.

use cudarc::{cublaslt, driver, nvrtc};

/// A library that calibration cannot do without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// No NVIDIA driver.
    #[error(
        "no GPU to measure: libcuda was not found; install the NVIDIA driver (in a container: start it with GPU access)"
    )]
    Driver,
    /// A driver too old for a call.
    #[error(
        "the NVIDIA driver is too old: libcuda has no `{0}`; install one of CUDA 11.4 or later"
    )]
    Symbol(&'static str),
    /// A driver without a GPU.
    #[error("no GPU to measure: the NVIDIA driver is there but {0}")]
    Gpu(String),
    /// No compiler for the kernels.
    #[error(
        "libnvrtc was not found: install the CUDA toolkit, or `pip install --target DIR nvidia-cuda-nvrtc` and set LD_LIBRARY_PATH=DIR/nvidia/cu13/lib"
    )]
    Compiler,
}

/// Every symbol of libcuda that this module calls.
const DRIVER_SYMBOLS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceGetUuid_v2",
    "cuDeviceTotalMem_v2",
    "cuDeviceCanAccessPeer",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuCtxEnablePeerAccess",
    "cuCtxSynchronize",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyAsync",
    "cuMemsetD8_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuEventDestroy_v2",
];

/// Checks that libcuda is there with every symbol needed, starts it and counts its GPUs.
///
/// # Errors
/// Names what is missing.
pub fn probe_driver() -> Result<usize, Missing> {
    // SAFETY: loading libcuda runs its initialisers and nothing else.
    if !unsafe { driver::sys::is_culib_present() } {
        return Err(Missing::Driver);
    }
    for symbol in DRIVER_SYMBOLS {
        // SAFETY: the library is present, as just checked; the address is not called through this type.
        let found =
            unsafe { driver::sys::culib().get::<unsafe extern "C" fn()>(symbol.as_bytes()) };
        if found.is_err() {
            return Err(Missing::Symbol(symbol));
        }
    }
    driver::result::init().map_err(|e| Missing::Gpu(format!("cannot start: {:?}", e.0)))?;
    let count = driver::result::device::get_count()
        .map_err(|e| Missing::Gpu(format!("does not count its GPUs: {:?}", e.0)))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(Missing::Gpu("it sees none".to_owned())),
    }
}

/// Checks that NVRTC is there.
///
/// # Errors
/// When it is not.
pub fn probe_compiler() -> Result<(), Missing> {
    const SYMBOLS: &[&str] = &[
        "nvrtcCreateProgram",
        "nvrtcCompileProgram",
        "nvrtcDestroyProgram",
        "nvrtcGetCUBIN",
        "nvrtcGetCUBINSize",
        "nvrtcGetPTX",
        "nvrtcGetPTXSize",
        "nvrtcGetProgramLog",
        "nvrtcGetProgramLogSize",
        "nvrtcGetNumSupportedArchs",
        "nvrtcGetSupportedArchs",
    ];
    // SAFETY: loading NVRTC runs its initialisers and nothing else.
    if !unsafe { nvrtc::sys::is_culib_present() } {
        return Err(Missing::Compiler);
    }
    // SAFETY: the library is present, as just checked; the addresses are not called through this type.
    let has = |s: &&str| unsafe {
        nvrtc::sys::culib()
            .get::<unsafe extern "C" fn()>(s.as_bytes())
            .is_ok()
    };
    if SYMBOLS.iter().all(has) {
        Ok(())
    } else {
        Err(Missing::Compiler)
    }
}

/// Whether cuBLASLt is there, with every symbol needed.
pub(super) fn has_library() -> bool {
    const SYMBOLS: &[&str] = &[
        "cublasLtCreate",
        "cublasLtDestroy",
        "cublasLtMatmul",
        "cublasLtMatmulAlgoGetHeuristic",
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulDescDestroy",
        "cublasLtMatmulDescSetAttribute",
        "cublasLtMatmulPreferenceCreate",
        "cublasLtMatmulPreferenceDestroy",
        "cublasLtMatmulPreferenceSetAttribute",
        "cublasLtMatrixLayoutCreate",
        "cublasLtMatrixLayoutDestroy",
    ];
    // SAFETY: loading cuBLASLt runs its initialisers and nothing else.
    if !unsafe { cublaslt::sys::is_culib_present() } {
        return false;
    }
    // SAFETY: the library is present, as just checked; the addresses are not called through this type.
    let has = |s: &&str| unsafe {
        cublaslt::sys::culib()
            .get::<unsafe extern "C" fn()>(s.as_bytes())
            .is_ok()
    };
    SYMBOLS.iter().all(has)
}
