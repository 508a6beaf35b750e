//! Links that carry KV caches.

use super::error::HardwareError;
use super::gpu::GpuSpec;
use crate::names::did_you_mean;

/// Kind of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// NVLink or Infinity Fabric inside a node.
    Nvlink,
    /// PCIe inside a node.
    Pcie,
    /// RDMA network card (InfiniBand, RoCE).
    Rdma,
    /// Ethernet with TCP.
    Ethernet,
    /// No time at all.
    Infinite,
}

impl LinkKind {
    const ALL: [Self; 5] = [
        Self::Nvlink,
        Self::Pcie,
        Self::Rdma,
        Self::Ethernet,
        Self::Infinite,
    ];

    /// The name used in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvlink => "nvlink",
            Self::Pcie => "pcie",
            Self::Rdma => "rdma",
            Self::Ethernet => "ethernet",
            Self::Infinite => "infinite",
        }
    }

    /// Finds a kind by name.
    ///
    /// # Errors
    /// When no kind has that name.
    pub fn from_name(name: &str) -> Result<Self, HardwareError> {
        Self::ALL
            .into_iter()
            .find(|k| k.name() == name)
            .ok_or_else(|| HardwareError::UnknownLink {
                name: name.to_owned(),
                nearest: did_you_mean(name, Self::ALL.map(Self::name)),
            })
    }
}

/// A link between two GPUs: `time = base + bytes / rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// One direction in bytes per second; infinite is allowed.
    pub bytes_per_sec: f64,
    /// Fixed time per transfer in seconds.
    pub base_seconds: f64,
}

impl Link {
    /// The link of a kind between two GPUs of types `from` and `to`; `rate` (bytes per second) overrides the data
    /// sheet and is the rate of one network card for RDMA and Ethernet.
    ///
    /// Base times: NVLink and PCIe 10 µs (the point-to-point latency of AIConfigurator's system files), RDMA 10 µs,
    /// Ethernet 50 µs (a round of a TCP stack); scenarios override them.
    ///
    /// # Errors
    /// When a GPU lacks NVLink or the rate is not above zero.
    pub fn between(
        kind: LinkKind,
        from: &GpuSpec,
        to: &GpuSpec,
        rate: Option<f64>,
    ) -> Result<Self, HardwareError> {
        let nvlink = |gpu: &GpuSpec| {
            gpu.nvlink_bandwidth.ok_or_else(|| HardwareError::NoLink {
                gpu: gpu.name.clone(),
                link: "NVLink",
                allowed: "use pcie, rdma or ethernet, or give a rate",
            })
        };
        let (sheet, base_seconds) = match kind {
            LinkKind::Nvlink if rate.is_some() => (f64::INFINITY, 10e-6),
            LinkKind::Nvlink => (nvlink(from)?.min(nvlink(to)?), 10e-6),
            LinkKind::Pcie => (from.pcie_bandwidth.min(to.pcie_bandwidth), 10e-6),
            LinkKind::Rdma => (from.nic_bandwidth.min(to.nic_bandwidth), 10e-6),
            LinkKind::Ethernet => (from.nic_bandwidth.min(to.nic_bandwidth), 50e-6),
            LinkKind::Infinite => (f64::INFINITY, 0.0),
        };
        let bytes_per_sec = rate.unwrap_or(sheet);
        if bytes_per_sec.is_nan() || bytes_per_sec <= 0.0 {
            return Err(HardwareError::BadRate(bytes_per_sec.to_string()));
        }
        Ok(Self {
            kind,
            bytes_per_sec,
            base_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::gpu;

    #[test]
    fn the_slower_end_decides() {
        let (h, a) = (gpu("h100-sxm").unwrap(), gpu("a100-80g-sxm").unwrap());
        let link = Link::between(LinkKind::Nvlink, &h, &a, None).unwrap();
        assert!((link.bytes_per_sec - 300e9).abs() < 1.0);
    }

    #[test]
    fn a_missing_nvlink_is_named() {
        let l4 = gpu("l4").unwrap();
        let message = Link::between(LinkKind::Nvlink, &l4, &l4, None)
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("l4 has no NVLink"), "{message}");
    }

    #[test]
    fn a_misspelt_link_gets_its_nearest_name() {
        let message = LinkKind::from_name("nvlnk").unwrap_err().to_string();
        assert!(message.contains("did you mean `nvlink`?"), "{message}");
    }
}
