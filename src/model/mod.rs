//! Transformer shapes: parameters, weight bytes, KV bytes per token and what fits in memory.
//!
//! Descriptions come from `profiles/models/<name>.yaml`; the shipped ones are embedded in the binary. Only facts of
//! the architecture live here; how long anything takes is a matter of [`crate::latency`].

mod count;
mod dtype;
mod error;
mod file;
mod fit;
mod import;
mod registry;
mod spec;

pub use dtype::{KvDtype, WeightDtype};
pub use error::ModelError;
pub use fit::{DoesNotFit, KvCapacity, MemoryPlan, activation_estimate, kv_capacity};
pub use import::{ARCHITECTURES, Imported, import};
pub use registry::{load, model, model_names, parse};
pub use spec::{
    Attention, Bias, Ffn, GroupedAttention, LatentAttention, ModelSpec, Moe, Parallelism, Window,
};
