//! Piecewise-linear decode curves with integer coefficients.

use crate::units::Fine;

/// One linear piece of a [`DecodeCurve`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First total context (tokens) the piece is valid for.
    pub from: u64,
    /// Step time at `from`.
    pub base: Fine,
    /// Growth of the step time per context token.
    pub slope: Fine,
}

/// Step time of a decode-only batch of a fixed size as a function of its total context.
///
/// Segments are ordered by `from`, the first starts at 0, each is valid up to the next one's start and the last for
/// ever. The curve never decreases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeCurve {
    segments: Vec<Segment>,
}

impl DecodeCurve {
    /// Makes a curve of one piece: `base + slope × context`.
    #[must_use]
    pub fn linear(base: Fine, slope: Fine) -> Self {
        Self {
            segments: vec![Segment {
                from: 0,
                base,
                slope,
            }],
        }
    }

    /// Makes a curve from its pieces.
    ///
    /// # Panics
    /// When there is no piece, the first does not start at 0, or starts do not increase: a defect of the model.
    #[must_use]
    pub fn from_segments(segments: Vec<Segment>) -> Self {
        assert!(
            segments.first().is_some_and(|s| s.from == 0),
            "a curve starts at context 0"
        );
        assert!(
            segments.windows(2).all(|w| w[0].from < w[1].from),
            "segments are ordered by context"
        );
        Self { segments }
    }

    /// The piece valid at `context` and where it ends (exclusive, `u64::MAX` for the last).
    #[must_use]
    pub fn segment(&self, context: u64) -> (Segment, u64) {
        let next = self.segments.partition_point(|s| s.from <= context);
        let end = self.segments.get(next).map_or(u64::MAX, |s| s.from);
        (self.segments[next - 1], end)
    }

    /// Step time at `context`.
    #[must_use]
    pub fn at(&self, context: u64) -> Fine {
        let (segment, _) = self.segment(context);
        Fine(
            segment
                .base
                .0
                .saturating_add(segment.slope.0.saturating_mul(context - segment.from)),
        )
    }

    /// The pieces.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_hand_over_at_their_starts() {
        let curve = DecodeCurve::from_segments(vec![
            Segment {
                from: 0,
                base: Fine(10),
                slope: Fine(1),
            },
            Segment {
                from: 5,
                base: Fine(15),
                slope: Fine(3),
            },
        ]);
        assert_eq!(curve.at(4), Fine(14));
        assert_eq!(curve.at(5), Fine(15));
        assert_eq!(curve.at(7), Fine(21));
        assert_eq!(curve.segment(4).1, 5);
        assert_eq!(curve.segment(5).1, u64::MAX);
    }
}
