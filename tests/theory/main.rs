//! Queueing theory: systems that a closed formula describes, simulated and compared.
//!
//! Each test runs independent seeds and asserts that the formula lies in the 99.9 % confidence interval of their mean
//! (Student t), and that the interval is narrow, so that a wrong model cannot hide in it. Seeds are fixed: a test gives
//! the same answer for ever.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail by panic and show what they measured"
)]

mod distserve;
mod estimate;
mod memory;
mod multiplexed;
mod preemption;
mod routing;
mod servers;
mod sharing;
mod system;
