//! `timeseries.csv`: the state of every pool over time, a row per run × sample × pool.

use std::path::Path;

use super::file::{AtomicFile, Error};
use super::input::Report;
use super::text::{push_s, push_text, push_u64};

/// The columns, without the swept key; counts of requests and of KV blocks.
const HEADER: &str = "system,rate,seed,time_s,pool,waiting,prefilling,handing_off,decoding,busy_instances,\
kv_used_blocks,kv_capacity_blocks";

/// Writes the file, streamed run by run.
pub(super) fn write(path: &Path, report: &Report) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    let mut out = HEADER.as_bytes().to_vec();
    if let Some(key) = report.swept_key() {
        out.push(b',');
        push_text(&mut out, key);
    }
    out.push(b'\n');
    for run in report.ordered_runs() {
        let system = &report.systems[run.system].name;
        let rate = report.rate_text(run);
        for (point, pools) in run.metrics.series.iter() {
            for (sample, pool) in pools.iter().zip(&run.metrics.pools) {
                push_text(&mut out, system);
                out.push(b',');
                out.extend_from_slice(rate.as_bytes());
                out.push(b',');
                push_u64(&mut out, run.seed);
                out.push(b',');
                push_s(&mut out, point.time.as_ps());
                out.push(b',');
                push_text(&mut out, &pool.name);
                for count in [
                    sample.waiting,
                    sample.prefilling,
                    sample.handing_off,
                    sample.decoding,
                    sample.busy,
                    sample.kv_used,
                    sample.kv_capacity,
                ] {
                    out.push(b',');
                    push_u64(&mut out, count);
                }
                if report.swept_key().is_some() {
                    out.push(b',');
                    push_text(&mut out, &report.axis.values[run.point].label);
                }
                out.push(b'\n');
            }
        }
        file.write(&out)?;
        out.clear();
    }
    file.write(&out)?;
    file.finish()
}
