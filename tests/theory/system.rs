//! Systems reduced to queues.

use std::sync::Arc;

use pdsim::cluster::{
    Bill, FirstToken, KvReserve, KvSpec, PoolSpec, Preemption, QueueRule, Reservation, Role,
    RoleRule, SkipPrefill, StepLimits, SystemSpec, TransferSpec,
};
use pdsim::latency::fixed::Fixed;
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::RouterRule;
use pdsim::rng;
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::RequestSpec;
use rand::RngExt as _;

/// How a length is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tokens {
    /// Always so many.
    Constant(u32),
    /// Exponential with this mean, rounded to a token (which moves the mean by about 10⁻⁷ of itself).
    Exponential(f64),
}

/// Poisson arrivals into a system.
pub(crate) struct Experiment {
    pub(crate) spec: SystemSpec,
    /// Arrivals per second.
    pub(crate) rate: f64,
    pub(crate) count: usize,
    pub(crate) inputs: Tokens,
    pub(crate) outputs: Tokens,
}

impl Experiment {
    /// The requests of one seed.
    pub(crate) fn requests(&self, seed: u64) -> impl Iterator<Item = RequestSpec> {
        let mut arrivals = rng::stream(seed, "arrivals");
        let mut lengths = rng::stream(seed, "lengths");
        let exponential =
            move |rng: &mut rng::Rng, mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
        let mut now = 0.0;
        (0..self.count).map(move |_| {
            now += exponential(&mut arrivals, 1.0 / self.rate);
            let mut tokens = |of: Tokens| match of {
                Tokens::Constant(n) => n,
                Tokens::Exponential(mean) => whole(exponential(&mut lengths, mean)),
            };
            let (input_tokens, output_tokens) = (tokens(self.inputs), tokens(self.outputs));
            RequestSpec {
                arrival: SimTime::ZERO + SimDuration::from_secs_f64(now).unwrap(),
                input_tokens,
                output_tokens,
                max_output: output_tokens,
                class: 0,
                session: 0,
            }
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, from 1 up, far below 2^32"
)]
fn whole(tokens: f64) -> u32 {
    tokens.round().max(1.0) as u32
}

/// A pool of `instances` without limits, one prompt per step.
pub(crate) fn pool(role: Role, instances: u32, pp: u32, latency: Fixed) -> PoolSpec {
    PoolSpec {
        name: format!("{role:?}"),
        role,
        instances,
        gpu: "none".to_owned(),
        bill: Bill::default(),
        tp: 1,
        pp,
        dp: 1,
        ep: 1,
        latency: Arc::new(latency),
        multiplex: None,
        batch: BatchRule::PrefillFirst,
        queue: QueueRule::default(),
        limits: StepLimits {
            max_step_tokens: u32::MAX,
            max_step_prompts: 1,
            max_seqs: u32::MAX,
            max_decode_context: None,
            long_prompts: None,
        },
        kv: KvSpec {
            block_tokens: 16,
            blocks: None,
            watermark_blocks: 0,
            bytes_per_token: 1,
            reserve: KvReserve::Paged,
            preemption: Preemption::Recompute,
            prefix_cache: false,
            cpu_cache: None,
        },
    }
}

/// A system of `pools`, requests in turn over the instances, hand-offs at `bytes_per_sec`.
pub(crate) fn system(pools: Vec<PoolSpec>, bytes_per_sec: f64) -> SystemSpec {
    SystemSpec {
        name: "queue".to_owned(),
        pools,
        roles: RoleRule::Fixed,
        prefill_router: RouterRule::RoundRobin,
        decode_router: RouterRule::RoundRobin,
        skip: SkipPrefill::default(),
        reservation: Reservation::AtHandoff,
        first_token: FirstToken::Prefill,
        transfer: TransferSpec::link(SimDuration::ZERO, bytes_per_sec),
        fast_forward: true,
    }
}
