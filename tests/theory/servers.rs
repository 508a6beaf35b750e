//! First come, first served: M/M/1, M/D/1, `E_c/M/1` and M/M/c.

use pdsim::cluster::{RequestRecord, Role};
use pdsim::latency::fixed::Fixed;
use pdsim::metrics::{Collector, Config};
use pdsim::sim::{Options, simulate};
use pdsim::units::SimDuration;

use crate::estimate::{SEEDS, assert_estimate, assert_mean};
use crate::system::{Experiment, Tokens, pool, system};

/// A microsecond per prompt token, so that lengths are service times.
const PER_TOKEN: Fixed = Fixed {
    prefill: SimDuration::ZERO,
    prefill_per_token: SimDuration::from_ps(1_000_000),
    decode: SimDuration::ZERO,
    decode_per_sequence: SimDuration::ZERO,
};

/// Mean service time of the prompt servers: 10 ms.
const SERVICE: f64 = 0.01;

fn waiting(record: &RequestRecord) -> Option<SimDuration> {
    record.prefill_queue()
}

/// Prompts only (one output token), each served alone.
fn prompts(instances: u32, load: f64, inputs: Tokens) -> Experiment {
    Experiment {
        spec: system(
            vec![pool(Role::Both, instances, 1, PER_TOKEN)],
            f64::INFINITY,
        ),
        rate: load * f64::from(instances) / SERVICE,
        count: 20_000,
        inputs,
        outputs: Tokens::Constant(1),
    }
}

#[test]
fn mm1_waiting_and_sojourn() {
    for load in [0.3, 0.7] {
        // W = ρ/(μ − λ); sojourn = 1/(μ − λ).
        let experiment = prompts(1, load, Tokens::Exponential(10_000.0));
        let sojourn = SERVICE / (1.0 - load);
        assert_mean("M/M/1 waiting", &experiment, waiting, load * sojourn, 0.12);
        assert_mean(
            "M/M/1 sojourn",
            &experiment,
            RequestRecord::e2e,
            sojourn,
            0.08,
        );
    }
}

#[test]
fn little_the_number_seen_in_samples_is_rate_times_sojourn() {
    // Samples look at the pools and know no request; L = λ W = ρ/(1 − ρ).
    let load = 0.7;
    let experiment = prompts(1, load, Tokens::Exponential(10_000.0));
    let sampled = |seed| {
        let mut collector = Collector::new(&Config::default(), &experiment.spec);
        let requests = experiment.requests(seed);
        simulate(
            &experiment.spec,
            requests,
            Options::default(),
            &mut collector,
        )
        .unwrap();
        collector.into_metrics().little.mean_sampled.unwrap()
    };
    let means: Vec<f64> = (0..SEEDS).map(sampled).collect();
    assert_estimate("L of M/M/1", &means, load / (1.0 - load), 0.15);
}

#[test]
fn md1_waiting() {
    for load in [0.3, 0.8] {
        // Pollaczek–Khinchine: W = ρ D / (2 (1 − ρ)).
        let experiment = prompts(1, load, Tokens::Constant(10_000));
        let theory = load * SERVICE / (2.0 * (1.0 - load));
        assert_mean("M/D/1 waiting", &experiment, waiting, theory, 0.1);
    }
}

#[test]
fn round_robin_over_c_instances_is_c_queues_with_erlang_arrivals() {
    // Every c-th arrival of a Poisson stream goes to the same instance: E_c/M/1. With σ the root in (0, 1) of
    // σ = A*(μ(1 − σ)), A*(s) = (λ/(λ + s))^c, the mean waiting time is σ/(μ(1 − σ)).
    for c in [2_u32, 4] {
        let load = 0.7;
        let experiment = prompts(c, load, Tokens::Exponential(10_000.0));
        let mu = 1.0 / SERVICE;
        let mut sigma: f64 = 0.5;
        for _ in 0..200 {
            let s = mu * (1.0 - sigma);
            sigma = (experiment.rate / (experiment.rate + s)).powi(c.cast_signed());
        }
        let theory = sigma / (mu * (1.0 - sigma));
        assert_mean("E_c/M/1 waiting", &experiment, waiting, theory, 0.12);
    }
}

#[test]
fn seats_of_an_instance_are_an_mmc_queue() {
    // c sequences decode at a time and each step takes 10 µs however many there are, so a seat is a server: a request holds
    // it for its output tokens × 10 µs, exponential with mean 100 ms. One queue, first come, first served: Erlang's C.
    // A sequence joins at the next step boundary, so times are off by less than 10⁻⁴ of the service time.
    let step = SimDuration::from_ps(10_000_000);
    for c in [2_u32, 5] {
        let mut seats = pool(
            Role::Both,
            1,
            1,
            Fixed {
                decode: step,
                ..Fixed::default()
            },
        );
        seats.limits.max_seqs = c;
        let (load, mean) = (0.8, 0.1);
        let experiment = Experiment {
            spec: system(vec![seats], f64::INFINITY),
            rate: load * f64::from(c) / mean,
            count: 16_000,
            inputs: Tokens::Constant(1),
            outputs: Tokens::Exponential(10_000.0),
        };
        let theory = erlang_c(c, load) * mean / (f64::from(c) * (1.0 - load));
        assert_mean("M/M/c waiting", &experiment, waiting, theory, 0.15);
    }
}

/// The probability that an arrival waits in M/M/c at load ρ per server.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = f64::from(servers) * load;
    // Σ a^k/k! for k < c, and a^c/c!.
    let (mut sum, mut term) = (0.0, 1.0);
    for k in 0..servers {
        sum += term;
        term *= offered / f64::from(k + 1);
    }
    let waits = term / (1.0 - load);
    waits / (sum + waits)
}

#[test]
fn erlang_c_of_one_server_is_its_load() {
    assert!((erlang_c(1, 0.37) - 0.37).abs() < 1e-12);
    // Two servers at half load: 2ρ²/(1 + ρ) = 1/3.
    assert!((erlang_c(2, 0.5) - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn a_link_is_an_md1_queue() {
    // Prompts take no time worth mentioning, each KV cache has 10,000 bytes at 1 MB/s: 10 ms on the link.
    let load = 0.6;
    let pools = vec![
        pool(Role::Prefill, 1, 1, Fixed::default()),
        pool(Role::Decode, 1, 1, Fixed::default()),
    ];
    let experiment = Experiment {
        spec: system(pools, 1e6),
        rate: load / SERVICE,
        count: 20_000,
        inputs: Tokens::Constant(10_000),
        outputs: Tokens::Constant(2),
    };
    let theory = load * SERVICE / (2.0 * (1.0 - load));
    assert_mean(
        "M/D/1 link",
        &experiment,
        RequestRecord::transfer_queue,
        theory,
        0.1,
    );
}
