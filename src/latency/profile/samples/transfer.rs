//! Rows about launches, copies and tokens on their way to experts.

use super::super::error::ProfileError;
use super::super::shapes::{self, CopyPath, Launch, SurfaceKind};
use super::Sample;
use super::columns::Row;
use super::rows::Outcome;
use crate::latency::kernels::{Dispatch, DispatchMode, DispatchPhase};

/// SMs that `DeepEP`'s normal mode takes unless told otherwise; rows of other settings are a tuning study.
const SMS: u32 = 20;

fn shape(row: &Row<'_>, ranks: &str) -> Result<Dispatch, ProfileError> {
    Ok(Dispatch {
        tokens: u64::from(row.count("tokens", 1)?),
        hidden: row.count("hidden", 1)?,
        top_k: row.count("top_k", 1)?,
        ranks: row.count(ranks, 2)?,
    })
}

fn sample(d: Dispatch, phase: DispatchPhase, mode: DispatchMode, seconds: f64) -> Sample {
    Sample {
        kind: SurfaceKind::Dispatch(phase, mode),
        point: shapes::dispatch_point(d).to_vec(),
        site: format!("{} top {} over {}", d.hidden, d.top_k, d.ranks),
        seconds,
    }
}

fn mode(row: &Row<'_>) -> Result<DispatchMode, ProfileError> {
    let name = match row.text("mode")? {
        "ll" => DispatchMode::LowLatency.name(),
        other => other,
    };
    let found = DispatchMode::ALL.into_iter().find(|m| m.name() == name);
    found.ok_or_else(|| row.bad("mode", "normal, low_latency or one_sided"))
}

/// One way of the tokens.
pub(super) fn dispatch(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let name = row.text("op")?;
    let phase = DispatchPhase::ALL.into_iter().find(|p| p.name() == name);
    let phase = phase.ok_or_else(|| row.bad("op", "dispatch or combine"))?;
    let d = shape(row, "ranks")?;
    Ok(Ok(sample(d, phase, mode(row)?, row.seconds()?)))
}

/// Both ways in one row, as AIConfigurator's table of `DeepEP` has them.
pub(super) fn deepep(row: &Row<'_>) -> Result<Vec<Outcome>, ProfileError> {
    let (mode, d) = (mode(row)?, shape(row, "ranks")?);
    if mode == DispatchMode::Normal && row.has("sms") && row.count("sms", 0)? != SMS {
        return Ok(vec![Err(
            "DeepEP with another number of SMs than its default",
        )]);
    }
    let timed = [
        (DispatchPhase::Dispatch, "dispatch_ms"),
        (DispatchPhase::Combine, "combine_ms"),
    ];
    let both = timed.map(|(phase, column)| {
        let seconds = row.seconds_in(column, 1e-3)?;
        Ok(Ok(sample(d, phase, mode, seconds)))
    });
    both.into_iter().collect()
}

/// AIConfigurator's table of TensorRT-LLM's exchange over NVLink: the one-sided kernels, which need no preparation.
pub(super) fn all_to_all(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    if row.text("implementation")? != "NVLinkOneSided" {
        return Ok(Err(
            "two-sided exchange over NVLink, slower than the one-sided",
        ));
    }
    let phase = match row.text("op")? {
        "dispatch" => DispatchPhase::Dispatch,
        "combine" => DispatchPhase::Combine,
        _ => return Ok(Err("preparation of an exchange")),
    };
    let d = shape(row, "ep")?;
    let seconds = row.seconds()?;
    Ok(Ok(sample(d, phase, DispatchMode::OneSided, seconds)))
}

/// A kernel without work.
pub(super) fn launch(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let name = row.text("op")?;
    let found = Launch::ALL.into_iter().find(|l| l.name() == name);
    let launch = found.ok_or_else(|| row.bad("op", "kernel, graph or graph_node"))?;
    Ok(Ok(Sample {
        kind: SurfaceKind::Launch(launch),
        point: vec![1.0],
        site: name.to_owned(),
        seconds: row.seconds()?,
    }))
}

/// A copy.
pub(super) fn copy(row: &Row<'_>) -> Result<Outcome, ProfileError> {
    let name = row.text("op")?;
    let found = CopyPath::ALL.into_iter().find(|p| p.name() == name);
    let path = found.ok_or_else(|| {
        row.bad(
            "op",
            "device, stream_read, host_to_device, device_to_host or peer",
        )
    })?;
    let bytes = row.positive("bytes")?;
    Ok(Ok(Sample {
        kind: SurfaceKind::Copy(path),
        point: vec![bytes],
        site: bytes.to_string(),
        seconds: row.seconds()?,
    }))
}
