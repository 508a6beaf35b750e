//! What a run costs: GPU-hours, money and energy.

use serde::Serialize;

/// The bill of the measured span: window start to the end of the run, the drain included, as for throughput.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    /// GPU-hours of all GPUs, busy or not.
    pub gpu_hours: f64,
    /// Price of the whole system per hour in US dollars; `None` where a GPU type has no price.
    pub usd_per_hour: Option<f64>,
    /// Price of the span.
    pub usd: Option<f64>,
    /// Energy at the board power limit of every GPU, busy or not: an upper bound, without hosts and cooling.
    pub energy_kwh: f64,
    /// Price of a million output tokens.
    pub usd_per_million_output_tokens: Option<f64>,
    /// Price of a million output tokens of good requests; `None` without a promise, too.
    pub usd_per_million_good_tokens: Option<f64>,
    /// Energy of a million output tokens.
    pub kwh_per_million_output_tokens: Option<f64>,
}

/// A pool as the bill sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) gpus: u32,
    pub(super) usd_per_hour: Option<f64>,
    pub(super) power_w: f64,
}

impl Cost {
    /// The bill of `items` over `span_s` seconds in which `tokens` output tokens came out, `good` of them of good requests.
    pub(super) fn of(items: &[Item], span_s: f64, tokens: u64, good: Option<u64>) -> Self {
        let hours = span_s / 3600.0;
        let gpus = |item: &Item| f64::from(item.gpus);
        let usd_per_hour: Option<f64> = items
            .iter()
            .map(|item| Some(item.usd_per_hour? * gpus(item)))
            .sum();
        let power_w: f64 = items.iter().map(|item| item.power_w * gpus(item)).sum();
        let usd = usd_per_hour.map(|rate| rate * hours);
        let energy_kwh = power_w / 1000.0 * hours;
        let per_million =
            |amount: f64, tokens: u64| (tokens > 0).then(|| amount * 1e6 / tokens as f64);
        Self {
            gpu_hours: items.iter().map(gpus).sum::<f64>() * hours,
            usd_per_hour,
            usd,
            energy_kwh,
            usd_per_million_output_tokens: usd.and_then(|usd| per_million(usd, tokens)),
            usd_per_million_good_tokens: usd
                .zip(good)
                .and_then(|(usd, good)| per_million(usd, good)),
            kwh_per_million_output_tokens: per_million(energy_kwh, tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: Item = Item {
        gpus: 4,
        usd_per_hour: Some(5.0),
        power_w: 700.0,
    };

    #[test]
    fn a_bill_adds_up() {
        let other = Item {
            gpus: 2,
            usd_per_hour: Some(2.0),
            power_w: 400.0,
        };
        let cost = Cost::of(&[H100, other], 1800.0, 4_000_000, Some(1_000_000));
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-9, "{a:?} {b}");
        close(Some(cost.gpu_hours), 3.0);
        close(cost.usd_per_hour, 24.0);
        close(cost.usd, 12.0);
        close(Some(cost.energy_kwh), 1.8);
        close(cost.usd_per_million_output_tokens, 3.0);
        close(cost.usd_per_million_good_tokens, 12.0);
        close(cost.kwh_per_million_output_tokens, 0.45);
    }

    #[test]
    fn a_gpu_without_a_price_leaves_the_bill_open() {
        let free = Item {
            usd_per_hour: None,
            ..H100
        };
        let cost = Cost::of(&[H100, free], 3600.0, 100, Some(0));
        assert_eq!((cost.usd_per_hour, cost.usd), (None, None));
        assert!(cost.energy_kwh > 0.0);
        let idle = Cost::of(&[H100], 3600.0, 0, Some(0));
        assert_eq!(idle.usd_per_million_good_tokens, None);
        assert_eq!(idle.usd_per_million_output_tokens, None);
    }
}
