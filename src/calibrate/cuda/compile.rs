//! Compiles kernels at run time. Needs NVRTC, no GPU.

use std::ffi::{CStr, CString};

use cudarc::nvrtc::{result, sys};

use super::libraries::{Missing, probe_compiler};
use crate::calibrate::kernels::Variant;

/// A compiled variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiled {
    /// Machine code of one architecture.
    Cubin(Vec<u8>),
    /// Assembly that the driver finishes, text with a closing zero: for chips newer than the compiler.
    Ptx(Vec<u8>),
}

impl Compiled {
    /// The image the driver loads.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        match self {
            Self::Cubin(image) | Self::Ptx(image) => image,
        }
    }
}

/// Why a kernel was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// No compiler.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// It refused.
    #[error("{variant} does not compile for {architecture}: {log}")]
    Refused {
        /// The variant's label.
        variant: String,
        /// Architecture asked for.
        architecture: String,
        /// The compiler's words.
        log: String,
    },
}

/// Architectures the compiler knows, ascending: 80 stands for `sm_80`.
///
/// # Errors
/// When there is no compiler or it does not say.
pub fn supported_architectures() -> Result<Vec<u32>, CompileError> {
    probe_compiler()?;
    let refused = |e: result::NvrtcError| CompileError::Refused {
        variant: "nothing".to_owned(),
        architecture: "any".to_owned(),
        log: format!("{:?}", e.0),
    };
    let mut count = 0;
    // SAFETY: the library and symbol are present (probed); the pointer is valid for one int.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }
        .result()
        .map_err(refused)?;
    let mut found = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: as above; the buffer holds as many ints as the library said it writes.
    unsafe { sys::nvrtcGetSupportedArchs(found.as_mut_ptr()) }
        .result()
        .map_err(refused)?;
    let mut found: Vec<u32> = found
        .into_iter()
        .filter_map(|a| u32::try_from(a).ok())
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Compiles a variant for an architecture (`80`: `sm_80`) to machine code, or to assembly where the compiler is older
/// than the chip.
///
/// # Errors
/// When there is no compiler or it refuses.
pub fn compile(variant: Variant, architecture: u32) -> Result<Compiled, CompileError> {
    let known = supported_architectures()?;
    if known.contains(&architecture) {
        return run(variant, &format!("sm_{architecture}"), true);
    }
    let nearest = known.iter().rev().find(|a| **a < architecture);
    let nearest = nearest.copied().unwrap_or(architecture);
    run(variant, &format!("compute_{nearest}"), false)
}

/// Compiles a variant to assembly only, as text with a closing zero.
///
/// # Errors
/// When there is no compiler or it refuses.
pub fn assembly(variant: Variant, architecture: u32) -> Result<Vec<u8>, CompileError> {
    probe_compiler()?;
    run(variant, &format!("compute_{architecture}"), false).map(|compiled| match compiled {
        Compiled::Cubin(image) | Compiled::Ptx(image) => image,
    })
}

/// A program of the compiler, destroyed with its owner.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `create_program` and destroyed once. A failure leaks memory and nothing worse.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn run(variant: Variant, architecture: &str, machine_code: bool) -> Result<Compiled, CompileError> {
    let refused = |log: String| CompileError::Refused {
        variant: variant.label(),
        architecture: architecture.to_owned(),
        log,
    };
    let failed = |e: result::NvrtcError| refused(format!("{:?}", e.0));
    let text = CString::new(variant.text()).map_err(|e| refused(e.to_string()))?;
    let name = CString::new(variant.file()).map_err(|e| refused(e.to_string()))?;
    let program = Program(result::create_program(&text, Some(&name)).map_err(failed)?);
    let mut options = vec![
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
    ];
    options.extend(
        variant
            .defines()
            .iter()
            .map(|(k, v)| format!("--define-macro={k}={v}")),
    );
    // SAFETY: the program is alive; options hold no zero bytes.
    if unsafe { result::compile_program(program.0, &options) }.is_err() {
        return Err(refused(log(&program)));
    }
    let image = if machine_code {
        cubin(&program)
    } else {
        ptx(&program)
    };
    image.map_err(failed)
}

fn log(program: &Program) -> String {
    // SAFETY: the program is alive.
    let Ok(raw) = (unsafe { result::get_program_log(program.0) }) else {
        return "no reason given".to_owned();
    };
    let bytes: Vec<u8> = raw.into_iter().map(i8::cast_unsigned).collect();
    CStr::from_bytes_until_nul(&bytes).map_or_else(
        |_| String::new(),
        |text| text.to_string_lossy().into_owned(),
    )
}

fn cubin(program: &Program) -> Result<Compiled, result::NvrtcError> {
    let mut size = 0;
    // SAFETY: the program is alive and compiled; the pointer is valid for one size.
    unsafe { sys::nvrtcGetCUBINSize(program.0, &raw mut size) }.result()?;
    let mut image = vec![0_u8; size];
    // SAFETY: as above; the buffer has the size the library asked for.
    unsafe { sys::nvrtcGetCUBIN(program.0, image.as_mut_ptr().cast()) }.result()?;
    Ok(Compiled::Cubin(image))
}

fn ptx(program: &Program) -> Result<Compiled, result::NvrtcError> {
    // SAFETY: the program is alive and compiled.
    let text = unsafe { result::get_ptx(program.0) }?;
    Ok(Compiled::Ptx(
        text.into_iter().map(i8::cast_unsigned).collect(),
    ))
}
