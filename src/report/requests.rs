//! `requests.csv`: a row per request of every run, streamed.
//!
//! Columns as in [`HEADER`]; a stage that a request skips is empty. Requests of the warm-up are there too: the
//! `window_start_s` of `summary.csv` says where the measured window begins. `slo_met` is 1 or 0, empty without a promise.
//! When the client of some run keeps a plan within a limit of requests in flight, a column `client_wait_ms` follows:
//! how long it held the request back before its arrival. When the axis is not a rate, a last column named after the swept key holds its value.

use std::path::Path;

use super::file::{AtomicFile, Error};
use super::input::{Report, Run};
use super::text::{push_ms, push_ms_per, push_s, push_text, push_u64};
use crate::cluster::{Outcome, RequestRecord};
use crate::metrics::{Records, Slo, meets};
use crate::units::SimDuration;

/// The columns, without the swept key.
pub const HEADER: &str = "system,rate,seed,request_id,class,arrival_s,input_tokens,output_tokens,cached_tokens,status,\
prefill_instance,decode_instance,router_wait_ms,prefill_queue_ms,prefill_ms,transfer_queue_ms,transfer_ms,\
decode_queue_ms,first_step_ms,ttft_ms,tpot_ms,e2e_ms,preemptions,slo_met";

/// Bytes gathered before they go to the file.
const BUFFER: usize = 1 << 16;

/// Writes the rows of the runs in the report's order; runs without records have none.
pub(super) fn write(path: &Path, report: &Report) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    let mut out = Vec::with_capacity(2 * BUFFER);
    out.extend_from_slice(HEADER.as_bytes());
    // A column only where there is something to say.
    let waits = report
        .runs
        .iter()
        .any(|run| !run.metrics.client_waits.is_empty());
    if waits {
        out.extend_from_slice(b",client_wait_ms");
    }
    if let Some(key) = report.swept_key() {
        out.push(b',');
        push_text(&mut out, key);
    }
    out.push(b'\n');
    for run in report.ordered_runs() {
        let (before, after) = (before(report, run), after(report, run));
        for record in run.metrics.records.iter().flat_map(Records::iter) {
            out.extend_from_slice(&before);
            push_row(&mut out, record, report.slo.as_ref());
            if waits {
                let wait = run.metrics.client_waits.get(record.id.index());
                push_span(&mut out, wait.copied());
            }
            out.extend_from_slice(&after);
            if out.len() >= BUFFER {
                file.write(&out)?;
                out.clear();
            }
        }
    }
    file.write(&out)?;
    file.finish()
}

/// `system,rate,seed,`
fn before(report: &Report, run: &Run) -> Vec<u8> {
    let mut out = Vec::new();
    push_text(&mut out, &report.systems[run.system].name);
    out.push(b',');
    out.extend_from_slice(report.rate_text(run).as_bytes());
    out.push(b',');
    push_u64(&mut out, run.seed);
    out.push(b',');
    out
}

/// The swept value and the end of the line.
fn after(report: &Report, run: &Run) -> Vec<u8> {
    let mut out = Vec::new();
    if report.swept_key().is_some() {
        out.push(b',');
        push_text(&mut out, &report.axis.values[run.point].label);
    }
    out.push(b'\n');
    out
}

fn push_row(out: &mut Vec<u8>, r: &RequestRecord, slo: Option<&Slo>) {
    push_u64(out, r.id.index() as u64);
    out.push(b',');
    push_u64(out, u64::from(r.class));
    out.push(b',');
    push_s(out, r.arrival.as_ps());
    for count in [r.input_tokens, r.output_tokens, r.cached_tokens] {
        out.push(b',');
        push_u64(out, u64::from(count));
    }
    out.push(b',');
    out.extend_from_slice(r.outcome.as_str().as_bytes());
    for instance in [r.prefill_instance, r.decode_instance] {
        out.push(b',');
        if let Some(instance) = instance {
            push_u64(out, instance.index() as u64);
        }
    }
    let spans = [
        r.router_wait(),
        r.prefill_queue(),
        r.prefill(),
        r.transfer_queue(),
        r.transfer(),
        r.decode_queue(),
        r.first_step(),
        r.ttft(),
    ];
    for span in spans {
        push_span(out, span);
    }
    out.push(b',');
    if r.outcome == Outcome::Done && r.output_tokens > 1 {
        let decode = r.last_token - r.first_token;
        push_ms_per(out, decode.as_ps(), u64::from(r.output_tokens - 1));
    }
    push_span(out, r.e2e());
    out.push(b',');
    push_u64(out, u64::from(r.preemptions));
    out.push(b',');
    if let Some(slo) = slo {
        out.push(if meets(slo, r) { b'1' } else { b'0' });
    }
}

fn push_span(out: &mut Vec<u8>, span: Option<SimDuration>) {
    out.push(b',');
    if let Some(span) = span {
        push_ms(out, span.as_ps());
    }
}
