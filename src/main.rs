//! The `pdsim` binary.

fn main() -> std::process::ExitCode {
    pdsim::cli::main()
}
