//! Compiles every kernel for the architectures we promise, and holds registers and spills against a budget.
//!
//! Needs NVRTC (no GPU) and, for the budget, `ptxas`; `.ci/nvrtc` fetches both. Without them the tests skip visibly, or
//! fail where `PDSIM_REQUIRE_NVRTC` is set.

#![cfg(feature = "cuda")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panic and say what they skip"
)]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use pdsim::calibrate::cuda::{
    Compiled, assembly, compile, probe_compiler, supported_architectures,
};
use pdsim::calibrate::kernels::{Tile, Variant};
use pdsim::model::KvDtype;

/// A100, H100/H200, B200.
const ARCHITECTURES: [u32; 3] = [80, 90, 100];

/// Whether NVRTC is there; fails where it must be.
fn compiler() -> bool {
    match probe_compiler() {
        Ok(()) => true,
        Err(missing) => {
            assert!(
                std::env::var_os("PDSIM_REQUIRE_NVRTC").is_none(),
                "{missing}"
            );
            eprintln!("SKIPPED: {missing}");
            false
        }
    }
}

#[test]
fn every_kernel_compiles_to_machine_code_of_every_architecture() {
    if !compiler() {
        return;
    }
    for architecture in ARCHITECTURES {
        assert!(supported_architectures().unwrap().contains(&architecture));
        for variant in Variant::ALL {
            let compiled = compile(variant, architecture).unwrap_or_else(|e| panic!("{e}"));
            let Compiled::Cubin(image) = compiled else {
                panic!("{} sm_{architecture}: assembly only", variant.label());
            };
            assert_eq!(
                &image[..4],
                b"\x7fELF",
                "{} sm_{architecture}",
                variant.label()
            );
            for function in variant.functions() {
                let named = image
                    .windows(function.len())
                    .any(|w| w == function.as_bytes());
                assert!(named, "{function} is not in the image");
            }
        }
    }
}

#[test]
fn a_chip_newer_than_the_compiler_gets_assembly() {
    if !compiler() {
        return;
    }
    let newest = *supported_architectures().unwrap().last().unwrap();
    let compiled = compile(Variant::Memory, newest + 10).unwrap();
    let Compiled::Ptx(text) = compiled else {
        panic!("machine code for a chip it does not know")
    };
    assert!(String::from_utf8_lossy(&text).contains(&format!("sm_{newest}")));
    assert_eq!(text.last(), Some(&0));
}

/// Registers per thread and spilled bytes (stores) that a kernel may use.
///
/// Decode attention lives by three blocks per multiprocessor: 168 registers of 128 threads. Prefill attention keeps 32
/// rows of 128 sums per warp and takes all 255 there are; a few spilled words outside its inner products cost little.
const fn budget(variant: Variant) -> (u32, u32) {
    match variant {
        Variant::Memory | Variant::Elementwise => (40, 0),
        Variant::Collective => (64, 8),
        Variant::Decode {
            head_dim: 64,
            kv: KvDtype::Bf16,
        } => (128, 16),
        Variant::Decode { .. } => (168, 16),
        Variant::Prefill { head_dim: 64 } => (255, 0),
        Variant::Prefill { .. } => (255, 96),
        Variant::Matmul(Tile::Large) => (128, 0),
        Variant::Matmul(Tile::Small) => (64, 0),
    }
}

/// Registers and spilled bytes of every kernel of a report of `ptxas -v`.
fn usage(report: &str) -> Vec<(String, u32, u32)> {
    let number = |text: &str| text.split_whitespace().next_back()?.parse().ok();
    let mut found = Vec::new();
    let (mut name, mut spilled) = (String::new(), 0);
    for line in report.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            name = rest.split('\'').next().unwrap_or_default().to_owned();
        } else if let Some((before, _)) = line.split_once(" bytes spill stores") {
            spilled = number(before).unwrap();
        } else if let Some((before, _)) = line.split_once(" registers") {
            found.push((name.clone(), number(before).unwrap(), spilled));
        }
    }
    found
}

#[test]
fn kernels_keep_their_budget_of_registers_and_spills() {
    let Some(ptxas) = std::env::var_os("PDSIM_PTXAS").map(PathBuf::from) else {
        eprintln!("SKIPPED: no ptxas (set PDSIM_PTXAS)");
        return;
    };
    if !compiler() {
        return;
    }
    for architecture in ARCHITECTURES {
        for variant in Variant::ALL {
            let text = assembly(variant, architecture).unwrap();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.strip_suffix(&[0]).unwrap()).unwrap();
            let output = Command::new(&ptxas)
                .args(["-v", &format!("-arch=sm_{architecture}"), "-o"])
                .args([&file.path().with_extension("cubin"), file.path()])
                .output()
                .unwrap();
            let report = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {report}", variant.label());
            let usage = usage(&report);
            assert_eq!(usage.len(), variant.functions().len(), "{report}");
            let (registers, spills) = budget(variant);
            for (kernel, used, spilled) in usage {
                eprintln!(
                    "sm_{architecture} {} {kernel}: {used} registers, {spilled} bytes spilled",
                    variant.label()
                );
                assert!(
                    used <= registers,
                    "{kernel}: {used} registers of {registers}"
                );
                assert!(
                    spilled <= spills,
                    "{kernel}: {spilled} bytes spilled of {spills}"
                );
            }
        }
    }
}

#[test]
fn the_report_of_ptxas_is_read() {
    let report = "ptxas info    : Compiling entry function 'nothing' for 'sm_90'\n\
        ptxas info    : Function properties for nothing\n\
        \x20   8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
        ptxas info    : Used 31 registers, used 0 barriers\n";
    assert_eq!(usage(report), [("nothing".to_owned(), 31, 4)]);
}
