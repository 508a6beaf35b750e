//! Means over seeds and their confidence intervals.

use pdsim::cluster::RequestRecord;
use pdsim::sim::{Observer, Options, simulate};
use pdsim::units::SimDuration;

use crate::system::Experiment;

/// Independent runs per estimate.
pub(crate) const SEEDS: u64 = 16;

/// Requests of a run left out at its start, while the queue builds up.
const WARMUP: usize = 1_500;

/// The mean of one span of the requests.
struct Mean<F> {
    span: F,
    sum: f64,
    count: f64,
}

impl<F: Fn(&RequestRecord) -> Option<SimDuration>> Observer for Mean<F> {
    fn ended(&mut self, record: &RequestRecord) {
        if record.id.index() >= WARMUP {
            self.sum += (self.span)(record).unwrap().as_secs_f64();
            self.count += 1.0;
        }
    }
}

/// Asserts that the mean of `span` in seconds is `theory`, and that the estimate is within `precision` of it.
pub(crate) fn assert_mean(
    what: &str,
    experiment: &Experiment,
    span: impl Fn(&RequestRecord) -> Option<SimDuration> + Copy,
    theory: f64,
    precision: f64,
) {
    let means: Vec<f64> = (0..SEEDS)
        .map(|seed| {
            let mut mean = Mean {
                span,
                sum: 0.0,
                count: 0.0,
            };
            simulate(
                &experiment.spec,
                experiment.requests(seed),
                Options::default(),
                &mut mean,
            )
            .unwrap();
            mean.sum / mean.count
        })
        .collect();
    assert_estimate(what, &means, theory, precision);
}

/// Asserts the same of one value per seed.
pub(crate) fn assert_estimate(what: &str, values: &[f64], theory: f64, precision: f64) {
    let (mean, half) = interval(values);
    println!("{what}: theory {theory:.6}, simulated {mean:.6} ± {half:.6}");
    assert!(
        half < precision * theory,
        "{what}: ± {half} is too wide for {theory}"
    );
    assert!(
        (mean - theory).abs() < half,
        "{what}: theory {theory}, simulated {mean} ± {half}"
    );
}

/// Mean and half-width of its 99.9 % confidence interval.
fn interval(values: &[f64]) -> (f64, f64) {
    use statrs::distribution::{ContinuousCDF as _, StudentsT};
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = StudentsT::new(0.0, 1.0, n - 1.0)
        .unwrap()
        .inverse_cdf(0.9995);
    (mean, t * (variance / n).sqrt())
}
