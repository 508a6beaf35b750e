//! `pdsim calibrate` from end to end on a stand-in of the driver that runs kernels under the emulator.
//!
//! Shows that the calls of the CUDA path fit together: arguments, buffers, graphs, events, checks, files, exit codes.
//! The times are not real.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pdsim::calibrate::kernels::Variant;
use tempfile::TempDir;

use super::compiler::Compiler;

/// What a run of the binary came to.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A folder with stand-ins for every library and tool of NVIDIA's.
struct Machine {
    libraries: TempDir,
    work: TempDir,
}

/// The source of the stand-in driver: every variant in a namespace of its own.
fn driver() -> String {
    let mut text = include_str!("emulator.hpp").to_owned();
    text.push_str(include_str!("driver.hpp"));
    let mut table = String::new();
    for (number, variant) in Variant::ALL.into_iter().enumerate() {
        let defines: String = variant
            .defines()
            .iter()
            .map(|(name, value)| format!("#define {name} {value}\n"))
            .collect();
        let body = variant.text();
        let undefines: String = format!("{defines}{body}")
            .lines()
            .filter_map(|line| line.strip_prefix("#define "))
            .filter_map(|rest| rest.split([' ', '(']).next())
            .map(|name| format!("#undef {name}\n"))
            .collect();
        // The prelude's own part for real GPUs is skipped, but its macros must not vanish with the variant's.
        let kept = ["DEVICE", "KERNEL", "SHARED_MEMORY", "UNROLL"];
        let undefines: String = undefines
            .lines()
            .filter(|line| !kept.iter().any(|k| line.ends_with(k)))
            .map(|line| format!("{line}\n"))
            .collect();
        write!(
            text,
            "\nnamespace v{number} {{\n{defines}{body}\n{undefines}}}\n"
        )
        .unwrap();
        let functions: String = variant
            .functions()
            .iter()
            .map(|f| format!("{{\"{f}\", stub::function(\"{f}\", v{number}::{f})}},"))
            .collect();
        writeln!(
            table,
            "{{\"{}\", stub::Module{{{{{functions}}}}}}},",
            variant.label()
        )
        .unwrap();
    }
    writeln!(text, "std::map<std::string, stub::Module>& stub::modules() {{ static std::map<std::string, stub::Module> m{{{table}}}; return m; }}").unwrap();
    text
}

const SMI: &str = "#!/bin/sh
case \"$*\" in
*--query-gpu*) echo '570.86.15, 1980, 1980, 2619, 700.00, 34, Enabled, Disabled' ;;
*) echo '4242, /usr/bin/other, 96' ;;
esac
";

impl Machine {
    /// A machine whose driver has this source; `None` where there is no C++ compiler.
    fn with(driver: &str) -> Option<Self> {
        let compiler = Compiler::find()?;
        let libraries = TempDir::new().unwrap();
        let place = |name: &str, text: &str| {
            let built = compiler.build(text, &["-shared", "-fPIC"], name);
            fs::copy(built, libraries.path().join(name)).unwrap();
        };
        place("libcuda.so", driver);
        place("libnvrtc.so", include_str!("compiler.cpp"));
        // Without a symbol: hides a real one.
        place("libcublasLt.so", "int nothing_here;\n");
        let smi = libraries.path().join("nvidia-smi");
        fs::write(&smi, SMI).unwrap();
        make_executable(&smi);
        let work = TempDir::new().unwrap();
        Some(Self { libraries, work })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn pdsim(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Ran {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(env!("CARGO_BIN_EXE_pdsim"))
            .args(arguments)
            .current_dir(self.work.path())
            .env("LD_LIBRARY_PATH", self.libraries.path())
            .env(
                "PATH",
                format!("{}:{path}", self.libraries.path().display()),
            )
            .envs(settings.iter().copied())
            .output()
            .unwrap();
        Ran {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

#[cfg(unix)]
fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_whole_calibration_checks_measures_and_writes() {
    let Some(machine) = Machine::with(&driver()) else {
        return;
    };
    let listed = machine.pdsim(&["calibrate", "--list"], &[]);
    assert_eq!(listed.code, Some(0), "{}", listed.err);
    for word in ["NVIDIA Stub 1GB", "9.0", "12.8", "stub-1gb"] {
        assert!(listed.out.contains(word), "{word}: {}", listed.out);
    }

    let ran = machine.pdsim(&["calibrate", "--quick", "--out", "p"], &[]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.out, ran.err);
    assert!(
        ran.err
            .contains("process 4242 (/usr/bin/other) uses this GPU too and holds 50 %"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("cuBLASLt was not found"), "{}", ran.err);
    for file in [
        "gemm",
        "prefill_attention",
        "decode_attention",
        "elementwise",
        "launch",
        "copy",
    ] {
        let text = fs::read_to_string(machine.path(&format!("p/samples/{file}.csv"))).unwrap();
        assert!(text.lines().count() > 3, "{file}: {text}");
        assert!(
            text.lines().skip(1).all(|l| l.starts_with("stub-1gb,")),
            "{text}"
        );
    }
    let record = fs::read_to_string(machine.path("p/calibration.yaml")).unwrap();
    for line in [
        "matrix_products: pdsim",
        "driver: 570.86.15",
        "temperature_c: 34",
        "ecc: true",
    ] {
        assert!(record.contains(line), "{line}: {record}");
    }
    assert!(!record.contains("wrong: 1"), "{record}");
    assert!(ran.out.contains("KV read bf16"), "{}", ran.out);

    let again = machine.pdsim(&["calibrate", "--quick", "--out", "p"], &[]);
    assert_eq!(again.code, Some(2));
    assert!(again.err.contains("--resume"), "{}", again.err);
    let resumed = machine.pdsim(&["calibrate", "--quick", "--out", "p", "--resume"], &[]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.err);
    assert!(
        resumed.err.contains(": 0 points measured"),
        "{}",
        resumed.err
    );
}

#[test]
fn kernels_that_do_not_run_give_no_samples_and_exit_1() {
    let Some(machine) = Machine::with(&driver()) else {
        return;
    };
    // Every launch is counted and none carried out: outputs stay what they were.
    let ran = machine.pdsim(
        &["calibrate", "--quick", "--out", "p"],
        &[("STUB_EXECUTES", "0")],
    );
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("wrong answers"), "{}", ran.err);
    for kind in [
        "gemm",
        "prefill_attention",
        "decode_attention",
        "elementwise",
    ] {
        assert!(
            !machine.path(&format!("p/samples/{kind}.csv")).exists(),
            "{kind}"
        );
    }
}

#[test]
fn machines_without_a_usable_gpu_get_one_line_and_exit_4() {
    let Some(machine) = Machine::with(&driver()) else {
        return;
    };
    let none = machine.pdsim(&["calibrate"], &[("STUB_GPUS", "0")]);
    assert_eq!(none.code, Some(4));
    assert_eq!(none.err.lines().count(), 1, "{}", none.err);
    assert!(none.err.contains("it sees none"), "{}", none.err);

    let beyond = machine.pdsim(&["calibrate", "--gpu", "3"], &[]);
    assert_eq!(beyond.code, Some(2));
    assert!(
        beyond.err.contains("this machine has 0 (NVIDIA Stub 1GB)"),
        "{}",
        beyond.err
    );
}

#[test]
fn a_driver_without_a_symbol_is_named_and_nothing_panics() {
    let old = "extern \"C\" __attribute__((visibility(\"default\"))) int cuInit(unsigned) { return 0; }\n";
    let Some(machine) = Machine::with(old) else {
        return;
    };
    let ran = machine.pdsim(&["calibrate"], &[]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(
        ran.err.contains("too old") && ran.err.contains("cuDriverGetVersion"),
        "{}",
        ran.err
    );
}
