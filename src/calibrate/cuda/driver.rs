//! The few calls of the driver that measuring takes, each with its error named.
//!
//! Handles are plain values of the driver; their owners in this module destroy them. All calls happen on one thread.

use std::ffi::{CString, c_void};
use std::time::{Duration, Instant};

use cudarc::driver::{result, sys};

use crate::calibrate::device::DeviceError;

/// Names a failed call.
pub(super) fn failed(call: &'static str) -> impl FnOnce(result::DriverError) -> DeviceError {
    move |e| DeviceError::Driver {
        call,
        reason: format!("{:?}", e.0),
    }
}

/// Makes a context current on this thread.
pub(super) fn enter(context: sys::CUcontext) -> Result<(), DeviceError> {
    // SAFETY: contexts are retained for the life of their GPU.
    unsafe { result::ctx::set_current(context) }.map_err(failed("entering the GPU's context"))
}

/// Device memory of the current context, freed with its owner.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) address: u64,
    pub(super) bytes: u64,
    context: sys::CUcontext,
}

impl Memory {
    pub(super) fn new(context: sys::CUcontext, bytes: u64) -> Result<Self, DeviceError> {
        enter(context)?;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: nobody reads the memory before a program fills it.
        match unsafe { result::malloc_sync(size) } {
            Ok(address) => Ok(Self {
                address,
                bytes,
                context,
            }),
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                Err(DeviceError::OutOfMemory {
                    needed_bytes: bytes,
                    free_bytes: free_bytes().unwrap_or(0),
                })
            }
            Err(e) => Err(failed("allocating device memory")(e)),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if enter(self.context).is_ok() {
            // SAFETY: allocated by `new`, freed once; the device is idle between programs.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Free memory of the current context's GPU in bytes.
pub(super) fn free_bytes() -> Result<u64, DeviceError> {
    let (free, _) = result::mem_get_info().map_err(failed("asking for free memory"))?;
    Ok(free as u64)
}

/// Pinned host memory, freed with its owner.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) address: *mut u8,
    pub(super) bytes: usize,
}

impl Pinned {
    pub(super) fn new(bytes: usize) -> Result<Self, DeviceError> {
        // SAFETY: filled before anyone reads it.
        let address = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_PORTABLE) };
        Ok(Self {
            address: address.map_err(failed("pinning host memory"))?.cast(),
            bytes,
        })
    }

    /// The memory as bytes.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is this long, lives as long as `self`, and no copy is under way between replays.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once.
        let _ = unsafe { result::free_host(self.address.cast()) };
    }
}

pub(super) fn upload(address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    // SAFETY: callers pass an address inside an allocation with room for the bytes.
    unsafe { result::memcpy_htod_sync(address, bytes) }.map_err(failed("copying to the device"))
}

pub(super) fn download(bytes: &mut [u8], address: u64) -> Result<(), DeviceError> {
    // SAFETY: callers pass an address inside an allocation at least as long.
    unsafe { result::memcpy_dtoh_sync(bytes, address) }.map_err(failed("copying from the device"))
}

pub(super) fn clear(address: u64, bytes: u64) -> Result<(), DeviceError> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: callers pass an address inside an allocation with that much room.
    unsafe { result::memset_d8_sync(address, 0, size) }.map_err(failed("clearing memory"))
}

/// Starts a copy between any two addresses (unified addressing tells the driver which memories they are).
pub(super) fn copy(
    to: u64,
    from: u64,
    bytes: u64,
    stream: sys::CUstream,
) -> Result<(), DeviceError> {
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: both addresses lie in allocations of the loaded program with that much room.
    unsafe { sys::cuMemcpyAsync(to, from, size, stream) }
        .result()
        .map_err(failed("starting a copy"))
}

/// Loads an image and finds functions in it.
pub(super) fn load_module(image: &[u8]) -> Result<sys::CUmodule, DeviceError> {
    // SAFETY: the image is a whole CUBIN or zero-ended PTX from the compiler.
    unsafe { result::module::load_data(image.as_ptr().cast()) }.map_err(failed("loading a kernel"))
}

pub(super) fn function(module: sys::CUmodule, name: &str) -> Result<sys::CUfunction, DeviceError> {
    let name = CString::new(name).map_err(|e| DeviceError::Unsupported(e.to_string()))?;
    // SAFETY: the module is loaded and never unloaded before its GPU is dropped.
    unsafe { result::module::get_function(module, name) }.map_err(failed("finding a kernel"))
}

/// Allows a kernel that much dynamic shared memory.
pub(super) fn allow_shared(function: sys::CUfunction, bytes: u32) -> Result<(), DeviceError> {
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let size = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: the function belongs to a loaded module.
    unsafe { result::function::set_function_attribute(function, attribute, size) }.map_err(|_| {
        DeviceError::Unsupported(format!(
            "the GPU has no {bytes} bytes of shared memory per block"
        ))
    })
}

/// Starts a kernel.
pub(super) fn start(
    function: sys::CUfunction,
    grid: [u32; 3],
    threads: u32,
    shared: u32,
    stream: sys::CUstream,
    arguments: &mut [u64],
) -> Result<(), DeviceError> {
    let mut pointers: Vec<*mut c_void> = arguments
        .iter_mut()
        .map(|a| std::ptr::from_mut(a).cast())
        .collect();
    let (grid, block) = ((grid[0], grid[1], grid[2]), (threads, 1, 1));
    // SAFETY: the driver reads each argument in its declared size from the front of 8 little-endian bytes; addresses
    // among them lie in allocations of the loaded program.
    unsafe { result::launch_kernel(function, grid, block, shared, stream, &mut pointers) }
        .map_err(failed("starting a kernel"))
}

/// A stream that does not wait for others.
pub(super) fn stream() -> Result<sys::CUstream, DeviceError> {
    result::stream::create(result::stream::StreamKind::NonBlocking)
        .map_err(failed("making a stream"))
}

/// An event that keeps the time.
pub(super) fn event() -> Result<sys::CUevent, DeviceError> {
    result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).map_err(failed("making an event"))
}

pub(super) fn record(event: sys::CUevent, stream: sys::CUstream) -> Result<(), DeviceError> {
    // SAFETY: both live as long as their GPU.
    unsafe { result::event::record(event, stream) }.map_err(failed("recording an event"))
}

/// Waits for an event: spins for a moment, then looks now and then. Past `limit_s` the work counts as slow, past three
/// times as much as stuck.
pub(super) fn wait(event: sys::CUevent, limit_s: f64) -> Result<(), DeviceError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a time limit on the device, not on results"
    )]
    let begin = Instant::now();
    loop {
        // SAFETY: the event lives as long as its GPU.
        match unsafe { result::event::query(event) } {
            Ok(()) => break,
            Err(e) if e.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {}
            Err(e) => return Err(failed("running a program")(e)),
        }
        let waited = begin.elapsed().as_secs_f64();
        if waited > 3.0 * limit_s {
            return Err(DeviceError::Stuck {
                limit_s: 3.0 * limit_s,
            });
        }
        if waited > 0.01 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    if begin.elapsed().as_secs_f64() > limit_s {
        Err(DeviceError::Slow { limit_s })
    } else {
        Ok(())
    }
}

/// Seconds between two events that have come to pass.
///
/// cudarc binds the `_v2` symbol of CUDA 12.8; the plain one is in every driver.
pub(super) fn seconds(from: sys::CUevent, to: sys::CUevent) -> Result<f64, DeviceError> {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    let mut ms = 0.0_f32;
    // SAFETY: the library is loaded and has the symbol (both probed), which has this signature in every version.
    let result = unsafe {
        sys::culib()
            .get::<Elapsed>(b"cuEventElapsedTime\0")
            .map(|elapsed| elapsed(&raw mut ms, from, to))
    };
    match result {
        Ok(code) => code
            .result()
            .map_err(failed("reading the device's clock"))?,
        Err(e) => {
            return Err(DeviceError::Driver {
                call: "reading the device's clock",
                reason: e.to_string(),
            });
        }
    }
    Ok(f64::from(ms) * 1e-3)
}

/// A recorded graph, destroyed with its owner.
#[derive(Debug)]
pub(super) struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

impl Graph {
    /// Records what `starts` puts on the stream.
    pub(super) fn record(
        stream: sys::CUstream,
        starts: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<Self, DeviceError> {
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives and records nothing else.
        unsafe { result::stream::begin_capture(stream, mode) }
            .map_err(failed("recording a graph"))?;
        let started = starts();
        // The recording must end even when a start failed, or the stream stays unusable.
        // SAFETY: the stream is recording.
        let graph = unsafe { result::stream::end_capture(stream) };
        started?;
        let graph = graph.map_err(failed("ending a graph"))?;
        // SAFETY: the graph was just recorded.
        let executable =
            unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) };
        match executable {
            Ok(executable) => Ok(Self { graph, executable }),
            Err(e) => {
                // SAFETY: as above; destroyed once.
                let _ = unsafe { result::graph::destroy(graph) };
                Err(failed("making a graph runnable")(e))
            }
        }
    }

    /// Sends the graph ahead, so that its first launch costs what others cost.
    pub(super) fn upload(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        // SAFETY: graph and stream live.
        unsafe { result::graph::upload(self.executable, stream) }.map_err(failed("sending a graph"))
    }

    pub(super) fn launch(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        // SAFETY: graph and stream live.
        unsafe { result::graph::launch(self.executable, stream) }
            .map_err(failed("starting a graph"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: made by `record`, destroyed once; the device is idle between programs.
        unsafe {
            let _ = result::graph::exec_destroy(self.executable);
            let _ = result::graph::destroy(self.graph);
        }
    }
}
