//! What can go wrong with a GPU profile.

/// Says why a GPU, a profile or a link is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HardwareError {
    /// No shipped profile has that name.
    #[error("unknown GPU `{name}`{nearest}; known: {known}, or the path of a profile.yaml")]
    UnknownGpu {
        /// The name as given.
        name: String,
        /// `, did you mean …?` or nothing.
        nearest: String,
        /// All known names.
        known: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// The file is not a profile.
    #[error("{path}: {reason}")]
    Parse {
        /// The file.
        path: String,
        /// Key path and reason.
        reason: String,
    },
    /// The file was written for a newer pdsim.
    #[error(
        "{path}: format {found} is newer than this pdsim reads ({supported}); update pdsim or fit the profile again"
    )]
    NewerFormat {
        /// The file.
        path: String,
        /// The format in the file.
        found: u32,
        /// The newest readable format.
        supported: u32,
    },
    /// A fact is impossible.
    #[error("{path}: hardware.{key}: {value} is not allowed; {allowed}")]
    BadFact {
        /// The file.
        path: String,
        /// Key below `hardware`.
        key: &'static str,
        /// The value seen.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// No such kind of link.
    #[error("unknown link `{name}`{nearest}; known: nvlink, pcie, rdma, ethernet, infinite")]
    UnknownLink {
        /// The name as given.
        name: String,
        /// `, did you mean …?` or nothing.
        nearest: String,
    },
    /// The GPU lacks this link.
    #[error("{gpu} has no {link}; {allowed}")]
    NoLink {
        /// The GPU.
        gpu: String,
        /// The link asked for.
        link: &'static str,
        /// What to use instead.
        allowed: &'static str,
    },
    /// The rate of a link is impossible.
    #[error("link rate {0} B/s is not allowed; it must be above zero")]
    BadRate(String),
}
