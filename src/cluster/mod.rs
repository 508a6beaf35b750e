//! The modelled cluster: what it is made of, the state of every request in it, and the rules by which both change.
//!
//! Time itself is somebody else's: the loop in `sim` tells the cluster which lane fired, the cluster answers through
//! [`Host`] when lanes fire next. A *lane* is a source of at most one pending event: a pipeline stage of an
//! instance, or the outgoing link of a prefill instance.

mod decode_run;
mod early;
mod finish;
mod group;
mod handoff;
mod host;
mod instance;
mod joining;
mod observer;
mod pool;
mod prefix;
mod record;
mod routing;
mod spec;
mod state;
mod step;
mod swap;
mod table;
mod transfer;
mod views;

pub use crate::policy::batch::{LongPrompts, StepLimits};
pub use crate::policy::queue::{QueueOrder, QueueRule};
pub use decode_run::{Progression, RunClock};
pub use host::Host;
pub use observer::{Gaps, Observer, PoolSample, StepFact};
pub use record::{Outcome, RejectReason, RequestRecord};
pub use spec::{
    FirstToken, KvReserve, KvSpec, Overlap, PoolSpec, Preemption, Reservation, Role, Sharing,
    SkipPrefill, SystemSpec, TransferSpec,
};
pub use state::Cluster;
