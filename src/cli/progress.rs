//! The progress bar: on stderr, and only when that is a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Makes a bar for `runs` runs; silent with `quiet` or when nobody watches.
pub(super) fn bar(runs: usize, quiet: bool) -> ProgressBar {
    bar_of(runs, "runs", quiet)
}

/// Makes a bar for `count` things; silent with `quiet` or when nobody watches.
pub(super) fn bar_of(count: usize, things: &str, quiet: bool) -> ProgressBar {
    if quiet || count < 2 || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(&format!(
        "{{bar:30}} {{pos}}/{{len}} {things}, {{eta}} left"
    ))
    .expect("the template is a constant but for a word, and the tests draw it");
    ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::stderr())
        .with_style(style)
}
