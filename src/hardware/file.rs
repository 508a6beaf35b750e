//! The file `profile.yaml`: parsing and validation of its hardware section.

use serde::{Deserialize, Serialize};

use super::error::HardwareError;
use super::gpu::{GpuSpec, Peaks};

/// Newest profile format this build reads and the one it writes.
pub const FORMAT: u32 = 1;

/// Where the times of a profile come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Measured by pdsim's own harness.
    Measured,
    /// Fitted from somebody's published kernel timings.
    Published,
    /// Data-sheet peaks with stated or borrowed efficiencies.
    Datasheet,
}

impl Provenance {
    /// The name used in files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::Datasheet => "datasheet",
        }
    }
}

/// A profile file as written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// Format version.
    pub format: u32,
    /// Name of the GPU type.
    pub name: String,
    /// Other names it answers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Where the times come from.
    pub provenance: Provenance,
    /// Who measured or published, with licence.
    pub source: String,
    /// Day of the fit, `YYYY-MM-DD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The profile whose surfaces stand in for missing ones, scaled by the ratio of rooflines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surfaces_from: Option<String>,
    /// Facts.
    pub hardware: HardwareSection,
    /// Fitted surfaces, read by the latency models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surfaces: Option<serde_yaml::Value>,
}

/// The facts as written; the unit is in the key.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareSection {
    /// Architecture family.
    pub architecture: String,
    /// Device memory.
    pub memory_gib: f64,
    /// Memory bandwidth.
    pub memory_bandwidth_gb_s: f64,
    /// Dense peaks.
    pub peak_tflops: PeakSection,
    /// NVLink per GPU, one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_gb_s: Option<f64>,
    /// PCIe per GPU, one direction.
    pub pcie_gb_s: f64,
    /// Network card per GPU, one direction.
    pub nic_gb_s: f64,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// Board power.
    pub power_w: f64,
    /// Price per GPU-hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour_usd: Option<f64>,
}

/// The peaks as written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeakSection {
    /// At 16 bits.
    pub bf16: f64,
    /// At FP8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8: Option<f64>,
    /// At INT8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int8: Option<f64>,
    /// At FP4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp4: Option<f64>,
}

/// Reads only the format, so that a newer file is refused before its unknown keys are.
#[derive(Deserialize)]
struct FormatOnly {
    format: Option<u32>,
}

/// The text in front of the surfaces, which are nearly all of a fitted profile and come last. All of it where they stand
/// elsewhere.
pub(super) fn facts_of(text: &str) -> &str {
    text.split_once("\nsurfaces:")
        .map_or(text, |(facts, surfaces)| {
            // Another top-level key behind them: not the shipped layout.
            let last = !surfaces
                .lines()
                .skip(1)
                .any(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
            if last { facts } else { text }
        })
}

impl ProfileFile {
    /// Parses and validates a profile; `path` names it in messages.
    ///
    /// # Errors
    /// When the text is not a profile, is of a newer format or states an impossible fact.
    pub fn parse(text: &str, path: &str) -> Result<Self, HardwareError> {
        let parse = |reason: String| HardwareError::Parse {
            path: path.to_owned(),
            reason,
        };
        let head: FormatOnly =
            serde_yaml::from_str(facts_of(text)).map_err(|e| parse(e.to_string()))?;
        match head.format {
            Some(found) if found > FORMAT => {
                return Err(HardwareError::NewerFormat {
                    path: path.to_owned(),
                    found,
                    supported: FORMAT,
                });
            }
            Some(_) => {}
            None => return Err(parse("the key `format` is missing".to_owned())),
        }
        let deserializer = serde_yaml::Deserializer::from_str(text);
        let file: Self = serde_path_to_error::deserialize(deserializer)
            .map_err(|e| parse(format!("{}: {}", e.path(), e.inner())))?;
        file.validate(path)?;
        Ok(file)
    }

    fn validate(&self, path: &str) -> Result<(), HardwareError> {
        let h = &self.hardware;
        let p = &h.peak_tflops;
        let positive = [
            ("memory_gib", Some(h.memory_gib)),
            ("memory_bandwidth_gb_s", Some(h.memory_bandwidth_gb_s)),
            ("peak_tflops.bf16", Some(p.bf16)),
            ("peak_tflops.fp8", p.fp8),
            ("peak_tflops.int8", p.int8),
            ("peak_tflops.fp4", p.fp4),
            ("nvlink_gb_s", h.nvlink_gb_s),
            ("pcie_gb_s", Some(h.pcie_gb_s)),
            ("nic_gb_s", Some(h.nic_gb_s)),
            ("gpus_per_node", Some(f64::from(h.gpus_per_node))),
            ("power_w", Some(h.power_w)),
            ("price_per_hour_usd", h.price_per_hour_usd),
        ];
        for (key, value) in positive {
            if let Some(value) = value
                && !(value.is_finite() && value > 0.0)
            {
                return Err(HardwareError::BadFact {
                    path: path.to_owned(),
                    key,
                    value: value.to_string(),
                    allowed: "it must be a finite number above zero",
                });
            }
        }
        Ok(())
    }

    /// The facts in base units.
    #[must_use]
    pub fn gpu(&self) -> GpuSpec {
        let h = &self.hardware;
        let tera = |x: f64| x * 1e12;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "validated: finite and positive; memory sizes are far below 2^63"
        )]
        let memory_bytes = (h.memory_gib * f64::from(1u32 << 30)).round() as u64;
        GpuSpec {
            name: self.name.clone(),
            architecture: h.architecture.clone(),
            memory_bytes,
            memory_bandwidth: h.memory_bandwidth_gb_s * 1e9,
            peaks: Peaks {
                bf16: tera(h.peak_tflops.bf16),
                fp8: h.peak_tflops.fp8.map(tera),
                int8: h.peak_tflops.int8.map(tera),
                fp4: h.peak_tflops.fp4.map(tera),
            },
            nvlink_bandwidth: h.nvlink_gb_s.map(|x| x * 1e9),
            pcie_bandwidth: h.pcie_gb_s * 1e9,
            nic_bandwidth: h.nic_gb_s * 1e9,
            gpus_per_node: h.gpus_per_node,
            power_w: h.power_w,
            price_per_hour_usd: h.price_per_hour_usd,
            provenance: self.provenance,
            source: self.source.clone(),
        }
    }
}
