//! Exact times from decimal text.

/// Parses a decimal number of units, each `unit_ps` picoseconds, into picoseconds, rounded to the nearest.
///
/// Digits are taken exactly, without passing through floating point, unless the number has an exponent. None when
/// the text is no finite decimal number, or too large for any clock.
pub(crate) fn picoseconds(text: &[u8], unit_ps: u64) -> Option<i128> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return with_exponent(text, unit_ps);
    }
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() || whole.len() > 20 {
        return None;
    }
    let unit = i128::from(unit_ps);
    let mut ps = parse(whole)?.checked_mul(unit)?;
    // Digits beyond the 18th are below a picosecond for every unit in use.
    let kept = &fraction[..fraction.len().min(18)];
    parse(&fraction[kept.len()..])?;
    let scale = 10_i128.pow(u32::try_from(kept.len()).ok()?);
    ps += (parse(kept)? * unit + scale / 2) / scale;
    Some(if negative { -ps } else { ps })
}

/// Parses digits; an empty text is 0.
fn parse(digits: &[u8]) -> Option<i128> {
    let mut value = 0_i128;
    for byte in digits {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
    }
    Some(value)
}

/// Numbers such as `1.5e-3` go through `f64`.
fn with_exponent(text: &[u8], unit_ps: u64) -> Option<i128> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let ps = (value * unit_ps as f64).round();
    // 1e30 ps is 31 billion years; a finite value below it fits i128.
    #[expect(clippy::cast_possible_truncation, reason = "bounded just before")]
    (ps.abs() < 1e30).then_some(ps as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::PS_PER_S;

    fn seconds(text: &str) -> Option<i128> {
        picoseconds(text.as_bytes(), PS_PER_S)
    }

    #[test]
    fn decimal_digits_are_exact() {
        assert_eq!(seconds("0.1"), Some(100_000_000_000));
        assert_eq!(seconds("1234.0000001"), Some(1_234_000_000_100_000));
        assert_eq!(seconds("-2.5"), Some(-2_500_000_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000_000));
        assert_eq!(seconds("7"), Some(7_000_000_000_000));
        assert_eq!(seconds("0.0000000000004"), Some(0));
        assert_eq!(seconds("0.0000000000005"), Some(1));
        assert_eq!(seconds("1.5e-3"), Some(1_500_000_000));
        assert_eq!(
            picoseconds(b"27482", PS_PER_S / 1000),
            Some(27_482_000_000_000)
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "nan",
            "inf",
            "1,5",
            "1 s",
            "0x10",
            "1e999",
            "1.2.3",
            "1.0000000000000000000x",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
