//! The built binary as a person meets it: help, exit codes, error texts, what goes to stdout and what to stderr.

mod answers;
mod bad_input;
mod bad_memory;
mod bad_trace;
mod calibrate;
mod closed_loop;
mod data_parallel;
mod dtypes;
mod effects;
mod explain;
mod files;
mod help;
mod models;
mod multiplexed;
mod profiles;
mod queues;
mod resolved;
mod roles;
mod run;
mod scenarios;
mod step_times;
mod support;
mod transfers;
