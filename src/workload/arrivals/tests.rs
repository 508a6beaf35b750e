//! Tests of the arrival processes.

use super::*;
use std::sync::Arc;

use crate::units::{PS_PER_S, SimDuration};

fn seconds(n: u64) -> SimDuration {
    SimDuration::from_ms(n * 1000)
}

fn times(process: &ArrivalProcess, seed: u64, n: usize) -> Vec<f64> {
    let times = process.stream(seed, Some(n as u64)).take(n);
    times.map(SimTime::as_secs_f64).collect()
}

fn gaps(process: &ArrivalProcess, seed: u64, n: usize) -> Vec<f64> {
    let times = times(process, seed, n);
    let before = std::iter::once(0.0).chain(times.iter().copied());
    times
        .iter()
        .zip(before)
        .map(|(t, before)| t - before)
        .collect()
}

fn modulated(rate: f64, intensity: Intensity) -> ArrivalProcess {
    ArrivalProcess::Modulated {
        rate,
        gaps: Gaps::Exponential,
        intensity,
    }
}

fn schedule(parts: &[(u64, f64)], repeat: bool) -> Intensity {
    let segments = parts.iter().map(|(span, rate)| Segment {
        span: seconds(*span),
        rate: *rate,
    });
    Intensity::Schedule {
        segments: segments.collect(),
        repeat,
    }
}

#[test]
fn constant_arrivals_are_equally_spaced() {
    let process = ArrivalProcess::Constant { rate: 4.0 };
    let times: Vec<u64> = process
        .stream(1, None)
        .take(3)
        .map(SimTime::as_ps)
        .collect();
    assert_eq!(times, [PS_PER_S / 4, PS_PER_S / 2, PS_PER_S * 3 / 4]);
}

#[test]
fn another_rate_keeps_the_unit_gaps() {
    for process in [
        ArrivalProcess::Poisson { rate: 1.0 },
        ArrivalProcess::PoissonRescaled { rate: 1.0 },
        ArrivalProcess::Gamma { rate: 1.0, cv: 2.5 },
    ] {
        let slow = gaps(&process, 3, 1000);
        let fast = gaps(&process.with_rate(8.0).unwrap(), 3, 1000);
        for (a, b) in slow.iter().zip(&fast) {
            // A picosecond of rounding, and the subtraction of instants near 1000 s in f64.
            assert!((a - b * 8.0).abs() <= 1e-11, "{a} against {b}");
        }
    }
}

#[test]
fn the_mean_rate_is_the_asked_one() {
    let sinusoid = Intensity::Sinusoid {
        period: seconds(100),
        amplitude: 0.9,
        phase: 0.25,
    };
    let states = [(5, 1.0), (20, 6.0), (10, 0.0)].map(|(s, rate)| Segment {
        span: seconds(s),
        rate,
    });
    let day = Intensity::day(std::array::from_fn(|hour| {
        f64::from(u8::try_from(hour).unwrap() + 1)
    }));
    // Seconds that hold many cycles of each, or a whole number of them.
    for (span, process) in [
        (10_000, ArrivalProcess::Poisson { rate: 20.0 }),
        (
            10_000,
            ArrivalProcess::Gamma {
                rate: 20.0,
                cv: 2.0,
            },
        ),
        (10_000, modulated(20.0, sinusoid)),
        (
            10_000,
            modulated(20.0, schedule(&[(10, 5.0), (30, 1.0)], true)),
        ),
        (
            100_000,
            modulated(
                20.0,
                Intensity::Markov {
                    states: states.into(),
                },
            ),
        ),
        (
            100_000,
            modulated(20.0, Intensity::on_off(seconds(3), seconds(7), 0.1)),
        ),
        (86_400, modulated(20.0, day)),
    ] {
        let n = span * 20;
        let last = *times(&process, 11, n).last().unwrap();
        assert!(
            (span as f64 / last - 1.0).abs() < 0.02,
            "{process:?}: {}",
            span as f64 / last
        );
    }
}

#[test]
fn vllm_rescaling_ends_at_exactly_n_over_rate() {
    for n in [1, 7, 1000] {
        let times = times(&ArrivalProcess::PoissonRescaled { rate: 4.0 }, 2, n);
        assert!(
            (times[n - 1] - n as f64 / 4.0).abs() < 1e-9,
            "{}",
            times[n - 1]
        );
    }
}

#[test]
fn a_schedule_puts_arrivals_where_its_rates_are_and_ends() {
    let process = modulated(3.0, schedule(&[(100, 0.0), (100, 4.0), (100, 2.0)], false));
    let times: Vec<f64> = process.stream(5, None).map(SimTime::as_secs_f64).collect();
    let inside =
        |from: f64, to: f64| times.iter().filter(|t| (from..to).contains(*t)).count() as f64;
    // The mean of 3 /s over 300 s makes 600 and 300 expected arrivals; bounds are five standard deviations.
    assert_eq!(inside(0.0, 100.0).to_string(), "0");
    assert!((inside(100.0, 200.0) - 600.0).abs() < 5.0 * 600_f64.sqrt());
    assert!((inside(200.0, 300.0) - 300.0).abs() < 5.0 * 300_f64.sqrt());
    assert!(times.iter().all(|t| *t <= 300.0));
}

#[test]
fn constant_gaps_under_a_schedule_are_exact() {
    let process = ArrivalProcess::Modulated {
        rate: 3.0,
        gaps: Gaps::Constant,
        intensity: schedule(&[(1, 2.0), (1, 4.0)], true),
    };
    let seen = times(&process, 1, 6);
    for (seen, wanted) in seen.iter().zip([0.5, 1.0, 1.25, 1.5, 1.75, 2.0]) {
        assert!((seen - wanted).abs() < 1e-11, "{seen} for {wanted}");
    }
}

#[test]
fn a_sinusoid_is_inverted_to_its_integral_even_at_full_swing() {
    let intensity = Intensity::Sinusoid {
        period: seconds(60),
        amplitude: 1.0,
        phase: 0.75,
    };
    let process = ArrivalProcess::Modulated {
        rate: 2.0,
        gaps: Gaps::Constant,
        intensity,
    };
    let omega = std::f64::consts::TAU / 60.0;
    for (i, t) in times(&process, 1, 1000).iter().enumerate() {
        // 2 × (t − sin(ωt)/ω) for a curve that starts in its trough.
        let integral = 2.0 * (t - (omega * t).sin() / omega);
        assert!(
            (integral - (i + 1) as f64).abs() < 1e-6,
            "{integral} after {i}"
        );
    }
}

#[test]
fn bursts_are_overdispersed_and_poisson_is_not() {
    let index = |process: &ArrivalProcess| {
        let mut counts = vec![0.0_f64; 2000];
        let (mut window, mut end) = (0, 10.0);
        for t in process
            .stream(4, None)
            .map(SimTime::as_secs_f64)
            .take_while(|t| *t < 20_000.0)
        {
            while t >= end {
                window += 1;
                end += 10.0;
            }
            counts[window] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 2000.0;
        counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 2000.0 / mean
    };
    let poisson = index(&ArrivalProcess::Poisson { rate: 5.0 });
    assert!((poisson - 1.0).abs() < 0.16, "{poisson}");
    let bursts = index(&modulated(
        5.0,
        Intensity::on_off(seconds(20), seconds(20), 0.0),
    ));
    assert!(bursts > 10.0, "{bursts}");
}

#[test]
fn impossible_parameters_name_their_key() {
    let key = |process: ArrivalProcess| process.validate().unwrap_err().key;
    assert_eq!(
        key(ArrivalProcess::Gamma { rate: 1.0, cv: 0.0 }),
        "arrivals.gamma.cv"
    );
    for rate in [0.0, -2.0, f64::NAN] {
        assert_eq!(key(ArrivalProcess::Poisson { rate }), "rate");
        assert_eq!(
            ArrivalProcess::Poisson { rate: 1.0 }
                .with_rate(rate)
                .unwrap_err()
                .key,
            "rate"
        );
    }
    assert_eq!(
        key(modulated(1.0, schedule(&[], true))),
        "arrivals.schedule"
    );
    assert_eq!(
        key(modulated(1.0, schedule(&[(5, 0.0)], true))),
        "arrivals.schedule"
    );
    assert_eq!(
        key(modulated(1.0, schedule(&[(0, 1.0)], true))),
        "arrivals.schedule[0].for"
    );
    assert_eq!(
        key(modulated(1.0, schedule(&[(5, 1.0), (5, f64::NAN)], true))),
        "arrivals.schedule[1].rate"
    );
    assert_eq!(
        key(modulated(
            1.0,
            Intensity::Markov {
                states: Arc::new([])
            }
        )),
        "arrivals.mmpp"
    );
    let sinusoid = |period, amplitude| Intensity::Sinusoid {
        period,
        amplitude,
        phase: 0.0,
    };
    assert_eq!(
        key(modulated(1.0, sinusoid(SimDuration::ZERO, 0.5))),
        "arrivals.sinusoid.period"
    );
    assert_eq!(
        key(modulated(1.0, sinusoid(seconds(5), 1.5))),
        "arrivals.sinusoid.amplitude"
    );
}
