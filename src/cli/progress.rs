//! The progress bar: on stderr, and only when that is a terminal.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Makes a bar for `runs` runs; silent with `quiet` or when nobody watches.
pub(super) fn bar(runs: usize, quiet: bool) -> ProgressBar {
    if quiet || runs < 2 || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {eta} left")
        .expect("the template is a constant that the tests draw");
    ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr()).with_style(style)
}
