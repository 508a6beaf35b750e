//! The modelled cluster: what it is made of, the state of every request in it, and the rules by which both change.
//!
//! Time itself is somebody else's: the loop in `sim` tells the cluster which lane fired, the cluster answers through
//! [`Host`] when lanes fire next. A *lane* is a source of at most one pending event: a pipeline stage of an
//! instance, or the link of one.
//!
//! What only some systems do, or few instants need, is kept out of line (`#[inline(never)]`): the code that every request runs through
//! has to stay within the processor's instruction cache.

mod decode_run;
mod early;
mod finish;
mod group;
mod handoff;
mod host;
mod instance;
mod joining;
mod journey;
mod observer;
mod overlap;
mod pool;
mod prefix;
mod record;
mod refusal;
mod roles;
mod routing;
mod spec;
mod staging;
mod stall;
mod state;
mod step;
mod streams;
mod swap;
mod table;
mod transfer;
mod views;

pub use crate::policy::batch::{LongPrompts, StepLimits};
pub use crate::policy::queue::{QueueOrder, QueueRule};
pub use crate::policy::roles::{Band, DecodeLoad, DynamicRule, MixedPoolRule, RoleRule};
pub use decode_run::{Progression, RunClock};
pub use host::Host;
pub use journey::TransferFact;
pub use observer::{Gaps, Observer, PoolSample, StepFact};
pub use record::{Outcome, RejectReason, RequestRecord};
pub use refusal::Shortage;
pub use spec::{
    Bill, CpuTier, FirstToken, KvReserve, KvSpec, Overlap, PoolSpec, Preemption, Reservation, Role,
    Sharing, SkipPrefill, Staging, SystemSpec, TransferMode, TransferSpec,
};
pub use stall::{Hold, Place, Stall, Wait};
pub use state::Cluster;
