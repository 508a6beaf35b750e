//! The 8- and 16-bit floats of the kernels, on the CPU.

/// The nearest bf16 of a float, ties to even; not for NaN.
#[must_use]
pub const fn bf16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    let [_, _, low, high] = rounded.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The value of a bf16.
#[must_use]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    let [low, high] = bits.to_le_bytes();
    f32::from_le_bytes([0, 0, low, high])
}

/// The value of an IEEE half.
#[must_use]
pub(super) fn half_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 10) & 0x1f);
    let mantissa = f32::from(bits & 0x3ff);
    sign * if exponent == 0 {
        mantissa * 2f32.powi(-24)
    } else {
        (1.0 + mantissa / 1024.0) * 2f32.powi(exponent - 15)
    }
}

/// The value of an e4m3 (OCP 8-bit formats, table 2); the two NaN codes read as 480.
#[must_use]
pub fn e4m3_to_f32(bits: u8) -> f32 {
    let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from((bits >> 3) & 0xf);
    let mantissa = f32::from(bits & 7);
    sign * if exponent == 0 {
        mantissa * 2f32.powi(-9)
    } else {
        (1.0 + mantissa / 8.0) * 2f32.powi(exponent - 7)
    }
}

/// Reads little-endian bf16.
pub(super) fn bf16s(bytes: &[u8]) -> Vec<f32> {
    words16(bytes).map(bf16_to_f32).collect()
}

/// Reads little-endian halves.
pub(super) fn halves(bytes: &[u8]) -> Vec<f32> {
    words16(bytes).map(half_to_f32).collect()
}

/// Reads e4m3.
pub(super) fn e4m3s(bytes: &[u8]) -> Vec<f32> {
    bytes.iter().copied().map(e4m3_to_f32).collect()
}

/// Reads little-endian 32-bit words.
pub(super) fn words(bytes: &[u8]) -> Vec<u32> {
    let (chunks, _) = bytes.as_chunks::<4>();
    chunks.iter().map(|c| u32::from_le_bytes(*c)).collect()
}

/// Reads little-endian floats.
pub(super) fn floats(bytes: &[u8]) -> Vec<f32> {
    words(bytes).into_iter().map(f32::from_bits).collect()
}

fn words16(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let (chunks, _) = bytes.as_chunks::<2>();
    chunks.iter().map(|c| u16::from_le_bytes(*c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even_and_back() {
        for (value, bits) in [
            (1.0, 0x3f80),
            (-2.5, 0xc020),
            (0.0, 0),
            (1.0 + 1.0 / 256.0, 0x3f80),
        ] {
            assert_eq!(bf16_from_f32(value), bits, "{value}");
        }
        assert_eq!(bf16_from_f32(1.0 + 3.0 / 256.0), 0x3f82);
        assert!((bf16_to_f32(0xc020) + 2.5).abs() < f32::EPSILON);
    }

    #[test]
    fn small_floats_read_as_their_tables_say() {
        let close = |a: f32, b: f32| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(e4m3_to_f32(0x38), 1.0);
        close(e4m3_to_f32(0x7e), 448.0);
        close(e4m3_to_f32(0x01), 2f32.powi(-9));
        close(e4m3_to_f32(0xb8), -1.0);
        close(half_to_f32(0x3c00), 1.0);
        close(half_to_f32(0xfbff), -65504.0);
        close(half_to_f32(0x0001), 2f32.powi(-24));
    }
}
