//! The known name that a misspelt one was meant to be.

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

#[cfg(test)]
mod tests {
    use super::{did_you_mean, nearest};

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
