//! The points of a sweep: the product of its axes, and how a report names them.

use serde_yaml::Value;

use super::document::inline;
use super::experiment::Axis;
use super::schema::Axes;
use crate::units::parse;

/// Every combination of the axes' values, the first axis slowest; one empty combination without axes.
pub(super) fn combinations(axes: &Axes) -> Vec<Vec<&Value>> {
    axes.iter().fold(vec![Vec::new()], |points, (_, values)| {
        points
            .iter()
            .flat_map(|point| {
                values
                    .iter()
                    .map(|value| [point.as_slice(), &[value]].concat())
            })
            .collect()
    })
}

/// Names the axis and its points.
pub(super) fn describe(axes: &Axes, combinations: &[Vec<&Value>]) -> Axis {
    let keys: Vec<&str> = axes.iter().map(|(key, _)| key.as_str()).collect();
    let labels = combinations.iter().map(|values| {
        let parts: Vec<String> = values.iter().map(|value| inline(value)).collect();
        parts.join(" × ")
    });
    // Only a single axis has a number line.
    let (unit, numbers) = match combinations {
        [first, ..] if first.len() == 1 => numbers(combinations),
        _ => ("", vec![None; combinations.len()]),
    };
    Axis {
        key: keys.join(" × "),
        unit,
        is_rate: keys == ["workload.rate"],
        values: labels.zip(numbers).collect(),
    }
}

/// The values of a single axis as numbers in one unit, if they all are.
fn numbers(combinations: &[Vec<&Value>]) -> (&'static str, Vec<Option<f64>>) {
    type Read = fn(&str) -> Option<f64>;
    let kinds: [(&'static str, Read); 4] = [
        ("", |text| text.parse().ok()),
        ("requests/s", |text| parse::rate(text).ok()),
        ("ms", |text| {
            parse::duration(text)
                .ok()
                .map(crate::units::SimDuration::as_ms_f64)
        }),
        ("GB/s", |text| {
            parse::bandwidth(text).ok().map(|rate| rate / 1e9)
        }),
    ];
    for (unit, read) in kinds {
        let numbers: Vec<Option<f64>> = combinations
            .iter()
            .map(|values| read(&inline(values[0])))
            .collect();
        if numbers.iter().all(Option::is_some) {
            return (unit, numbers);
        }
    }
    ("", vec![None; combinations.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(pairs: &[(&str, &str)]) -> Axes {
        pairs
            .iter()
            .map(|(key, values)| ((*key).to_owned(), serde_yaml::from_str(values).unwrap()))
            .collect()
    }

    #[test]
    fn the_first_axis_is_the_slowest() {
        let axes = axes(&[("a", "[1, 2]"), ("b", "[x, y]")]);
        let axis = describe(&axes, &combinations(&axes));
        let labels: Vec<&str> = axis
            .values
            .iter()
            .map(|(label, _)| label.as_str())
            .collect();
        assert_eq!(labels, ["1 × x", "1 × y", "2 × x", "2 × y"]);
        assert_eq!(axis.key, "a × b");
    }

    #[test]
    fn quantities_become_numbers_in_one_unit() {
        let axes = axes(&[("workload.rate", "[90 /min, 2 /s]")]);
        let axis = describe(&axes, &combinations(&axes));
        assert!(axis.is_rate);
        assert_eq!(axis.unit, "requests/s");
        assert_eq!(axis.values[0], ("90 /min".to_owned(), Some(1.5)));
    }

    #[test]
    fn words_have_no_number_line() {
        let axes = axes(&[("engine", "[vllm-v0, 3]")]);
        assert_eq!(describe(&axes, &combinations(&axes)).values[1].1, None);
    }

    #[test]
    fn no_axis_is_one_point() {
        assert_eq!(combinations(&Vec::new()).len(), 1);
    }
}
