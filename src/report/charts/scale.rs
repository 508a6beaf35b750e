//! Axes as numbers: range, ticks and their labels.

/// An axis, which maps values to a linear coordinate of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    log: bool,
    /// Range of the coordinate.
    pub(super) range: (f64, f64),
    /// Ticks in the coordinate.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// A linear axis from `low`, which should be round, to a round number at or above `high`.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        let step = nice_step(span / 6.0);
        let first = (low / step - 1e-9).ceil();
        let last = (high / step - 1e-9).ceil().max(first + 1.0);
        let mut ticks = vec![first * step];
        while ticks.len() < 12 && first + (ticks.len() as f64) <= last {
            ticks.push((first + ticks.len() as f64) * step);
        }
        Self {
            log: false,
            range: (low, last * step),
            ticks,
        }
    }

    /// A linear axis that ends exactly at `high`: for time, which has no round end.
    pub(super) fn until(high: f64) -> Self {
        let mut scale = Self::linear(0.0, high);
        if high > 0.0 {
            scale.range.1 = high;
            scale.ticks.retain(|tick| *tick <= high);
        }
        scale
    }

    /// Percent from 0 to 100.
    pub(super) fn percent() -> Self {
        Self {
            log: false,
            range: (0.0, 100.0),
            ticks: (0..=5).map(|i| f64::from(i) * 20.0).collect(),
        }
    }

    /// An axis over positive values: logarithmic when they span a factor of 15 or more, else linear, and from zero
    /// unless that would waste more than 40 % of it.
    pub(super) fn fitting(low: f64, high: f64) -> Self {
        if low > 0.0 && high / low >= 15.0 {
            return Self::logarithmic(low, high);
        }
        if low < 0.4 * high {
            return Self::linear(0.0, high);
        }
        let step = nice_step((high - low).max(1e-9) / 6.0);
        Self::linear((low / step).floor() * step, high)
    }

    /// A logarithmic axis, however little the values differ.
    pub(super) fn decades(low: f64, high: f64) -> Self {
        Self::logarithmic(low, high)
    }

    /// From and to the nearest of 1, 2, 5 × 10^k outside; ticks at these, or at powers of ten when there are many. The
    /// ends have ticks too where their labels find room.
    fn logarithmic(low: f64, high: f64) -> Self {
        let candidates: Vec<(f64, f64)> = (-12..=12)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|m| (m, m * 10_f64.powi(power))))
            .collect();
        let last = candidates
            .iter()
            .position(|(_, v)| *v >= high * (1.0 - 1e-9))
            .unwrap_or(candidates.len() - 1);
        let first = candidates[..last]
            .iter()
            .rposition(|(_, v)| *v <= low * (1.0 + 1e-9))
            .unwrap_or(0);
        let shown = &candidates[first..=last];
        let range = (shown[0].1.log10(), shown[shown.len() - 1].1.log10());
        let few = shown.len() <= 10;
        let mut ticks: Vec<f64> = shown
            .iter()
            .filter(|(m, _)| few || *m < 1.5)
            .map(|(_, v)| v.log10())
            .collect();
        if ticks
            .first()
            .is_some_and(|tick| apart(range, range.0, *tick))
        {
            ticks.insert(0, range.0);
        }
        if ticks
            .last()
            .is_some_and(|tick| apart(range, *tick, range.1))
        {
            ticks.push(range.1);
        }
        Self {
            log: true,
            range,
            ticks,
        }
    }

    /// The coordinate of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        if self.log {
            value.max(1e-300).log10()
        } else {
            value
        }
    }

    /// Whether a value lies on the axis.
    pub(super) fn contains(&self, value: f64) -> bool {
        let at = self.at(value);
        let slack = 1e-9 * (self.range.1 - self.range.0);
        self.range.0 - slack <= at && at <= self.range.1 + slack
    }

    /// The text at a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        let value = if self.log { 10_f64.powf(tick) } else { tick };
        let step = match (self.log, &self.ticks[..]) {
            (false, [first, second, ..]) => second - first,
            _ => value,
        };
        let decimals = (0..9).find(|d| is_whole(step * 10_f64.powi(*d)));
        let decimals = usize::try_from(decimals.unwrap_or(9)).unwrap_or(0);
        let text = format!("{value:.decimals$}");
        if text.chars().all(|c| "-0.".contains(c)) {
            "0".to_owned()
        } else {
            text
        }
    }
}

/// Whether labels of the powers of ten at or below two coordinates of a logarithmic axis stand clear of each other.
fn apart(range: (f64, f64), low: f64, high: f64) -> bool {
    // Design pixels: the width of the narrowest panel, of a digit in the tick size, and of the gap between labels.
    let (panel, digit, gap) = (770.0, 9.0, 14.0);
    let digits = |at: f64| 1.0 + at.floor().abs();
    let room = (digits(low) + digits(high)) / 2.0 * digit + gap;
    high - low >= room / panel * (range.1 - range.0)
}

fn is_whole(value: f64) -> bool {
    value.abs() > 0.5 && (value - value.round()).abs() < 1e-6 * value.abs()
}

/// The round number (1, 2, 2.5 or 5 × 10^k) at or next above `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks.iter().map(|t| scale.label(*t)).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_cover_the_data() {
        let scale = Scale::linear(0.0, 9.0);
        assert_eq!(labels(&scale), ["0", "2", "4", "6", "8", "10"]);
        let scale = Scale::linear(0.0, 0.45);
        assert_eq!(labels(&scale), ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]);
        assert!(Scale::linear(0.0, 0.0).contains(0.0));
    }

    #[test]
    fn a_wide_range_is_logarithmic_and_covers_the_data() {
        let scale = Scale::fitting(12.0, 900.0);
        let expected = ["10", "20", "50", "100", "200", "500", "1000"];
        assert_eq!(labels(&scale), expected);
        assert!(scale.contains(12.0) && scale.contains(900.0) && !scale.contains(2000.0));
        let wide = Scale::fitting(0.05, 4e4);
        assert_eq!(labels(&wide)[..3], ["0.05", "0.1", "1"]);
        assert!(wide.contains(0.05) && wide.contains(4e4));
    }

    #[test]
    fn a_logarithmic_axis_says_where_it_ends_if_there_is_room() {
        let scale = Scale::fitting(25.0, 180_000.0);
        let expected = ["20", "100", "1000", "10000", "100000"];
        assert_eq!(labels(&scale), expected, "200000 would touch 100000");
        let scale = Scale::fitting(60.0, 470_000.0);
        assert_eq!(
            labels(&scale),
            ["50", "100", "1000", "10000", "100000", "500000"]
        );
    }

    #[test]
    fn a_narrow_range_does_not_start_at_zero() {
        let scale = Scale::fitting(22.0, 36.0);
        assert_eq!(labels(&scale), ["20", "25", "30", "35", "40"]);
        assert!(scale.contains(22.0) && scale.contains(36.0));
    }
}
