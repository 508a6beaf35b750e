//! Every kernel answers as its reference does.

use pdsim::calibrate::build::Target;
use pdsim::calibrate::check::{Case, suite};
use pdsim::calibrate::{Collective, CopyKind, GemmDtype, GpuFacts, Program, Step, Work};

use super::emulator::{Emulator, Order};

fn facts() -> GpuFacts {
    GpuFacts {
        name: "emulated".to_owned(),
        memory_bytes: 1 << 30,
        free_bytes: 1 << 30,
        capability: (9, 0),
        multiprocessors: 2,
        l2_bytes: 1 << 20,
        driver_cuda: 12_080,
        library: false,
        gpus: 1,
    }
}

/// Runs the works both ways round and holds them against the reference.
fn check(works: impl IntoIterator<Item = Work>, together: bool) {
    let Some(mut emulator) = Emulator::new() else {
        return;
    };
    let mut checked = 0;
    for work in works {
        let mut case = Case::new(work, &Target::of(&facts())).unwrap();
        if together {
            few_blocks(&mut case.program);
        }
        for backwards in [false, true] {
            let buffers = emulator.run(
                &case.program,
                Order {
                    backwards,
                    together,
                },
            );
            let error = case.relative_error(&buffers[case.program.output.unwrap()]);
            assert!(error <= case.tolerance, "{work:?}: relative error {error}");
        }
        checked += 1;
    }
    assert!(checked > 0);
}

/// Every thread of every block is a fiber at once: fewer blocks do the same work.
fn few_blocks(program: &mut Program) {
    for (_, step) in program.rounds.iter_mut().flatten() {
        if let Step::Kernel(launch) = step {
            launch.grid[0] = launch.grid[0].min(3);
        }
    }
}

fn of_suite(keep: impl Fn(&Work) -> bool) -> Vec<Work> {
    suite(&facts()).into_iter().filter(keep).collect()
}

#[test]
fn decode_attention_answers_as_its_reference() {
    check(of_suite(|w| matches!(w, Work::Decode(_))), false);
}

#[test]
fn prefill_attention_answers_as_its_reference() {
    check(of_suite(|w| matches!(w, Work::Prefill(_))), false);
}

#[test]
fn matrix_product_answers_as_its_reference() {
    check(
        of_suite(|w| matches!(w, Work::Gemm(g) if g.dtype == GemmDtype::Bf16)),
        false,
    );
}

#[test]
fn elementwise_kernels_answer_as_their_references() {
    check(of_suite(|w| matches!(w, Work::Elementwise(_))), false);
}

#[test]
fn streaming_read_sees_every_byte() {
    check(
        of_suite(|w| matches!(w, Work::Copy(c) if c.kind == CopyKind::StreamRead)),
        false,
    );
}

#[test]
fn all_reduce_sums_over_ranks_that_run_at_once() {
    let works = [(2, 2 * 4096), (3, 3 * 4096), (2, 1 << 20)]
        .map(|(ranks, bytes)| Work::Collective(Collective { ranks, bytes }));
    check(works, true);
}
