//! The sample trace of the repository: what it claims to be, and that it reads.
//!
//! With `PDSIM_BLESS=1` it is generated anew instead of being checked.

use std::fmt::Write as _;
use std::path::Path;

use pdsim::workload::lengths::named;
use pdsim::workload::{ArrivalProcess, Format, Generated, ReadOptions, Workload, read_trace};

/// 400 requests at 4 /s: gamma gaps of variation 1.5, lengths of `azure-conv-2023`, seed 1, microsecond times.
fn text() -> String {
    let workload = Workload::generated(Generated {
        arrivals: ArrivalProcess::Gamma { rate: 4.0, cv: 1.5 },
        lengths: named("azure-conv-2023").unwrap().lengths,
        requests: Some(400),
        duration: None,
    });
    let mut text = "arrival_s,input_tokens,output_tokens\n".to_owned();
    for request in workload.unwrap().stream(1) {
        let (at, i, o) = (
            request.arrival.as_secs_f64(),
            request.input_tokens,
            request.output_tokens,
        );
        writeln!(text, "{at:.6},{i},{o}").unwrap();
    }
    text
}

#[test]
fn the_sample_trace_is_what_its_readme_says_and_reads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/sample.csv");
    if std::env::var_os("PDSIM_BLESS").is_some() {
        std::fs::write(&path, text()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text());
    let trace = read_trace(&path, &ReadOptions::default()).unwrap();
    assert_eq!(
        (trace.report.format, trace.report.kept),
        (Format::PdsimCsv, 400)
    );
}
