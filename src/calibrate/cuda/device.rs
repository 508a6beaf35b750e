//! The GPU being measured, with its peers, as a [`Device`].

use cudarc::driver::sys::CUstream;
use rand::Rng as _;

use super::driver::{self, Graph, Memory, Pinned};
use super::gpu::{Gpu, Listed};
use super::libraries::has_library;
use super::library::{Library, Prepared};
use crate::calibrate::device::{Device, DeviceError, GpuFacts};
use crate::calibrate::launch::{self, Argument, Launch};
use crate::calibrate::program::{Buffer, Fill, Mode, Place, Program, Step};
use crate::calibrate::work::Work;
use crate::rng;

/// Seconds a replay may take.
const LIMIT_S: f64 = 20.0;

/// Where a buffer of the loaded program lies.
#[derive(Debug, Clone, Copy)]
struct Located {
    place: Place,
    /// An address of the GPU, or of host memory: one address space.
    address: u64,
    bytes: u64,
}

/// A real GPU.
///
/// Fields are dropped in order: what uses a context before the GPUs that own it.
#[derive(Debug)]
pub struct Cuda {
    facts: GpuFacts,
    graphs: Vec<Graph>,
    prepared: Option<Prepared>,
    library: Option<Library>,
    buffers: Vec<Located>,
    host: Vec<Pinned>,
    program: Option<Program>,
    gpus: Vec<Gpu>,
}

impl Cuda {
    /// Opens GPU `index`, and the others of the same kind that it can reach where `peers` is set. The driver must have
    /// been probed.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn open(index: usize, listed: &[Listed], peers: bool) -> Result<Self, DeviceError> {
        let mut gpus = vec![Gpu::open(index)?];
        if peers {
            let same = |l: &&Listed| l.index != index && l.name == listed[index].name;
            for other in listed.iter().filter(same).take(7) {
                let other = Gpu::open(other.index)?;
                if mutual(&gpus, &other)? {
                    gpus.push(other);
                }
            }
        }
        let first = &gpus[0];
        let context = first.context;
        let library = if has_library() {
            driver::enter(context)?;
            Some(Library::new(|bytes| Memory::new(context, bytes))?)
        } else {
            None
        };
        let facts = GpuFacts {
            name: first.listed.name.clone(),
            memory_bytes: first.listed.memory_bytes,
            free_bytes: first.free_bytes()?,
            capability: first.listed.capability,
            multiprocessors: first.multiprocessors,
            l2_bytes: first.l2_bytes,
            driver_cuda: first.listed.driver_cuda,
            library: library.is_some(),
            gpus: u32::try_from(gpus.len()).unwrap_or(1),
        };
        Ok(Self {
            facts,
            graphs: Vec::new(),
            prepared: None,
            library,
            buffers: Vec::new(),
            host: Vec::new(),
            program: None,
            gpus,
        })
    }

    /// Gives every buffer its place.
    fn allocate(&mut self, program: &Program) -> Result<(), DeviceError> {
        const ALIGNMENT: u64 = 256;
        let mut sizes = vec![0; self.gpus.len()];
        for buffer in &program.buffers {
            let located = match buffer.place {
                Place::Gpu(gpu) => {
                    let Some(size) = sizes.get_mut(gpu) else {
                        return Err(DeviceError::Unsupported(format!(
                            "there is no GPU {gpu} here"
                        )));
                    };
                    let offset = *size;
                    *size += buffer.bytes.div_ceil(ALIGNMENT) * ALIGNMENT;
                    offset
                }
                Place::Host => {
                    let pinned = Pinned::new(usize::try_from(buffer.bytes).unwrap_or(usize::MAX))?;
                    let address = pinned.address as u64;
                    self.host.push(pinned);
                    address
                }
            };
            self.buffers.push(Located {
                place: buffer.place,
                address: located,
                bytes: buffer.bytes,
            });
        }
        for (gpu, size) in self.gpus.iter_mut().zip(&sizes) {
            gpu.memory(*size)?;
        }
        for located in &mut self.buffers {
            if let Place::Gpu(gpu) = located.place {
                located.address += self.gpus[gpu].memory(sizes[gpu])?;
            }
        }
        Ok(())
    }

    fn fill(&mut self, program: &Program) -> Result<(), DeviceError> {
        let mut pinned = 0;
        for (index, buffer) in program.buffers.iter().enumerate() {
            match buffer.place {
                Place::Gpu(gpu) => self.fill_device(gpu, index, buffer)?,
                Place::Host => {
                    fill_host(&mut self.host[pinned], &buffer.fill);
                    pinned += 1;
                }
            }
        }
        for gpu in &self.gpus {
            driver::enter(gpu.context)?;
            driver::record(gpu.ended, gpu.stream)?;
            driver::wait(gpu.ended, LIMIT_S)?;
        }
        Ok(())
    }

    fn fill_device(
        &mut self,
        gpu: usize,
        index: usize,
        buffer: &Buffer,
    ) -> Result<(), DeviceError> {
        driver::enter(self.gpus[gpu].context)?;
        let address = self.buffers[index].address;
        let seed = u32::try_from(index).unwrap_or(0) + 1;
        match &buffer.fill {
            Fill::Nothing => Ok(()),
            Fill::Zeros => driver::clear(address, buffer.bytes),
            Fill::Bytes(bytes) => driver::upload(address, bytes),
            Fill::Addresses(of) => {
                let addresses = of.iter().map(|other| self.buffers[*other].address);
                let bytes: Vec<u8> = addresses.flat_map(u64::to_le_bytes).collect();
                driver::upload(address, &bytes)
            }
            Fill::RandomBf16 { scale } => {
                let fill = launch::fill_bf16((index, 0), buffer.bytes / 2, seed, *scale);
                self.start_kernel(gpu, &fill)
            }
            Fill::RandomE4m3 => {
                self.start_kernel(gpu, &launch::fill_e4m3((index, 0), buffer.bytes, seed))
            }
        }
    }

    fn at(&self, (buffer, offset): (usize, u64)) -> u64 {
        self.buffers[buffer].address + offset
    }

    fn start_kernel(&mut self, gpu: usize, launch: &Launch) -> Result<(), DeviceError> {
        let mut arguments: Vec<u64> = launch
            .arguments
            .iter()
            .map(|argument| match *argument {
                Argument::Address(buffer, offset) => self.at((buffer, offset)),
                Argument::U32(x) => u64::from(x),
                Argument::U64(x) => x,
                Argument::F32(x) => u64::from(x.to_bits()),
            })
            .collect();
        let gpu = &mut self.gpus[gpu];
        let function = gpu.function(launch)?;
        let (grid, threads, shared) = (launch.grid, launch.threads, launch.shared);
        driver::start(function, grid, threads, shared, gpu.stream, &mut arguments)
    }

    fn start(&mut self, gpu: usize, step: &Step) -> Result<(), DeviceError> {
        let stream: CUstream = self.gpus[gpu].stream;
        match step {
            Step::Kernel(launch) => self.start_kernel(gpu, launch),
            Step::Copy { from, to, bytes } => {
                driver::copy(self.at(*to), self.at(*from), *bytes, stream)
            }
            Step::Library(product) => match (&self.library, &self.prepared) {
                (Some(library), Some(prepared)) => {
                    prepared.start(library, product.operands.map(|o| self.at(o)), stream)
                }
                _ => Err(DeviceError::Unsupported(
                    "cuBLASLt was not found".to_owned(),
                )),
            },
        }
    }

    /// Starts every round's steps of one GPU.
    fn start_rounds(&mut self, gpu: usize, program: &Program) -> Result<(), DeviceError> {
        for (_, step) in program.rounds.iter().flatten().filter(|(on, _)| *on == gpu) {
            self.start(gpu, step)?;
        }
        Ok(())
    }

    /// Chooses the library's kernel for the program's shape; all its products have one.
    fn prepare(&mut self, program: &Program) -> Result<(), DeviceError> {
        let product = program
            .rounds
            .iter()
            .flatten()
            .find_map(|(_, step)| match step {
                Step::Library(product) => Some(product),
                Step::Kernel(_) | Step::Copy { .. } => None,
            });
        if let (Some(product), Some(library)) = (product, &self.library) {
            driver::enter(self.gpus[0].context)?;
            self.prepared = Some(library.prepare(product)?);
        }
        Ok(())
    }

    /// Compiles what the program launches: loading a module is not allowed while a graph is recorded.
    fn compile(&mut self, program: &Program) -> Result<(), DeviceError> {
        for (gpu, step) in program.rounds.iter().flatten() {
            if let Step::Kernel(launch) = step {
                driver::enter(self.gpus[*gpu].context)?;
                self.gpus[*gpu].function(launch)?;
            }
        }
        Ok(())
    }

    /// Which GPUs the program runs on.
    fn ranks(&self, program: &Program) -> Vec<usize> {
        let used = |gpu: &usize| program.rounds.iter().flatten().any(|(on, _)| on == gpu);
        (0..self.gpus.len()).filter(used).collect()
    }

    fn record(&mut self, program: &Program) -> Result<(), DeviceError> {
        for gpu in self.ranks(program) {
            driver::enter(self.gpus[gpu].context)?;
            let stream = self.gpus[gpu].stream;
            let graph = Graph::record(stream, || self.start_rounds(gpu, program))?;
            graph.upload(stream)?;
            self.graphs.push(graph);
        }
        Ok(())
    }

    /// Forgets the loaded program.
    fn unload(&mut self) {
        self.graphs.clear();
        self.prepared = None;
        self.buffers.clear();
        self.host.clear();
        self.program = None;
    }

    fn run(&mut self, program: &Program, times: u32) -> Result<(), DeviceError> {
        let ranks = self.ranks(program);
        for _ in 0..times {
            for (seat, &gpu) in ranks.iter().enumerate() {
                // Changing the context costs time that a single GPU need not pay.
                if ranks.len() > 1 {
                    driver::enter(self.gpus[gpu].context)?;
                }
                match program.mode {
                    Mode::Graph => self.graphs[seat].launch(self.gpus[gpu].stream)?,
                    Mode::Stream => self.start_rounds(gpu, program)?,
                }
            }
        }
        Ok(())
    }
}

/// Whether `other` and all of `gpus` reach each other.
fn mutual(gpus: &[Gpu], other: &Gpu) -> Result<bool, DeviceError> {
    for gpu in gpus {
        if !(gpu.reach(other)? && other.reach(gpu)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn fill_host(memory: &mut Pinned, fill: &Fill) {
    let to = memory.bytes_mut();
    match fill {
        Fill::Bytes(bytes) => to[..bytes.len()].copy_from_slice(bytes),
        Fill::RandomBf16 { .. } | Fill::RandomE4m3 => {
            rng::stream(11, "host buffers").fill_bytes(to);
        }
        // Written before it is read; writing it once maps its pages.
        Fill::Nothing | Fill::Zeros | Fill::Addresses(_) => to.fill(0),
    }
}

impl Device for Cuda {
    fn facts(&self) -> &GpuFacts {
        &self.facts
    }

    fn load(&mut self, _work: &Work, program: &Program) -> Result<(), DeviceError> {
        self.unload();
        self.allocate(program)?;
        self.compile(program)?;
        self.fill(program)?;
        self.prepare(program)?;
        if program.mode == Mode::Graph {
            self.record(program)?;
        }
        driver::enter(self.gpus[0].context)?;
        self.program = Some(program.clone());
        Ok(())
    }

    fn replay(&mut self, times: u32) -> Result<f64, DeviceError> {
        let Some(program) = self.program.take() else {
            return Err(DeviceError::Unsupported("no program is loaded".to_owned()));
        };
        let (started, ended, stream) = (
            self.gpus[0].started,
            self.gpus[0].ended,
            self.gpus[0].stream,
        );
        driver::enter(self.gpus[0].context)?;
        driver::record(started, stream)?;
        let ran = self.run(&program, times);
        self.program = Some(program);
        ran?;
        driver::enter(self.gpus[0].context)?;
        driver::record(ended, stream)?;
        driver::wait(ended, LIMIT_S)?;
        driver::seconds(started, ended)
    }

    fn read(&mut self, buffer: usize) -> Result<Vec<u8>, DeviceError> {
        let located = self.buffers[buffer];
        let mut bytes = vec![0; usize::try_from(located.bytes).unwrap_or(0)];
        match located.place {
            Place::Gpu(gpu) => {
                driver::enter(self.gpus[gpu].context)?;
                driver::download(&mut bytes, located.address)?;
            }
            Place::Host => {
                let pinned = self
                    .host
                    .iter_mut()
                    .find(|p| p.address as u64 == located.address);
                if let Some(pinned) = pinned {
                    bytes.copy_from_slice(pinned.bytes_mut());
                }
            }
        }
        Ok(bytes)
    }
}
