//! The name of the profile of a GPU.

/// Words that a driver's GPU name must have, all of them, for a shipped profile's name; the first line that fits counts.
const KNOWN: &[(&[&str], &str)] = &[
    (&["gb300"], "gb300"),
    (&["gb200"], "gb200"),
    (&["b300"], "b300-sxm"),
    (&["b200"], "b200-sxm"),
    (&["h200"], "h200-sxm"),
    (&["h100", "pcie"], "h100-pcie"),
    (&["h100", "hbm3"], "h100-sxm"),
    (&["h20"], "h20"),
    (&["a100", "80gb", "pcie"], "a100-80g-pcie"),
    (&["a100", "80gb"], "a100-80g-sxm"),
    (&["a30"], "a30"),
    (&["a40"], "a40"),
    (&["a10"], "a10"),
    (&["l40s"], "l40s"),
    (&["l4"], "l4"),
    (&["rtx", "4090"], "rtx-4090"),
    (&["rtx", "pro", "6000"], "rtx-pro-6000"),
];

/// The profile name of a GPU by the name its driver gives it: a shipped one where it is known, else that name in small
/// letters with hyphens.
#[must_use]
pub fn profile_name(driver_name: &str) -> String {
    let lower = driver_name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty() && !["nvidia", "geforce"].contains(w))
        .collect();
    let fits = |needed: &[&str]| needed.iter().all(|n| words.contains(n));
    KNOWN
        .iter()
        .find(|(needed, _)| fits(needed))
        .map_or_else(|| words.join("-"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware;

    #[test]
    fn drivers_names_find_their_profiles() {
        for (driver, profile) in [
            ("NVIDIA H200", "h200-sxm"),
            ("NVIDIA H100 80GB HBM3", "h100-sxm"),
            ("NVIDIA H100 PCIe", "h100-pcie"),
            ("NVIDIA A100-SXM4-80GB", "a100-80g-sxm"),
            ("NVIDIA A100 80GB PCIe", "a100-80g-pcie"),
            ("NVIDIA A100-SXM4-40GB", "a100-sxm4-40gb"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("NVIDIA GeForce RTX 3090", "rtx-3090"),
            ("NVIDIA L4", "l4"),
            ("NVIDIA A10", "a10"),
        ] {
            assert_eq!(profile_name(driver), profile, "{driver}");
        }
    }

    #[test]
    fn every_known_name_is_a_shipped_profile() {
        for (_, name) in KNOWN {
            assert!(hardware::gpu_names().any(|n| n == *name), "{name}");
        }
    }
}
