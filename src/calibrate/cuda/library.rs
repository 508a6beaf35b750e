//! Matrix products by cuBLASLt, with one description and one chosen algorithm per shape.
//!
//! The library thinks in columns: our row-major `c = a wᵀ` is its `cᵀ = w aᵀ` with `w` transposed, which is also the
//! only form it takes 8-bit inputs in.

use std::ffi::c_void;

use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::{result, sys};
use cudarc::driver::sys::CUstream;

use super::driver::Memory;
use crate::calibrate::device::DeviceError;
use crate::calibrate::program::MatrixProduct;
use crate::calibrate::work::GemmDtype;

/// Scratch memory for the library: what its makers advise for Hopper.
const WORKSPACE: u64 = 32 << 20;

fn failed(call: &'static str) -> impl Fn(result::CublasError) -> DeviceError {
    move |e| match e.0 {
        sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => {
            DeviceError::Unsupported(format!("cuBLASLt has no kernel for this shape ({call})"))
        }
        code => DeviceError::Driver {
            call,
            reason: format!("{code:?}"),
        },
    }
}

/// The library, opened on one GPU.
#[derive(Debug)]
pub(super) struct Library {
    handle: sys::cublasLtHandle_t,
    workspace: Memory,
}

impl Library {
    /// Opens the library; it must have been found. `workspace` gives device memory.
    pub(super) fn new(
        workspace: impl FnOnce(u64) -> Result<Memory, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let workspace = workspace(WORKSPACE)?;
        let handle = result::create_handle().map_err(failed("opening cuBLASLt"))?;
        Ok(Self { handle, workspace })
    }

    /// Prepares products of the shape of `product`.
    pub(super) fn prepare(&self, product: &MatrixProduct) -> Result<Prepared, DeviceError> {
        Prepared::new(self, product)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A shape with its algorithm.
#[derive(Debug)]
pub(super) struct Prepared {
    description: sys::cublasLtMatmulDesc_t,
    w: sys::cublasLtMatrixLayout_t,
    a: sys::cublasLtMatrixLayout_t,
    c: sys::cublasLtMatrixLayout_t,
    algorithm: Option<sys::cublasLtMatmulHeuristicResult_t>,
}

/// Input and output formats of the library.
const fn formats(dtype: GemmDtype) -> (sys::cudaDataType, sys::cudaDataType) {
    use sys::cudaDataType_t as T;
    match dtype {
        GemmDtype::Bf16 => (T::CUDA_R_16BF, T::CUDA_R_16BF),
        GemmDtype::Fp16 => (T::CUDA_R_16F, T::CUDA_R_16F),
        GemmDtype::Fp8 => (T::CUDA_R_8F_E4M3, T::CUDA_R_16BF),
    }
}

impl Prepared {
    fn new(library: &Library, p: &MatrixProduct) -> Result<Self, DeviceError> {
        use sys::cublasLtMatmulDescAttributes_t as Of;
        let layout = |format, rows: u32, columns: u32| {
            result::create_matrix_layout(format, rows.into(), columns.into(), rows.into())
                .map_err(failed("describing a matrix"))
        };
        let (input, output) = formats(p.dtype);
        let description = result::create_matmul_desc(
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            sys::cudaDataType_t::CUDA_R_32F,
        )
        .map_err(failed("describing a product"))?;
        let mut prepared = Self {
            description,
            w: layout(input, p.k, p.n)?,
            a: layout(input, p.k, p.m)?,
            c: layout(output, p.n, p.m)?,
            algorithm: None,
        };
        let transposed = cublasOperation_t::CUBLAS_OP_T as i32;
        prepared.set(Of::CUBLASLT_MATMUL_DESC_TRANSA, &transposed)?;
        if p.dtype == GemmDtype::Fp8 {
            // Engines sum 8-bit products in the tensor cores' own precision.
            prepared.set(Of::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1_i8)?;
        }
        prepared.algorithm = Some(prepared.choose(library)?);
        Ok(prepared)
    }

    fn set<T>(
        &self,
        which: sys::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), DeviceError> {
        let pointer = std::ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the description is alive; the library copies `size_of::<T>()` bytes.
        unsafe {
            result::set_matmul_desc_attribute(self.description, which, pointer, size_of::<T>())
        }
        .map_err(failed("describing a product"))
    }

    fn choose(
        &self,
        library: &Library,
    ) -> Result<sys::cublasLtMatmulHeuristicResult_t, DeviceError> {
        let preference = result::create_matmul_pref().map_err(failed("choosing a kernel"))?;
        let bytes = usize::try_from(WORKSPACE).unwrap_or(0);
        // SAFETY: handle, description, layouts and preference are alive; the preference is destroyed once.
        unsafe {
            let set = result::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                std::ptr::from_ref(&bytes).cast(),
                size_of::<usize>(),
            );
            let found = set.and_then(|()| {
                result::get_matmul_algo_heuristic(
                    library.handle,
                    self.description,
                    self.w,
                    self.a,
                    self.c,
                    self.c,
                    preference,
                )
            });
            let _ = result::destroy_matmul_pref(preference);
            found.map_err(failed("choosing a kernel"))
        }
    }

    /// Starts `c = a wᵀ` at these addresses.
    pub(super) fn start(
        &self,
        library: &Library,
        [a, w, c]: [u64; 3],
        stream: CUstream,
    ) -> Result<(), DeviceError> {
        let Some(algorithm) = &self.algorithm else {
            return Err(DeviceError::Unsupported("no kernel was chosen".to_owned()));
        };
        let (one, zero) = (1.0_f32, 0.0_f32);
        let pointer = |address: u64| address as *const c_void;
        // SAFETY: everything described is alive; the addresses lie in buffers of the sizes described.
        unsafe {
            result::matmul(
                library.handle,
                self.description,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&zero).cast(),
                pointer(w),
                self.w,
                pointer(a),
                self.a,
                pointer(c),
                self.c,
                c as *mut c_void,
                self.c,
                &raw const algorithm.algo,
                library.workspace.address as *mut c_void,
                usize::try_from(WORKSPACE).unwrap_or(0),
                stream.cast(),
            )
        }
        .map_err(failed("starting a product"))
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: made by `new`, each destroyed once.
        unsafe {
            for layout in [self.w, self.a, self.c] {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_desc(self.description);
        }
    }
}
