//! Writes a profile: compact, readable, stable.

use std::fmt::Write as _;

use super::fit::stored_us;
use super::section::{ErrorFigures, Surface, Surfaces};
use crate::hardware::ProfileFile;

/// The text of a profile with these surfaces.
///
/// # Panics
/// Never: writing to a string does not fail.
#[must_use]
pub fn profile_yaml(file: &ProfileFile, surfaces: &Surfaces) -> String {
    let mut out = String::new();
    write_head(&mut out, file).expect("strings take all writes");
    if !surfaces.is_empty() {
        out.push_str("surfaces:\n");
        for surface in surfaces.values() {
            write_surface(&mut out, surface).expect("strings take all writes");
        }
    }
    out
}

fn write_head(out: &mut String, file: &ProfileFile) -> std::fmt::Result {
    writeln!(out, "format: {}", file.format)?;
    writeln!(out, "name: {}", file.name)?;
    if !file.aliases.is_empty() {
        writeln!(out, "aliases: [{}]", file.aliases.join(", "))?;
    }
    writeln!(out, "provenance: {}", file.provenance.name())?;
    writeln!(out, "source: >-\n  {}", file.source.trim())?;
    if let Some(date) = &file.date {
        writeln!(out, "date: \"{date}\"")?;
    }
    if let Some(from) = &file.surfaces_from {
        writeln!(out, "surfaces_from: {from}")?;
    }
    let h = &file.hardware;
    let p = &h.peak_tflops;
    writeln!(out, "hardware:")?;
    writeln!(out, "  architecture: {}", h.architecture)?;
    writeln!(out, "  memory_gib: {}", h.memory_gib)?;
    writeln!(out, "  memory_bandwidth_gb_s: {}", h.memory_bandwidth_gb_s)?;
    let peaks: Vec<String> = [
        ("bf16", Some(p.bf16)),
        ("fp8", p.fp8),
        ("int8", p.int8),
        ("fp4", p.fp4),
    ]
    .into_iter()
    .filter_map(|(name, peak)| peak.map(|x| format!("{name}: {x}")))
    .collect();
    writeln!(out, "  peak_tflops: {{{}}}", peaks.join(", "))?;
    for (key, value) in [
        ("nvlink_gb_s", h.nvlink_gb_s),
        ("pcie_gb_s", Some(h.pcie_gb_s)),
        ("nic_gb_s", Some(h.nic_gb_s)),
        ("gpus_per_node", Some(f64::from(h.gpus_per_node))),
        ("power_w", Some(h.power_w)),
        ("price_per_hour_usd", h.price_per_hour_usd),
    ] {
        if let Some(value) = value {
            writeln!(out, "  {key}: {value}")?;
        }
    }
    Ok(())
}

/// Numbers on a line.
const PER_LINE: usize = 24;

fn write_surface(out: &mut String, surface: &Surface) -> std::fmt::Result {
    let (kind, variant) = surface.kind.names();
    writeln!(out, "- kind: {kind}\n  variant: {variant}")?;
    if surface.routing_passes > 0.0 {
        writeln!(out, "  routing_passes: {}", surface.routing_passes)?;
    }
    if let Some(u) = &surface.unaligned {
        writeln!(
            out,
            "  unaligned: {{multiple: {}, least_us: {}}}",
            u.multiple, u.least_us
        )?;
    }
    writeln!(out, "  samples: {}", surface.samples)?;
    if let Some(e) = &surface.error {
        let f =
            |f: &ErrorFigures| format!("{{median: {}, p90: {}, max: {}}}", f.median, f.p90, f.max);
        writeln!(out, "  error_percent:\n    rows: {}", f(&e.rows))?;
        if let Some(sites) = &e.sites {
            writeln!(out, "    sites: {}", f(sites))?;
        }
    }
    if let Some(coverage) = &surface.coverage {
        writeln!(out, "  covered: \"{}\"", coverage.hex())?;
    }
    writeln!(out, "  axes:")?;
    for axis in surface.grid.axes() {
        let knots: Vec<String> = axis.knots.iter().map(ToString::to_string).collect();
        writeln!(
            out,
            "  - {{name: {}, knots: [{}]}}",
            axis.name,
            knots.join(", ")
        )?;
    }
    write!(out, "  time_us: [")?;
    let last = surface.grid.values().len() - 1;
    for (i, value) in surface.grid.values().iter().enumerate() {
        if i % PER_LINE == 0 {
            write!(out, "\n    ")?;
        }
        let comma = if i == last { "]" } else { "," };
        write!(out, "{}{comma}", significant(value.exp()))?;
    }
    writeln!(out)
}

/// The stored microseconds as the shortest decimal.
fn significant(seconds: f64) -> String {
    let us = stored_us(seconds);
    // Division by a power of ten may leave a last digit of noise.
    let text = format!("{us:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
