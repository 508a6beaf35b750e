//! What can go wrong with samples and surfaces.

/// Says why samples or surfaces are not usable.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        reason: String,
    },
    /// A column is missing.
    #[error("{path}: column `{column}` is missing; it has {found}")]
    MissingColumn {
        /// The file.
        path: String,
        /// The column.
        column: String,
        /// The header.
        found: String,
    },
    /// A cell is not what its column holds.
    #[error("{path} line {line}: {column} `{value}` is not allowed; it must be {allowed}")]
    BadCell {
        /// The file.
        path: String,
        /// Line, counted from 1 with the header.
        line: u64,
        /// The column.
        column: String,
        /// The value seen.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// No row is about this GPU.
    #[error("no sample in {path} is about {gpu}; it has {found}")]
    NoSamples {
        /// The folder.
        path: String,
        /// The GPU asked for.
        gpu: String,
        /// GPUs seen.
        found: String,
    },
    /// The surfaces section is broken.
    #[error("{path}: surfaces: {reason}")]
    BadSurface {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}
