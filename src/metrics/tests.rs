//! The collector on runs whose figures are known.

use std::sync::Arc;

use super::testing::{Load, simulate};
use super::{Collector, Config, RunMetrics, Slo, State, Warmup, Warning};
use crate::cluster::SystemSpec;
use crate::ids::InstanceId;
use crate::latency::fixed::Fixed;
use crate::sim::{Observer, Options, StepFact, simulate as simulate_for_real};
use crate::units::{SimDuration, SimTime};
use crate::workload::RequestSpec;

#[test]
fn mm1_waits_as_theory_says() {
    // TTFT = sojourn of M/M/1: mean 1/(μ − λ) = 20 ms, exponential: p90 = 20 ln 10. 40,000 requests at load 0.5:
    // 95 % interval about 2 % (integrated autocorrelation of the sojourn is near 10 requests).
    let ttft = simulate(&Load::mm1(0.5, 40_000), 1).ttft.unwrap();
    assert!((ttft.mean_ms / 20.0 - 1.0).abs() < 0.04, "{}", ttft.mean_ms);
    let p90 = 20.0 * 10.0_f64.ln();
    assert!((ttft.p90_ms / p90 - 1.0).abs() < 0.05, "{}", ttft.p90_ms);
}

#[test]
fn l13_little_holds_on_both_books_and_on_samples() {
    for seed in 0..5 {
        let little = simulate(&Load::chat(0.8, 4000), seed).little;
        assert!(little.exact, "{little:?}");
        let sampled = little.mean_sampled.unwrap();
        assert!(
            (sampled / little.mean_in_system - 1.0).abs() < 0.05,
            "{little:?}"
        );
    }
}

#[test]
fn warmup_by_count_and_by_time_leave_out_the_first_requests() {
    let by = |warmup| {
        let mut load = Load::mm1(0.5, 1000);
        load.config.warmup = warmup;
        simulate(&load, 3)
    };
    let counted = by(Warmup::Requests(100));
    assert_eq!((counted.counts.warmup, counted.counts.measured), (100, 900));
    assert_eq!(counted.counts.done, 900);
    assert_eq!(counted.ttft.as_ref().unwrap().count, 900);
    let start = SimDuration::from_secs_f64(counted.window_start_s).unwrap();
    let timed = by(Warmup::Time(start));
    // The window starts at the arrival of request 100, so both leave out the same requests.
    assert_eq!(timed.counts, counted.counts);
    assert_eq!(timed.ttft, counted.ttft);
    assert_eq!(counted.records.unwrap().len(), 1000);
}

#[test]
fn attainment_counts_every_measured_arrival() {
    let m = simulate(&Load::chat(0.7, 2000), 5);
    let attainment = m.attainment.unwrap();
    assert_eq!(attainment.of, 1800);
    assert!(attainment.met <= attainment.ttft_met.min(attainment.tpot_met));
    let slo = Load::chat(0.7, 2000).config.slo.unwrap();
    let by_hand = m.records.as_ref().unwrap().iter().skip(200);
    let met = by_hand.filter(|r| super::meets(&slo, r)).count();
    assert_eq!(met as u64, attainment.met);
    assert!(met > 500 && met < 1800, "{met}");
}

#[test]
fn the_tpot_limit_is_exact_at_its_edge() {
    let m = simulate(
        &Load {
            output_tokens: 4,
            tpot_ms: 20.0,
            ..Load::mm1(0.5, 50)
        },
        2,
    );
    let records = m.records.unwrap();
    let record = records.iter().next().unwrap();
    let span = (record.last_token - record.first_token).as_ps();
    assert_eq!(span % 3, 0);
    let slo = |ps| Slo {
        ttft: None,
        tpot: Some(SimDuration::from_ps(ps)),
        e2e: None,
        attainment: 0.9,
    };
    assert!(super::meets(&slo(span / 3), record));
    assert!(!super::meets(&slo(span / 3 - 1), record));
}

#[test]
fn without_records_percentiles_stay_within_the_stated_error() {
    let exact = simulate(&Load::chat(0.8, 3000), 4);
    let mut load = Load::chat(0.8, 3000);
    load.config = Config {
        keep_requests: false,
        ..load.config
    };
    let binned = simulate(&load, 4);
    assert!(binned.records.is_none());
    assert_eq!(binned.counts, exact.counts);
    assert_eq!(binned.attainment, exact.attainment);
    for (a, b) in [
        (exact.ttft, binned.ttft),
        (exact.tpot, binned.tpot),
        (exact.e2e, binned.e2e),
    ] {
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(b.binned && !a.binned);
        for (x, y) in a.quantiles_ms.iter().zip(&b.quantiles_ms) {
            assert!((x - y).abs() <= x / 256.0 + 1e-9, "{x} {y}");
        }
    }
}

#[test]
fn utilisation_is_the_load() {
    let m = simulate(&Load::mm1(0.5, 20_000), 6);
    assert!((m.pools[0].busy - 0.5).abs() < 0.02, "{}", m.pools[0].busy);
    assert!((m.pools[0].busy - m.pools[0].busy_prefill).abs() < 1e-12);
    assert!((m.throughput.requests_per_s / 50.0 - 1.0).abs() < 0.03);
    assert!((m.offered_per_s / 50.0 - 1.0).abs() < 0.03);
}

#[test]
fn a_run_that_measured_nothing_says_so_and_has_no_nan() {
    let mut load = Load::chat(0.5, 50);
    load.config.warmup = Warmup::Requests(50);
    let m = simulate(&load, 1);
    assert_eq!(m.warnings, [Warning::NothingMeasured { arrived: 50 }]);
    assert!(m.ttft.is_none());
    let json = serde_json::to_string(&m).unwrap();
    assert!(!json.contains("NaN"));
    assert_eq!(m.attainment.unwrap().share(), None);
}

#[test]
fn the_series_keeps_512_to_1024_points_on_its_grid() {
    for requests in [2000, 30_000] {
        let series = simulate(&Load::mm1(0.5, requests), 1).series;
        let n = series.points().len();
        assert!((512..=1024).contains(&n), "{n}");
        let interval = series.interval().as_ps();
        for (i, point) in series.points().iter().enumerate() {
            assert_eq!(point.time.as_ps(), i as u64 * interval);
        }
    }
}

/// One prefill and one decode instance of the real engine, the KV pool of the latter tight.
fn engine_system(fast_forward: bool) -> SystemSpec {
    let mut system = super::testing::system();
    system.fast_forward = fast_forward;
    for pool in &mut system.pools {
        pool.latency = Arc::new(Fixed {
            prefill: SimDuration::from_ms(5),
            prefill_per_token: SimDuration::from_ps(40_000_000),
            decode: SimDuration::from_ms(8),
            decode_per_sequence: SimDuration::from_ps(100_000_000),
        });
        pool.limits.max_seqs = 64;
        pool.kv.blocks = Some(700);
    }
    system
}

/// A run of that system.
fn engine(fast_forward: bool, warmup: Warmup) -> RunMetrics {
    let system = engine_system(fast_forward);
    let requests = (0..800_u32).map(|i| RequestSpec {
        arrival: SimTime::from_ps(u64::from(i) * 70_000_000_000 + u64::from(i % 7) * 999),
        input_tokens: 200 + 131 * (i % 9),
        output_tokens: 1 + 37 * (i % 11),
        max_output: 1000,
        class: 0,
        session: 0,
    });
    let config = Config {
        warmup,
        ..Config::default()
    };
    let mut collector = Collector::new(&config, &system);
    simulate_for_real(&system, requests, Options::default(), &mut collector).unwrap();
    collector.into_metrics()
}

#[test]
fn l13_little_holds_on_a_run_of_the_engine() {
    let m = engine(true, Warmup::None);
    assert!(m.little.exact, "{:?}", m.little);
    assert!(m.little.mean_in_system > 5.0, "{:?}", m.little);
    let sampled = m.little.mean_sampled.unwrap();
    assert!(
        (sampled / m.little.mean_in_system - 1.0).abs() < 0.05,
        "{:?}",
        m.little
    );
    assert_eq!(m.counts.done, 800);
    // Every output token but the first of a request ends a gap.
    let tokens: u64 = (0..800).map(|i| 37 * (i % 11)).sum();
    assert_eq!(m.itl.unwrap().count, tokens);
}

#[test]
fn l8_the_figures_of_a_run_do_not_depend_on_stepping() {
    for warmup in [
        Warmup::None,
        Warmup::Requests(100),
        Warmup::Time(SimDuration::from_ms(9001)),
    ] {
        let (fast, slow) = (engine(true, warmup), engine(false, warmup));
        let json = |m: &RunMetrics| serde_json::to_string(m).unwrap();
        assert_eq!(json(&fast), json(&slow));
        assert!(fast.series.iter().eq(slow.series.iter()));
    }
}

/// Steps and KV levels as a person would count them, from a run that steps every token.
#[derive(Default)]
struct ByHand {
    window: SimTime,
    /// Steps from the window's start on, those of them that decode and the sequences in these, by instance.
    steps: [[u64; 3]; 2],
    /// KV blocks over time, by instance.
    levels: [Vec<(SimTime, u64)>; 2],
}

impl Observer for ByHand {
    fn stepped(&mut self, fact: &StepFact) {
        assert_eq!(fact.steps, 1);
        if fact.start >= self.window {
            let [steps, decode, sequences] = &mut self.steps[fact.instance.index()];
            *steps += 1;
            *decode += u64::from(fact.decodes > 0);
            *sequences += u64::from(fact.decodes);
        }
    }

    fn kv_changed(&mut self, now: SimTime, instance: InstanceId, _: i64, used: u64) {
        self.levels[instance.index()].push((now, used));
    }
}

#[test]
fn batches_and_kv_peaks_are_those_of_the_measured_window() {
    // The warm-up has the long prompts and outputs, so that whoever counts it sees other batches and another peak.
    let requests = || {
        (0..300_u32).map(|i| RequestSpec {
            arrival: SimTime::from_ps(u64::from(i) * 60_000_000_000),
            input_tokens: if i < 100 { 1500 } else { 90 + 31 * (i % 5) },
            output_tokens: if i < 100 { 60 } else { 20 + 9 * (i % 7) },
            max_output: 1000,
            class: 0,
            session: 0,
        })
    };
    // Requests of the warm-up decode on into the window that starts at 6.0 s, but not into the other.
    for (start, spills) in [
        (SimDuration::from_ms(6000), true),
        (SimDuration::from_ms(9001), false),
    ] {
        let mut system = engine_system(false);
        let mut by_hand = ByHand {
            window: SimTime::ZERO + start,
            ..ByHand::default()
        };
        simulate_for_real(&system, requests(), Options::default(), &mut by_hand).unwrap();
        for fast_forward in [true, false] {
            system.fast_forward = fast_forward;
            let config = Config {
                warmup: Warmup::Time(start),
                ..Config::default()
            };
            let mut collector = Collector::new(&config, &system);
            simulate_for_real(&system, requests(), Options::default(), &mut collector).unwrap();
            let m = collector.into_metrics();
            let [steps, decode, sequences] = by_hand.steps[1];
            let mean = sequences as f64 / decode as f64;
            assert_eq!(m.pools[1].mean_decode_batch, Some(mean));
            assert_eq!(m.pools[1].steps, steps);
            for (pool, levels) in m.pools.iter().zip(&by_hand.levels) {
                let before = levels.iter().filter(|(at, _)| *at < by_hand.window);
                let within = levels.iter().filter(|(at, _)| *at >= by_hand.window);
                let peak = within
                    .chain(before.clone().next_back())
                    .map(|(_, used)| *used);
                assert_eq!(Some(pool.kv_peak_blocks), peak.max(), "{}", pool.name);
                let earlier = before.map(|(_, used)| *used).max().unwrap();
                assert!(spills || pool.kv_peak_blocks < earlier, "{}", pool.name);
            }
        }
    }
}

#[test]
fn a_run_too_short_to_fill_is_warned_of_but_an_overloaded_one_is_not() {
    let warned = |m: &RunMetrics| {
        let too_short = |w: &Warning| matches!(w, Warning::HorizonTooShort { .. });
        m.warnings.iter().any(too_short)
    };
    let short = Load {
        output_tokens: 1001,
        tpot_ms: 20.0,
        ..Load::mm1(0.5, 1000)
    };
    let short = simulate(&short, 1);
    assert_ne!(short.verdict.state, State::Overloaded);
    assert!(warned(&short), "{:?}", short.warnings);
    // Waits grow to half the window; more requests would not change that.
    let overloaded = simulate(&Load::mm1(2.0, 3000), 1);
    assert_eq!(overloaded.verdict.state, State::Overloaded);
    let ratio = overloaded.last_arrival_s / (overloaded.e2e.as_ref().unwrap().mean_ms / 1e3);
    assert!(ratio < 5.0, "{ratio}");
    assert!(!warned(&overloaded), "{:?}", overloaded.warnings);
}
