//! How many visits the experts of a rank get, and how many of them get any.

use crate::latency::kernels::Experts;

/// What a rank of a group has to do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Visits to its experts.
    pub visits: f64,
    /// Its experts with at least one visit.
    pub touched: f64,
}

/// Popularities under a power law span at least this factor: the benchmark draws them from 0.01 to 2 for few tokens.
const LEAST_SPAN: f64 = 200.0;

/// Points at which popularities are averaged over.
const POINTS: u32 = 16;

impl Load {
    /// The mean rank when every token picks its experts evenly and by itself. A rank that is called has at least one visit.
    pub(super) fn even(e: &Experts) -> Self {
        Self {
            visits: e.visits().max(1.0),
            touched: e.touched().max(1.0),
        }
    }

    /// The first rank when tokens are dealt to experts in turn: of `E/k` experts each, one per pick, every token takes
    /// the next, or one further on when there are fewer tokens than that. So AIConfigurator's `balanced` rows were routed
    /// (its `collector/helper.py`), where a few tokens touch more experts than independent ones would.
    pub(super) fn dealt(e: &Experts) -> Self {
        let experts = u64::from(e.experts);
        let own = experts / u64::from(e.ep);
        if e.tokens > experts {
            // Every expert has had its turn.
            return Self {
                visits: e.visits(),
                touched: own as f64,
            };
        }
        let stride = experts.div_ceil(u64::from(e.top_k));
        let mut visited = vec![0u64; usize::try_from(own).unwrap_or(usize::MAX)];
        for token in 0..e.tokens {
            let place = if e.tokens >= stride {
                token
            } else {
                token * stride / e.tokens
            };
            for pick in 0..u64::from(e.top_k) {
                let expert = (place + pick * stride) % experts;
                if let Some(visits) = usize::try_from(expert)
                    .ok()
                    .and_then(|expert| visited.get_mut(expert))
                {
                    *visits += 1;
                }
            }
        }
        Self {
            visits: visited.iter().sum::<u64>() as f64,
            touched: visited.iter().filter(|v| **v > 0).count() as f64,
        }
    }

    /// The busiest rank when the popularities of experts are drawn from a power law with this exponent, from 1 to
    /// four fifths of the tokens, as AIConfigurator does. Below 1 the span shrinks with the exponent, so that 0 is even.
    ///
    /// The visits of a rank are a sum of `E/ep` popularities; their largest of `ep` lies as many standard deviations above
    /// the mean as that of normal variables. Grows with the tokens.
    pub(super) fn skewed(e: &Experts, exponent: f64) -> Self {
        let span = (0.8 * e.tokens as f64)
            .max(LEAST_SPAN)
            .powf(exponent.min(1.0));
        let law = PowerLaw { exponent, span };
        let (tokens, ranks) = (e.tokens as f64, f64::from(e.ep));
        let own = f64::from(e.experts) / ranks;
        let deviation = law.deviation() * ((1.0 - 1.0 / ranks) / own).sqrt();
        let busiest = 1.0 + deviation * largest_normal(ranks);
        // A token visits an expert once.
        let most = tokens * own.min(f64::from(e.top_k));
        let share = f64::from(e.top_k) * busiest / f64::from(e.experts);
        let missed: f64 = law
            .popularities()
            .map(|x| (1.0 - (share * x).min(1.0)).powf(tokens))
            .sum();
        Self {
            // The busiest of ranks has a visit, as any that is called.
            visits: (e.visits() * busiest).min(most).max(1.0),
            touched: (own * (1.0 - missed / f64::from(POINTS))).max(1.0),
        }
    }
}

/// Popularities with density `x^-exponent` from 1 to `span`.
struct PowerLaw {
    exponent: f64,
    span: f64,
}

impl PowerLaw {
    /// `∫ x^(power − 1) dx` from 1 to the span.
    fn integral(&self, power: f64) -> f64 {
        if power.abs() < 1e-9 {
            self.span.ln()
        } else {
            (self.span.powf(power) - 1.0) / power
        }
    }

    /// The mean of `x^power`.
    fn moment(&self, power: f64) -> f64 {
        let plain = self.integral(1.0 - self.exponent);
        if plain > 0.0 {
            self.integral(power + 1.0 - self.exponent) / plain
        } else {
            1.0
        }
    }

    /// Standard deviation over mean.
    fn deviation(&self) -> f64 {
        let mean = self.moment(1.0);
        (self.moment(2.0) / (mean * mean) - 1.0).max(0.0).sqrt()
    }

    /// Popularities over their mean at the middles of equal shares of the experts.
    fn popularities(&self) -> impl Iterator<Item = f64> {
        let mean = self.moment(1.0);
        let power = 1.0 - self.exponent;
        let all = self.integral(power);
        (0..POINTS).map(move |i| {
            let part = all * (f64::from(i) + 0.5) / f64::from(POINTS);
            let x = if power.abs() < 1e-9 {
                part.exp()
            } else {
                (part * power + 1.0).powf(1.0 / power)
            };
            x / mean
        })
    }
}

/// The expected largest of `count` standard normal variables, within 5 % of Tippett's table from 2 to 200 of them.
fn largest_normal(count: f64) -> f64 {
    0.57 * count.max(1.0).log2().powf(0.79)
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::model::WeightDtype;
    use crate::rng::stream;

    fn experts(tokens: u64, top_k: u32, experts: u32, ep: u32) -> Experts {
        Experts {
            format: WeightDtype::Bf16,
            tokens,
            hidden: 4096,
            size: 1536,
            top_k,
            experts,
            tp: 1,
            ep,
        }
    }

    #[test]
    fn dealt_tokens_touch_all_the_experts_they_can() {
        let load = |tokens, ep| {
            let load = Load::dealt(&experts(tokens, 8, 128, ep));
            (load.visits, load.touched)
        };
        assert_eq!(load(1, 1), (8.0, 8.0));
        assert_eq!(load(16, 1), (128.0, 128.0));
        assert_eq!(load(1024, 1), (8192.0, 128.0));
        // Expert 0 is on the first of 64 ranks, whatever the share of a rank.
        assert_eq!(load(1, 64), (1.0, 1.0));
        assert_eq!(load(64, 8), (64.0, 16.0));
    }

    #[test]
    fn an_exponent_of_zero_is_even_and_a_larger_one_loads_a_rank_more() {
        let shapes = [(1, 128, 1), (100, 128, 1), (4096, 128, 8), (64, 128, 16)];
        // The last ones have less than a visit per rank.
        for (tokens, all, ep) in shapes.into_iter().chain([(1, 256, 64), (4, 256, 64)]) {
            let e = experts(tokens, 8, all, ep);
            let (even, none) = (Load::even(&e), Load::skewed(&e, 0.0));
            assert!((none.visits / even.visits - 1.0).abs() < 1e-9);
            assert!((none.touched / even.touched - 1.0).abs() < 1e-9);
            let mut last = even;
            for exponent in [0.01, 0.1, 0.3, 0.5, 0.8, 1.0, 1.01, 1.2] {
                let load = Load::skewed(&e, exponent);
                let slack = 1.0 - 1e-9;
                assert!(load.visits >= last.visits * slack, "{exponent}: {load:?}");
                assert!(load.touched >= slack, "{exponent}: {load:?}");
                last = load;
            }
            // Nothing is uneven about one rank but which experts it touches.
            assert!(ep > 1 || (last.visits - even.visits).abs() < 1e-9);
            assert!(ep > 1 || last.touched <= even.touched * (1.0 + 1e-9));
        }
    }

    #[test]
    fn loads_grow_with_the_tokens() {
        for (k, all, ep) in [(8, 256, 64), (8, 128, 1), (2, 8, 4), (1, 16, 1)] {
            for exponent in [0.3, 1.0, 1.01, 1.2] {
                let mut last = Load::skewed(&experts(1, k, all, ep), exponent);
                for tokens in (2..400).chain([1000, 5000, 20_000]) {
                    let load = Load::skewed(&experts(tokens, k, all, ep), exponent);
                    let slack = 1.0 - 1e-9;
                    assert!(load.visits >= last.visits * slack, "{tokens}: {load:?}");
                    assert!(load.touched >= last.touched * slack, "{tokens}: {load:?}");
                    last = load;
                }
            }
        }
    }

    /// Half the mean ranges of samples of so many normal variables: L. H. C. Tippett, "On the extreme individuals and the
    /// range of samples taken from a normal population", Biometrika 17 (1925), pages 364-387.
    const TIPPETT: [(f64, f64); 6] = [
        (2.0, std::f64::consts::FRAC_2_SQRT_PI),
        (10.0, 3.07751),
        (20.0, 3.73495),
        (50.0, 4.49815),
        (100.0, 5.01519),
        (200.0, 5.49209),
    ];

    #[test]
    fn the_largest_of_normal_variables_is_as_tabulated() {
        assert!(largest_normal(1.0).abs() < 1e-12);
        for (count, range) in TIPPETT {
            let ratio = largest_normal(count) / (range / 2.0);
            assert!((0.95..1.05).contains(&ratio), "{count}: {ratio}");
        }
    }

    /// The mean visits of the busiest rank over so many draws of the benchmark's sampler (AIConfigurator's
    /// `collector/helper.py`) for more visits than experts: popularities by the inverse of their distribution, each expert
    /// its rounded share of the visits but no more than the tokens.
    fn drawn(e: &Experts, exponent: f64, draws: u32) -> f64 {
        let mut rng = stream(0, "popularities of experts");
        let power = 1.0 - exponent;
        let end = (0.8 * e.tokens as f64).powf(power);
        let visits = (e.tokens * u64::from(e.top_k)) as f64;
        let own = (e.experts / e.ep) as usize;
        let mut sum = 0.0;
        for _ in 0..draws {
            let popular: Vec<f64> = (0..e.experts)
                .map(|_| ((end - 1.0) * rng.random::<f64>() + 1.0).powf(1.0 / power))
                .collect();
            let all: f64 = popular.iter().sum();
            let of = |x: &f64| (x / all * visits).round().min(e.tokens as f64);
            let ranks = popular
                .chunks(own)
                .map(|of_rank| of_rank.iter().map(of).sum());
            sum += ranks.fold(0.0, f64::max);
        }
        sum / f64::from(draws)
    }

    #[test]
    fn a_power_law_loads_the_busiest_rank_as_drawn_ones_do() {
        for (tokens, ep, exponent) in [
            (64, 4, 1.01),
            (256, 8, 1.01),
            (1024, 8, 1.2),
            (4096, 2, 1.01),
            (4096, 16, 1.2),
            (16_384, 32, 1.01),
        ] {
            let e = experts(tokens, 8, 128, ep);
            let ratio = Load::skewed(&e, exponent).visits / drawn(&e, exponent, 400);
            assert!((0.8..1.25).contains(&ratio), "{tokens} over {ep}: {ratio}");
        }
    }
}
