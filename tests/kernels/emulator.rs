//! Compiles kernels for the host and runs programs on them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use pdsim::calibrate::kernels::Variant;
use pdsim::calibrate::launch::{Argument, Launch};
use pdsim::calibrate::{Fill, Program, Step};

use super::compiler::Compiler;

/// Kernels compiled for the host.
pub(crate) struct Emulator {
    compiler: Compiler,
    binaries: BTreeMap<Variant, PathBuf>,
}

/// How blocks and threads take turns.
#[derive(Clone, Copy)]
pub(crate) struct Order {
    /// The last thread of a block first.
    pub(crate) backwards: bool,
    /// All launches of the program at once, for kernels that wait for each other.
    pub(crate) together: bool,
}

impl Emulator {
    /// `None`, and a line that says so, where there is no C++ compiler.
    pub(crate) fn new() -> Option<Self> {
        Some(Self {
            compiler: Compiler::find()?,
            binaries: BTreeMap::new(),
        })
    }

    /// The host binary of a variant.
    fn binary(&mut self, variant: Variant) -> PathBuf {
        if let Some(path) = self.binaries.get(&variant) {
            return path.clone();
        }
        let mut text = include_str!("emulator.hpp").to_owned();
        for (name, value) in variant.defines() {
            writeln!(text, "#define {name} {value}").unwrap();
        }
        text.push_str(&variant.text());
        let entries: Vec<String> = variant
            .functions()
            .iter()
            .map(|f| format!("ENTRY({f})"))
            .collect();
        writeln!(
            text,
            "int main() {{ return emu::serve({{{}}}); }}",
            entries.join(", ")
        )
        .unwrap();
        let path = self.compiler.build(&text, &[], &variant.label());
        self.binaries.insert(variant, path.clone());
        path
    }

    /// Runs every round of a program whose inputs are all given as bytes; returns all buffers as they are afterwards.
    pub(crate) fn run(&mut self, program: &Program, order: Order) -> Vec<Vec<u8>> {
        let launches: Vec<&Launch> = program
            .rounds
            .iter()
            .flatten()
            .map(|(_, step)| match step {
                Step::Kernel(launch) => launch,
                other => panic!("the emulator runs kernels alone, not {other:?}"),
            })
            .collect();
        let variant = launches[0].variant;
        assert!(launches.iter().all(|l| l.variant == variant));
        let request = request(program, &launches, order);
        let mut child = Command::new(self.binary(variant))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || stdin.write_all(&request));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap().unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            variant.label(),
            output.status
        );
        split(program, &output.stdout)
    }
}

fn request(program: &Program, launches: &[&Launch], order: Order) -> Vec<u8> {
    let mut bytes = Vec::new();
    let word = |bytes: &mut Vec<u8>, x: usize| {
        bytes.extend(u32::try_from(x).unwrap().to_le_bytes());
    };
    word(&mut bytes, usize::from(order.backwards));
    word(&mut bytes, usize::from(order.together));
    word(&mut bytes, program.buffers.len());
    let mut addresses = Vec::new();
    for (index, buffer) in program.buffers.iter().enumerate() {
        bytes.extend(buffer.bytes.to_le_bytes());
        let size = usize::try_from(buffer.bytes).unwrap();
        let mut content = match &buffer.fill {
            Fill::Bytes(content) => content.clone(),
            Fill::Zeros => vec![0; size],
            // NaN in every format: what should have been written and was not shows.
            Fill::Nothing => vec![0xff; size],
            Fill::Addresses(of) => {
                addresses.extend(
                    of.iter()
                        .enumerate()
                        .map(|(seat, &other)| (index, 8 * seat, other)),
                );
                vec![0; size]
            }
            Fill::RandomBf16 { .. } | Fill::RandomE4m3 => panic!("inputs must be given"),
        };
        content.resize(size, 0);
        bytes.extend(content);
    }
    word(&mut bytes, addresses.len());
    for (into, offset, other) in addresses {
        word(&mut bytes, into);
        word(&mut bytes, offset);
        word(&mut bytes, other);
    }
    word(&mut bytes, launches.len());
    for launch in launches {
        word(&mut bytes, launch.function.len());
        bytes.extend(launch.function.bytes());
        for size in launch.grid {
            bytes.extend(size.to_le_bytes());
        }
        bytes.extend(launch.threads.to_le_bytes());
        bytes.extend(launch.shared.to_le_bytes());
        word(&mut bytes, launch.arguments.len());
        for argument in &launch.arguments {
            let (pointer, value) = match *argument {
                Argument::Address(buffer, offset) => {
                    assert_eq!(offset, 0, "one round starts at the front");
                    (1, buffer as u64)
                }
                Argument::U32(x) => (0, u64::from(x)),
                Argument::U64(x) => (0, x),
                Argument::F32(x) => (0, u64::from(x.to_bits())),
            };
            word(&mut bytes, pointer);
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

fn split(program: &Program, mut rest: &[u8]) -> Vec<Vec<u8>> {
    let take = |bytes: u64| {
        let (mine, others) = rest.split_at(usize::try_from(bytes).unwrap());
        rest = others;
        mine.to_vec()
    };
    program.buffers.iter().map(|b| b.bytes).map(take).collect()
}
