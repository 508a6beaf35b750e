//! Scheduling policies: how steps are formed and where requests go.
//!
//! A *batch policy* forms the next step of one instance; a *queue order* ranks the prompts that wait for one; a *router* chooses
//! an instance for a request, a *role rule* lets instances change what they are for. One
//! policy is one file and one line in its folder's registry.

pub mod batch;
pub mod queue;
pub mod roles;
pub mod router;
