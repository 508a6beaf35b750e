//! What to write instead, where the shape alone does not tell.

use crate::hardware::LinkKind;

/// Adds to a message about the key at `path` what would be right there.
pub(super) fn with_example(path: &str, message: String) -> String {
    let key = path.rsplit('.').next().unwrap_or_default();
    let missing = |name: &str| message == format!("the key `{name}` is missing");
    let word = message
        .strip_prefix("is a string \"")
        .and_then(|rest| rest.split('"').next());
    match key {
        "transfer" if missing("link") => {
            format!("{message}; write how KV caches travel, as in `transfer: {{link: nvlink}}`")
        }
        "transfer" if message.ends_with("expected a map of keys") => {
            // A word there is meant as the link.
            let link = word.filter(|word| *word == "none" || LinkKind::from_name(word).is_ok());
            format!(
                "{message}, as in `transfer: {{link: {}}}`",
                link.unwrap_or("nvlink")
            )
        }
        "link" if missing("bandwidth") => {
            format!(
                "{message}; write it beside the latency, as in `{{bandwidth: 25 GB/s, latency: 10 us}}`"
            )
        }
        "link" if message.ends_with("expected a word or a map") => {
            format!(
                "{message}, as in `link: nvlink` or `link: {{bandwidth: 25 GB/s, latency: 10 us}}`"
            )
        }
        "earliest_deadline" if missing("ttft") || message.ends_with("expected a map of keys") => {
            format!(
                "{message}; write a duration for each request class, as in `earliest_deadline: {{ttft: [250 ms, 5 s]}}`"
            )
        }
        "ttft"
            if path.ends_with("earliest_deadline.ttft") && message.ends_with("expected a list") =>
        {
            format!(
                "{message}, one duration for each request class, as in `[{}]`",
                word.unwrap_or("250 ms, 5 s")
            )
        }
        _ => message,
    }
}
