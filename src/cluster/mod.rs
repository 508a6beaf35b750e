//! The modelled cluster: what it is made of and the state of every request in it.

mod record;
mod spec;

pub use record::{Outcome, RejectReason, RequestRecord};
pub use spec::{FirstToken, KvSpec, PoolSpec, Role, StepLimits, SystemSpec, TransferSpec};
