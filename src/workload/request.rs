//! What a client asks for.

use crate::units::SimTime;

/// One request as the client sends it, plus the output length that the simulation (never a policy) knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestSpec {
    /// When the request enters the cluster; never decreases along a workload.
    pub arrival: SimTime,
    /// Prompt tokens, at least 1.
    pub input_tokens: u32,
    /// Output tokens the request will generate, at least 1.
    pub output_tokens: u32,
    /// The client's `max_tokens`: all that a policy may know of the output length.
    pub max_output: u32,
    /// Request class (priority, tenant); 0 when the workload has none.
    pub class: u16,
    /// A number that the requests of one session share; 0 for a request without a session.
    pub session: u64,
}
