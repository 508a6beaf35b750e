//! Names in messages: the one that a misspelt one was meant to be, and lists of them.

/// So many are told by name at most; a trace may have a class for each of its tenants.
const MOST_TOLD: usize = 16;

/// A name that starts alike and is this similar may be meant although much of it differs: `llama-8b` for `llama-3.1-8b`.
const SIMILAR: f64 = 0.85;

/// The known name closest to `name`, whatever its case; nothing when none is close.
///
/// Slips of the keyboard come first: the fewest of them, up to a third of the word, as beyond that a suggestion confuses more than it helps.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let known: Vec<(String, &str)> = known.into_iter().map(|k| (k.to_lowercase(), k)).collect();
    let slips = known
        .iter()
        .map(|(lower, k)| (strsim::damerau_levenshtein(&wanted, lower), *k))
        .filter(|(slips, k)| *slips <= (wanted.len().max(k.len()) / 3).max(1))
        .min_by_key(|(slips, _)| *slips);
    let alike = || {
        known
            .iter()
            .map(|(lower, k)| (strsim::jaro_winkler(&wanted, lower), *k))
            .filter(|(score, _)| *score > SIMILAR)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, k)| k)
    };
    slips.map(|(_, k)| k).or_else(alike)
}

/// `, did you mean …?` for the known name closest to `name`; empty when none is close.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |k| format!(", did you mean `{k}`?"))
}

/// The first of `parts`, and how many more there are.
pub(crate) fn some(parts: impl ExactSizeIterator<Item = String>) -> String {
    let more = parts.len().saturating_sub(MOST_TOLD);
    let mut told: Vec<String> = parts.take(MOST_TOLD).collect();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.join(", ")
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, nearest, some};

    #[test]
    fn long_lists_say_how_many_more_there_are() {
        let numbers = |n: usize| some((1..n + 1).map(|i| i.to_string()));
        assert_eq!(numbers(3), "1, 2, 3");
        assert!(numbers(16).ends_with(", 15, 16"));
        assert!(numbers(18).ends_with(", 16, and 2 more"));
    }

    #[test]
    fn only_a_close_name_is_suggested() {
        let known = ["h100-sxm", "a100-80g-sxm"];
        assert_eq!(
            did_you_mean("H100-SMX", known),
            ", did you mean `h100-sxm`?"
        );
        assert_eq!(did_you_mean("zzz", known), "");
        assert_eq!(nearest("rat", ["rate", "requests"]), Some("rate"));
        assert_eq!(nearest("zebra", ["rate", "requests"]), None);
    }

    #[test]
    fn a_name_that_starts_alike_is_suggested_when_no_slip_explains_it() {
        let known = ["llama-3.1-8b", "opt-13b", "deepseek-v3"];
        assert_eq!(nearest("llama-8b", known), Some("llama-3.1-8b"));
        assert_eq!(nearest("deepseek", known), Some("deepseek-v3"));
    }
}
