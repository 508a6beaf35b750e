//! What can go wrong with a model description.

/// Says why a model is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No shipped model has that name.
    #[error("unknown model `{name}`{nearest}; known: {known}, or the path of a model yaml")]
    Unknown {
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
    /// The file is not a model description.
    #[error("{path}: {reason}")]
    Parse {
        /// The file.
        path: String,
        /// Key path and reason.
        reason: String,
    },
    /// A value is impossible.
    #[error("{path}: {key}: {value} is not allowed; {allowed}")]
    BadValue {
        /// The file.
        path: String,
        /// Key path.
        key: &'static str,
        /// The value seen.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Key/value heads can neither be dealt evenly to so many tensor-parallel ranks nor copied evenly.
    #[error(
        "tp {tp} and the {kv_heads} key/value heads of {model} do not divide one another, so ranks would be unequal; possible: {possible}"
    )]
    BadKvTp {
        /// The model.
        model: String,
        /// The degree asked for.
        tp: u32,
        /// Its key/value heads.
        kv_heads: u32,
        /// Degrees that work.
        possible: String,
    },
    /// The model cannot be cut into so many tensor-parallel ranks.
    #[error("tp {tp} does not divide the {heads} attention heads of {model}; possible: {possible}")]
    BadTp {
        /// The model.
        model: String,
        /// The degree asked for.
        tp: u32,
        /// Its heads.
        heads: u32,
        /// Degrees that work.
        possible: String,
    },
    /// No rank to hold sequences.
    #[error("dp 0 leaves {model} no ranks; expected at least 1")]
    NoRanks {
        /// The model.
        model: String,
    },
    /// Attention data parallelism of a dense model: that is several instances.
    #[error(
        "dp {dp} needs a mixture of experts, and {model} has none; give it more instances instead"
    )]
    DenseDp {
        /// The model.
        model: String,
        /// The degree asked for.
        dp: u32,
    },
    /// Expert parallelism of a dense model.
    #[error("ep {ep} needs a mixture of experts, and {model} has none; allowed: 1")]
    DenseEp {
        /// The model.
        model: String,
        /// The degree asked for.
        ep: u32,
    },
    /// The experts cannot be spread so.
    #[error(
        "ep {ep} is not possible: {model} has {experts} experts, a stage has {ranks} ranks (tp × dp); allowed: {allowed}"
    )]
    BadEp {
        /// The model.
        model: String,
        /// The degree asked for.
        ep: u32,
        /// tp × dp.
        ranks: u32,
        /// Its experts.
        experts: u32,
        /// Degrees that work.
        allowed: String,
    },
    /// The model has fewer layers than pipeline stages.
    #[error("pp {pp} is not possible: {model} has {layers} layers; allowed: 1 to {layers}")]
    BadPp {
        /// The model.
        model: String,
        /// The degree asked for.
        pp: u32,
        /// Its layers.
        layers: u32,
    },
}

impl ModelError {
    /// The degree at fault, by its key in a pool; nothing where it is the model itself.
    #[must_use]
    pub const fn degree(&self) -> Option<&'static str> {
        match self {
            Self::BadTp { .. } | Self::BadKvTp { .. } => Some("tp"),
            Self::BadPp { .. } => Some("pp"),
            Self::NoRanks { .. } | Self::DenseDp { .. } => Some("dp"),
            Self::DenseEp { .. } | Self::BadEp { .. } => Some("ep"),
            Self::Unknown { .. }
            | Self::Read { .. }
            | Self::Parse { .. }
            | Self::BadValue { .. } => None,
        }
    }
}
