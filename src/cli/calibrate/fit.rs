//! From samples to `profile.yaml`, by the code of `pdsim profile fit`.

use std::path::PathBuf;

use super::finish::Finished;
use crate::calibrate::summary::peaks;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::hardware::{self, HardwareSection, PeakSection, ProfileFile, Provenance};
use crate::latency::profile::{self, Checked};

/// A fitted profile and where it stands.
#[derive(Debug)]
pub(super) struct Fitted {
    pub(super) path: PathBuf,
    pub(super) checked: Vec<Checked>,
}

/// Fits a profile to the samples and writes it beside them; none where there are too few of them.
pub(super) fn fit(f: &Finished<'_>) -> Result<Option<Fitted>, Failure> {
    let samples = match profile::read_samples(f.store.folder(), f.name) {
        Ok(samples) => samples,
        // Nothing that a surface is fitted to was measured.
        Err(error) => {
            output::tell(&format!("note: no profile: {error}"));
            return Ok(None);
        }
    };
    let file = template(f);
    let gpu = file.gpu();
    // The time a quick run promises leaves none for the ten further fits of a cross-validation.
    let report = profile::fit(&samples.rows, &gpu, f.record.plan == "full");
    if report.surfaces.is_empty() {
        output::tell("note: no profile: too few samples for any surface");
        return Ok(None);
    }
    let path = f.out.join("profile.yaml");
    super::finish::write(&path, &profile::profile_yaml(&file, &report.surfaces))?;
    let (checked, _) = profile::check(&report.surfaces, &samples.rows, &gpu);
    Ok(Some(Fitted { path, checked }))
}

/// The facts of the profile: those of the shipped profile of that name, else what the driver and the samples say.
fn template(f: &Finished<'_>) -> ProfileFile {
    let source = format!(
        "measured on one {} by pdsim {} calibrate, {} plan, driver {}",
        f.record.gpu,
        f.record.pdsim,
        f.record.plan,
        f.record.at_start.driver.as_deref().unwrap_or("unknown"),
    );
    let (source, aliases, hardware) = match hardware::profile(f.name) {
        Ok(shipped) => (source, shipped.aliases, shipped.hardware),
        Err(_) => (
            format!(
                "{source}; no data sheet at hand, peaks and bandwidths are the best that was measured"
            ),
            Vec::new(),
            measured_facts(f),
        ),
    };
    ProfileFile {
        format: hardware::FORMAT,
        name: f.name.to_owned(),
        aliases,
        provenance: Provenance::Measured,
        source,
        date: None,
        surfaces_from: None,
        hardware,
        surfaces: None,
    }
}

/// Facts of a GPU that pdsim has no data sheet of. Links that were not measured get those of PCIe 4.
fn measured_facts(f: &Finished<'_>) -> HardwareSection {
    const PCIE_4_GB_S: f64 = 32.0;
    let peaks = peaks(f.store.samples());
    HardwareSection {
        architecture: format!("compute capability {}", f.record.compute_capability),
        memory_gib: f.record.memory_mib as f64 / 1024.0,
        memory_bandwidth_gb_s: peaks.memory / 1e9,
        peak_tflops: PeakSection {
            bf16: peaks.bf16 / 1e12,
            fp8: peaks.fp8.map(|x| x / 1e12),
            int8: None,
            fp4: None,
        },
        nvlink_gb_s: peaks
            .peer
            .map(|x| x / 1e9)
            .filter(|x| *x > 2.0 * PCIE_4_GB_S),
        pcie_gb_s: peaks.host.map_or(PCIE_4_GB_S, |x| x / 1e9),
        nic_gb_s: PCIE_4_GB_S,
        gpus_per_node: f.record.gpus.max(1),
        power_w: f.record.at_start.power_limit_w.unwrap_or(300.0),
        price_per_hour_usd: None,
    }
}
