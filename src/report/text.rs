//! Numbers and fields as bytes, without intermediate strings.
//!
//! Times go from integer picoseconds to decimal digits without floating point, so files are the same on any machine.

/// Picoseconds in the last digit of a time with six decimals of a millisecond (or nine of a second).
const PS_PER_DIGIT: u64 = 1000;

/// Appends a whole number.
pub(super) fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = digit(value % 10);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends picoseconds as milliseconds with six decimals, rounded half up.
pub(super) fn push_ms(out: &mut Vec<u8>, ps: u64) {
    push_fixed::<6>(out, round_div(ps, PS_PER_DIGIT));
}

/// Appends picoseconds as seconds with nine decimals, rounded half up.
pub(super) fn push_s(out: &mut Vec<u8>, ps: u64) {
    push_fixed::<9>(out, round_div(ps, PS_PER_DIGIT));
}

/// Appends `ps / parts` as milliseconds with six decimals, rounded half up once.
pub(super) fn push_ms_per(out: &mut Vec<u8>, ps: u64, parts: u64) {
    push_fixed::<6>(out, round_div(ps, parts * PS_PER_DIGIT));
}

/// Appends a field of text, quoted when it must be.
pub(super) fn push_text(out: &mut Vec<u8>, text: &str) {
    if text.contains(['"', ',', '\n', '\r']) {
        out.push(b'"');
        out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends `value / 10^DECIMALS`.
fn push_fixed<const DECIMALS: usize>(out: &mut Vec<u8>, value: u64) {
    let mut digits = [b'0'; DECIMALS];
    let mut rest = value;
    for slot in digits.iter_mut().rev() {
        *slot = digit(rest % 10);
        rest /= 10;
    }
    push_u64(out, rest);
    out.push(b'.');
    out.extend_from_slice(&digits);
}

fn round_div(value: u64, by: u64) -> u64 {
    value / by + u64::from(value % by >= by.div_ceil(2))
}

fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value).expect("a decimal digit")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_keep_their_digits() {
        assert_eq!(text(|o| push_ms(o, 0)), "0.000000");
        assert_eq!(text(|o| push_ms(o, 1_234_567_890_123)), "1234.567890");
        assert_eq!(text(|o| push_ms(o, 499)), "0.000000");
        assert_eq!(text(|o| push_ms(o, 500)), "0.000001");
        assert_eq!(text(|o| push_s(o, u64::MAX)), "18446744.073709552");
        assert_eq!(text(|o| push_ms_per(o, 10_000_000, 3)), "0.003333");
    }

    #[test]
    fn text_is_quoted_only_when_it_must_be() {
        assert_eq!(text(|o| push_text(o, "1P1D tp2")), "1P1D tp2");
        assert_eq!(text(|o| push_text(o, "a,\"b\"")), "\"a,\"\"b\"\"\"");
    }

    proptest! {
        #[test]
        fn numbers_print_like_the_standard_library(value: u64) {
            prop_assert_eq!(text(|o| push_u64(o, value)), value.to_string());
            let digits = (u128::from(value) + 500) / 1000;
            let expected = format!("{}.{:06}", digits / 1_000_000, digits % 1_000_000);
            prop_assert_eq!(text(|o| push_ms(o, value)), expected);
        }
    }
}
