//! Quantities with units, as people write them: `50 ms`, `6 /s`, `400 Gbps`, `25 GB/s`, `80 GiB`.
//!
//! A number without a unit is refused, so are NaN, infinities and negatives. Bits and bytes, and powers of 1000 and
//! of 1024, have distinct units and no unit stands for two things (`Gb/s` is refused: write `Gbps` or `GB/s`).
//! Durations are read digit by digit into integer picoseconds, so `0.1 ms` is exactly 10⁸ ps.
//!
//! ```
//! use pdsim::units::parse;
//! assert_eq!(parse::duration("250 ms").unwrap().as_ms_f64(), 250.0);
//! assert_eq!(parse::rate("90 /min").unwrap(), 1.5);
//! assert_eq!(parse::bandwidth("400 Gbps").unwrap(), 50e9);
//! assert_eq!(parse::bytes("80 GiB").unwrap(), 80 << 30);
//! assert!(parse::duration("250").is_err());
//! ```

use super::time::{PS_PER_S, SimDuration};

/// Says why a text is not a quantity; the text is complete: value seen, what is wrong, what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{seen}` {problem}; write a {kind} such as `{example}` (units: {units})")]
pub struct QuantityError {
    seen: String,
    problem: String,
    kind: &'static str,
    example: &'static str,
    units: String,
}

/// A unit's name and its size in the base unit of its dimension.
type Unit = (&'static str, u64);

/// A dimension: what its quantities are called, an example, and its units.
struct Dimension {
    kind: &'static str,
    example: &'static str,
    units: &'static [Unit],
}

/// Durations, in picoseconds.
static DURATION: Dimension = Dimension {
    kind: "duration",
    example: "50 ms",
    units: &[
        ("h", 3600 * PS_PER_S),
        ("min", 60 * PS_PER_S),
        ("s", PS_PER_S),
        ("ms", PS_PER_S / 1_000),
        ("us", PS_PER_S / 1_000_000),
        ("ns", PS_PER_S / 1_000_000_000),
        ("ps", 1),
    ],
};

/// Rates; the number is how many seconds the unit spans.
static RATE: Dimension = Dimension {
    kind: "rate",
    example: "6 /s",
    units: &[("/s", 1), ("/min", 60), ("/h", 3600)],
};

/// Bandwidths, in bits per second.
static BANDWIDTH: Dimension = Dimension {
    kind: "bandwidth",
    example: "25 GB/s",
    units: &[
        ("TB/s", 8_000_000_000_000),
        ("GB/s", 8_000_000_000),
        ("MB/s", 8_000_000),
        ("kB/s", 8_000),
        ("B/s", 8),
        ("TiB/s", 8 << 40),
        ("GiB/s", 8 << 30),
        ("MiB/s", 8 << 20),
        ("KiB/s", 8 << 10),
        ("Tbps", 1_000_000_000_000),
        ("Gbps", 1_000_000_000),
        ("Mbps", 1_000_000),
        ("kbps", 1_000),
        ("bps", 1),
    ],
};

/// Sizes, in bytes.
static BYTES: Dimension = Dimension {
    kind: "size",
    example: "80 GiB",
    units: &[
        ("TiB", 1 << 40),
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("TB", 1_000_000_000_000),
        ("GB", 1_000_000_000),
        ("MB", 1_000_000),
        ("kB", 1_000),
        ("B", 1),
    ],
};

impl Dimension {
    fn error(&self, seen: &str, problem: impl Into<String>) -> QuantityError {
        let names: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        QuantityError {
            seen: seen.to_owned(),
            problem: problem.into(),
            kind: self.kind,
            example: self.example,
            units: names.join(", "),
        }
    }

    /// Splits `text` into the digits of its number and the size of its unit.
    fn split<'t>(&self, text: &'t str) -> Result<(&'t str, u64), QuantityError> {
        let trimmed = text.trim();
        let body = trimmed.strip_prefix('+').unwrap_or(trimmed);
        if body.starts_with('-') {
            return Err(self.error(trimmed, "is negative"));
        }
        let end = body
            .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
            .unwrap_or(body.len());
        let (digits, unit) = (&body[..end], body[end..].trim_start());
        if digits.is_empty() || digits.starts_with('_') {
            return Err(self.error(trimmed, "does not start with a finite number"));
        }
        if unit.is_empty() {
            return Err(self.error(trimmed, "has no unit"));
        }
        // The micro sign and the Greek letter both occur in the wild.
        let unit = match unit {
            "µs" | "μs" => "us",
            other => other,
        };
        match self.units.iter().find(|(name, _)| *name == unit) {
            Some(&(_, size)) => Ok((digits, size)),
            None if is_exponent(unit) => {
                Err(self.error(trimmed, "has an exponent; write the digits out"))
            }
            None => Err(self.error(trimmed, format!("has the unknown unit `{unit}`"))),
        }
    }

    /// Parses `text` as a floating-point number and the size of its unit.
    fn float(&self, text: &str) -> Result<(f64, u64), QuantityError> {
        let (digits, size) = self.split(text)?;
        match digits.replace('_', "").parse::<f64>() {
            Ok(value) if value.is_finite() => Ok((value, size)),
            _ => Err(self.error(text.trim(), "does not start with a finite number")),
        }
    }

    /// Parses `text` exactly into whole base units, any fraction of one rounded up.
    fn integer(&self, text: &str) -> Result<u64, QuantityError> {
        let (digits, size) = self.split(text)?;
        let digits = digits.replace('_', "");
        let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
        let bad = || self.error(text.trim(), "does not start with a finite number");
        let too_large = || self.error(text.trim(), "is too large");
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(bad());
        }
        // 10^18 keeps every product below 2^128; more decimals than that are noise.
        let fraction = &fraction[..fraction.len().min(18)];
        let scale = 10u128.pow(u32::try_from(fraction.len()).map_err(|_| bad())?);
        let parse = |part: &str| -> Result<u128, QuantityError> {
            if part.is_empty() {
                return Ok(0);
            }
            part.parse::<u64>().map(u128::from).map_err(|_| too_large())
        };
        let size = u128::from(size);
        let total = parse(whole)? * size + (parse(fraction)? * size).div_ceil(scale);
        u64::try_from(total).map_err(|_| too_large())
    }
}

/// Whether what follows the digits of a number begins as the `e9` of `1e9 /s` does.
fn is_exponent(rest: &str) -> bool {
    let power = rest.strip_prefix(['e', 'E']).unwrap_or_default();
    let power = power.strip_prefix(['+', '-']).unwrap_or(power);
    power.starts_with(|c: char| c.is_ascii_digit())
}

/// Reads a duration (`50 ms`, `2 us`, `1 min`); fractions of a picosecond round up.
///
/// # Errors
/// When the text is not a non-negative number with a unit of time, or beyond 213 days.
pub fn duration(text: &str) -> Result<SimDuration, QuantityError> {
    DURATION.integer(text).map(SimDuration::from_ps)
}

/// Reads a rate (`6 /s`, `90 /min`) as events per second.
///
/// # Errors
/// When the text is not a non-negative number with a unit of rate.
pub fn rate(text: &str) -> Result<f64, QuantityError> {
    let (value, seconds) = RATE.float(text)?;
    Ok(value / seconds as f64)
}

/// Reads a bandwidth (`25 GB/s`, `400 Gbps`) as bytes per second.
///
/// # Errors
/// When the text is not a non-negative number with a unit of bandwidth.
pub fn bandwidth(text: &str) -> Result<f64, QuantityError> {
    let (value, bits) = BANDWIDTH.float(text)?;
    Ok(value * (bits as f64 / 8.0))
}

/// Reads a size (`80 GiB`, `500 MB`) as bytes; a fraction of a byte rounds up.
///
/// # Errors
/// When the text is not a non-negative number with a unit of size, or beyond 2⁶⁴ bytes.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    BYTES.integer(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        assert_eq!(duration("0.1 ms").unwrap().as_ps(), 100_000_000);
        assert_eq!(duration("2us").unwrap().as_ps(), 2_000_000);
        assert_eq!(duration("2 µs").unwrap().as_ps(), 2_000_000);
        assert_eq!(duration("1 min").unwrap().as_ps(), 60 * PS_PER_S);
        assert_eq!(duration("0.0001 ps").unwrap().as_ps(), 1);
    }

    #[test]
    fn rates_bandwidths_and_sizes_scale() {
        let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits(), "{a} {b}");
        same(rate("6 /s").unwrap(), 6.0);
        same(rate("7200 /h").unwrap(), 2.0);
        same(bandwidth("25 GB/s").unwrap(), 25e9);
        same(bandwidth("400 Gbps").unwrap(), 50e9);
        assert_eq!(bytes("80 GB").unwrap(), 80_000_000_000);
        assert_eq!(bytes("1.5 KiB").unwrap(), 1536);
    }

    #[test]
    fn a_number_without_unit_says_what_is_allowed() {
        let message = duration("50").unwrap_err().to_string();
        assert_eq!(
            message,
            "`50` has no unit; write a duration such as `50 ms` (units: h, min, s, ms, us, ns, ps)"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["NaN s", "inf s", "-1 s", "", "s", "1e3 s", "1.2.3 s", "_ s"] {
            assert!(duration(text).is_err(), "{text}");
            assert!(rate(&text.replace(" s", " /s")).is_err(), "{text}");
        }
        let message = rate("1e-9 /s").unwrap_err().to_string();
        assert!(message.contains("has an exponent"), "{message}");
        assert!(duration("300 Gs").is_err());
        assert!(duration("99999 h").is_err(), "beyond the clock");
    }

    #[test]
    fn bits_and_bytes_are_never_implicit() {
        for text in ["25 Gb/s", "25 G", "25 gb/s", "25 GB"] {
            assert!(bandwidth(text).is_err(), "{text}");
        }
        for text in ["80 G", "80 Gi", "80 gb", "80 Gb"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
