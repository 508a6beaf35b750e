//! Makes a failing scenario small enough to read.

use crate::scenario::Scenario;

/// Asserts that `check` finds nothing in `scenario`; otherwise drops requests while it still finds something, and panics
/// with what is left.
pub(crate) fn holds(scenario: &Scenario, check: impl Fn(&Scenario) -> Option<String>) {
    let Some(mut found) = check(scenario) else {
        return;
    };
    let mut small = scenario.clone();
    let mut size = small.requests.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < small.requests.len() {
            let mut fewer = small.clone();
            fewer
                .requests
                .drain(at..(at + size).min(small.requests.len()));
            match check(&fewer) {
                Some(still) => (small, found) = (fewer, still),
                None => at += size,
            }
        }
        size /= 2;
    }
    panic!("{found}\nin {small:#?}");
}
