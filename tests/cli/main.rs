//! The built binary as a person meets it: help, exit codes, error texts, what goes to stdout and what to stderr.

mod bad_input;
mod bad_trace;
mod calibrate;
mod explain;
mod files;
mod help;
mod models;
mod profiles;
mod resolved;
mod roles;
mod run;
mod scenarios;
mod step_times;
mod support;
