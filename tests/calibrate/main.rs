//! A fake device of known parameters, measured, fitted and asked: the profile gives the parameters back.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panic; the figures are worth seeing"
)]

use pdsim::calibrate::fake::Fake;
use pdsim::calibrate::plan::{Options, plan};
use pdsim::calibrate::session::{self, Limits};
use pdsim::calibrate::store::Store;
use pdsim::calibrate::{
    Decode, Device, Elementwise, ElementwiseOp, Gemm, GemmDtype, Prefill, Settings, Work,
};
use pdsim::hardware;
use pdsim::latency::Chunk;
use pdsim::latency::calibrated::Calibrated;
use pdsim::latency::kernels::{self, HeadLayout, Kernels};
use pdsim::latency::profile;
use pdsim::model::{self, KvDtype, WeightDtype};

/// The GPU whose data sheet the fake device borrows; its rates lie below those peaks.
const NAME: &str = "h200-sxm";

/// Measures the fake device, writes samples and a profile, reads the profile back from its text.
fn measured(fake: &mut Fake, quick: bool) -> Calibrated {
    let folder = tempfile::tempdir().unwrap();
    let models: Vec<_> = model::model_names()
        .map(|n| model::model(n).unwrap())
        .collect();
    let options = Options {
        quick,
        dtypes: Vec::new(),
    };
    let points = plan(fake.facts(), &models, &options);
    let mut store = Store::open(folder.path(), NAME, false).unwrap();
    let limits = Limits {
        settings: Settings::quick(),
        time_s: f64::INFINITY,
    };
    let outcome = session::run(fake, &points, &mut store, &limits, &|| 0.0, &mut |_| {}).unwrap();
    assert_eq!((outcome.left, outcome.resumed), (0, 0));

    let samples = profile::read_samples(store.folder(), NAME).unwrap();
    let mut file = hardware::profile(NAME).unwrap();
    let report = profile::fit(&samples.rows, &file.gpu(), false);
    file.surfaces_from = None;
    file.provenance = hardware::Provenance::Measured;
    let text = profile::profile_yaml(&file, &report.surfaces);
    let path = folder.path().join("profile.yaml");
    std::fs::write(&path, text).unwrap();
    let file = hardware::load(&path).unwrap();
    Calibrated::new(&file, NAME).unwrap()
}

/// What the profile says of a point.
fn seconds(profile: &Calibrated, work: &Work) -> f64 {
    let timed = match *work {
        Work::Gemm(g) => profile.gemm(kernels::Gemm {
            format: if g.dtype == GemmDtype::Fp8 {
                WeightDtype::Fp8
            } else {
                WeightDtype::Bf16
            },
            m: u64::from(g.m),
            n: u64::from(g.n),
            k: u64::from(g.k),
        }),
        Work::Prefill(p) => profile.prefill_attention(
            &HeadLayout {
                heads: p.heads,
                kv_heads: p.kv_heads,
                head_dim: p.head_dim,
                kv: KvDtype::Bf16,
                window: None,
            },
            &[Chunk {
                new: p.new_tokens,
                past: p.past_tokens,
                last: true,
            }],
        ),
        Work::Decode(d) => profile.decode_attention(
            &HeadLayout {
                heads: d.heads,
                kv_heads: d.kv_heads,
                head_dim: d.head_dim,
                kv: d.kv_dtype,
                window: None,
            },
            d.batch,
            // The profile counts the tokens before the step's own.
            f64::from(d.batch) * f64::from(d.context_tokens - 1),
        ),
        Work::Elementwise(_) => profile.elementwise(work.bytes()),
        Work::Launch(_) | Work::Copy(_) | Work::Collective(_) => panic!("no kernel of a step"),
    };
    timed.seconds
}

/// The rate that lies behind a time: work over the time beyond the fixed cost of a kernel.
fn rate(profile: &Calibrated, work: &Work, amount: f64, kernel_s: f64) -> f64 {
    amount / (seconds(profile, work) - kernel_s)
}

fn gemm(dtype: GemmDtype, m: u32, n: u32, k: u32) -> Work {
    Work::Gemm(Gemm { dtype, m, n, k })
}

fn decode(kv_dtype: KvDtype, batch: u32, context_tokens: u32) -> Work {
    Work::Decode(Decode {
        kv_dtype,
        batch,
        context_tokens,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
    })
}

const PREFILL: Work = Work::Prefill(Prefill {
    batch: 1,
    new_tokens: 16_384,
    past_tokens: 0,
    heads: 32,
    kv_heads: 8,
    head_dim: 128,
});

const NORM: Work = Work::Elementwise(Elementwise {
    op: ElementwiseOp::RmsNorm,
    rows: 16_384,
    columns: 8192,
});

#[test]
fn the_profile_gives_back_the_parameters_of_the_device_within_one_percent() {
    let mut fake = Fake::new();
    let profile = measured(&mut fake, false);
    let p = fake.parameters;
    // A product too small to take any time but its fixed cost.
    let smallest = gemm(GemmDtype::Bf16, 1, 64, 64);
    let kernel_s = seconds(&profile, &smallest);

    let large = gemm(GemmDtype::Bf16, 8192, 8192, 8192);
    let large8 = gemm(GemmDtype::Fp8, 8192, 8192, 8192);
    let thin = gemm(GemmDtype::Bf16, 1, 8192, 28_672);
    let long = decode(KvDtype::Bf16, 64, 8192);
    let long8 = decode(KvDtype::Fp8, 64, 8192);
    for (what, found, truth) in [
        ("kernel", kernel_s, p.kernel_s),
        (
            "bf16",
            rate(&profile, &large, large.flops(), kernel_s),
            p.gemm_flops,
        ),
        (
            "fp8",
            rate(&profile, &large8, large8.flops(), kernel_s),
            p.gemm_fp8_flops,
        ),
        (
            "memory, by products",
            rate(&profile, &thin, thin.bytes(), kernel_s),
            p.memory,
        ),
        (
            "memory, by norms",
            rate(&profile, &NORM, NORM.bytes(), kernel_s),
            p.memory,
        ),
        (
            "KV read, bf16",
            rate(&profile, &long, long.bytes(), kernel_s),
            p.kv_read,
        ),
        (
            "KV read, fp8",
            rate(&profile, &long8, long8.bytes(), kernel_s),
            p.kv_read,
        ),
        (
            "prefill",
            rate(&profile, &PREFILL, PREFILL.flops(), kernel_s),
            p.attention_flops,
        ),
    ] {
        let error = found / truth - 1.0;
        eprintln!(
            "{what}: {found:.4e} for {truth:.4e}, {:+.2} %",
            100.0 * error
        );
        assert!(error.abs() < 0.01, "{what}: {found:e} for {truth:e}");
    }
}
