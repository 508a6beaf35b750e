//! The known name that a misspelt one was meant to be.

/// Less similar than this a name confuses more than it helps.
const SIMILAR: f64 = 0.7;

/// `, did you mean …?` for the known name closest to `name`, whatever its case; empty when none is close.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let wanted = name.to_lowercase();
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(&wanted, &k.to_lowercase()), k))
        .filter(|(score, _)| *score > SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, k)| format!(", did you mean `{k}`?"))
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn only_a_close_name_is_suggested() {
        let known = ["h100-sxm", "a100-80g-sxm"];
        assert_eq!(
            did_you_mean("H100-SMX", known),
            ", did you mean `h100-sxm`?"
        );
        assert_eq!(did_you_mean("zzz", known), "");
    }
}
