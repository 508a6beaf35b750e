//! The shipped GPU profiles and those on disk.

use std::path::Path;
use std::sync::OnceLock;

use super::error::HardwareError;
use super::file::{ProfileFile, facts_of};
use super::gpu::GpuSpec;
use crate::names::did_you_mean;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of every shipped profile, sorted by name.
        const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../profiles/gpus/", $name, "/profile.yaml")))),*
        ];
    };
}

shipped![
    "a10",
    "a100-80g-pcie",
    "a100-80g-sxm",
    "a30",
    "a40",
    "b200-sxm",
    "b300-sxm",
    "b60",
    "gb200",
    "gb300",
    "h100-pcie",
    "h100-sxm",
    "h20",
    "h200-sxm",
    "l4",
    "l40s",
    "mi300x",
    "rtx-4090",
    "rtx-pro-6000",
];

/// Names of the shipped profiles, sorted.
pub fn gpu_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// The facts of a GPU type: a shipped name, an alias of one, or the path of a `profile.yaml`.
///
/// # Errors
/// When there is no such GPU or the file is not a profile.
pub fn gpu(name: &str) -> Result<GpuSpec, HardwareError> {
    facts(name).map(|(p, _)| p.gpu())
}

/// Whether the profile of a GPU type has surfaces, its own or borrowed; names as for [`gpu`].
///
/// # Errors
/// When there is no such GPU or the file is not a profile.
pub fn has_surfaces(name: &str) -> Result<bool, HardwareError> {
    facts(name).map(|(p, own)| own || p.surfaces_from.is_some())
}

/// The whole profile of a GPU type; names as for [`gpu`].
///
/// # Errors
/// When there is no such GPU or the file is not a profile.
pub fn profile(name: &str) -> Result<ProfileFile, HardwareError> {
    /// Every system of a comparison asks for the same few.
    static PARSED: [OnceLock<Result<ProfileFile, HardwareError>>; SHIPPED.len()] =
        [const { OnceLock::new() }; SHIPPED.len()];
    match find(name)? {
        Some(at) => {
            let (name, text) = SHIPPED[at];
            PARSED[at].get_or_init(|| parse_shipped(name, text)).clone()
        }
        None => load(Path::new(name)),
    }
}

/// A profile, possibly without its surfaces, which take some ten milliseconds to parse; and whether the file has any.
fn facts(name: &str) -> Result<(ProfileFile, bool), HardwareError> {
    let Some(at) = find(name)? else {
        let profile = load(Path::new(name))?;
        let own = profile.surfaces.is_some();
        return Ok((profile, own));
    };
    let (name, text) = SHIPPED[at];
    let facts = facts_of(text);
    let profile = parse_shipped(name, facts)?;
    let own = facts.len() < text.len() || profile.surfaces.is_some();
    Ok((profile, own))
}

/// The place of a shipped profile by name or alias; none for a path.
fn find(name: &str) -> Result<Option<usize>, HardwareError> {
    if name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml") {
        return Ok(None);
    }
    let lower = name.to_lowercase();
    if let Some(at) = SHIPPED.iter().position(|(n, _)| *n == lower) {
        return Ok(Some(at));
    }
    let mut known = Vec::new();
    for (at, (shipped, text)) in SHIPPED.iter().enumerate() {
        let aliases = aliases(text);
        if aliases.contains(&lower.as_str()) {
            return Ok(Some(at));
        }
        known.push(*shipped);
        known.extend(aliases);
    }
    Err(HardwareError::UnknownGpu {
        name: name.to_owned(),
        nearest: did_you_mean(name, known),
        known: gpu_names().collect::<Vec<_>>().join(", "),
    })
}

/// Reads a profile from disk.
///
/// # Errors
/// When the file cannot be read or is not a profile.
pub fn load(path: &Path) -> Result<ProfileFile, HardwareError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| HardwareError::Read {
        path: shown.clone(),
        reason: e.to_string(),
    })?;
    ProfileFile::parse(&text, &shown)
}

fn parse_shipped(name: &str, text: &str) -> Result<ProfileFile, HardwareError> {
    ProfileFile::parse(text, &format!("profiles/gpus/{name}/profile.yaml"))
}

/// The aliases of a shipped profile, read from their line so that a look-up need not parse every file's surfaces.
fn aliases(text: &str) -> Vec<&str> {
    text.lines()
        .find_map(|l| l.strip_prefix("aliases: [")?.strip_suffix(']'))
        .map(|l| l.split(", ").collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_parses_under_its_own_name() {
        for name in gpu_names() {
            let gpu = gpu(name).unwrap();
            assert_eq!(gpu.name, name);
            assert!(!gpu.source.is_empty());
        }
    }

    #[test]
    fn surfaces_are_seen_without_parsing_them() {
        for name in gpu_names() {
            let profile = profile(name).unwrap();
            let any = profile.surfaces.is_some() || profile.surfaces_from.is_some();
            assert_eq!(has_surfaces(name).unwrap(), any, "{name}");
        }
        assert!(has_surfaces("h100").unwrap());
    }

    #[test]
    fn an_alias_finds_its_gpu() {
        assert_eq!(gpu("h100").unwrap().name, "h100-sxm");
    }

    #[test]
    fn aliases_read_by_line_are_the_parsed_ones() {
        for (name, text) in SHIPPED {
            assert_eq!(aliases(text), profile(name).unwrap().aliases, "{name}");
        }
    }

    #[test]
    fn an_unknown_gpu_gets_its_nearest_name() {
        let message = gpu("h10-sxm").unwrap_err().to_string();
        assert!(message.contains("did you mean `h100-sxm`?"), "{message}");
    }

    #[test]
    fn a_newer_format_is_refused_before_its_keys() {
        let message = ProfileFile::parse("format: 99\nnovelty: 1\n", "x.yaml")
            .unwrap_err()
            .to_string();
        assert!(message.contains("format 99 is newer"), "{message}");
    }

    #[test]
    fn an_impossible_fact_is_named() {
        let (_, text) = SHIPPED[0];
        let bad = text.replace("power_w: ", "power_w: -");
        let message = ProfileFile::parse(&bad, "x.yaml").unwrap_err().to_string();
        assert!(message.contains("hardware.power_w: -"), "{message}");
    }
}
