//! Random scenarios: small clusters under every policy, with the numbers chosen so that things collide.
//!
//! Half of the scenarios live on a grid of 5 ms, so that arrivals, step ends, transfer ends and samples meet at the same
//! picosecond again and again; the other half has odd picoseconds and slopes below one.

use std::sync::{Arc, LazyLock};

use pdsim::cluster::{
    Bill, CpuTier, FirstToken, KvReserve, KvSpec, LongPrompts, Overlap, PoolSpec, Preemption,
    QueueOrder, QueueRule, Reservation, Role, RoleRule, Sharing, SkipPrefill, Staging, StepLimits,
    SystemSpec, TransferMode, TransferSpec,
};
use pdsim::hardware::gpu;
use pdsim::kv::blocks_for;
use pdsim::latency::LatencyModel;
use pdsim::latency::compose::{Formats, Overhead};
use pdsim::latency::fixed::Fixed;
use pdsim::latency::polynomial::{Coefficients, DecodeTerms, Polynomial, Terms};
use pdsim::latency::roofline::{Efficiency, roofline};
use pdsim::latency::share::{IdleSms, SmCurve, SmSplit};
use pdsim::model::{Parallelism, model};
use pdsim::net::{Place, Topology};
use pdsim::policy::batch::BatchRule;
use pdsim::policy::router::{LoadPenalty, RouterRule};
use pdsim::sim::{Error, Observer, Options, simulate, simulate_from};
use pdsim::units::{SimDuration, SimTime};
use pdsim::workload::closed_loop::ClosedLoop;
use pdsim::workload::{Client, Prefixes, RequestSpec};

use crate::model::Pieces;
use crate::pick::Pick;

/// One simulation to run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// The system.
    pub(crate) spec: SystemSpec,
    /// The requests, in order of arrival.
    pub(crate) requests: Vec<RequestSpec>,
    /// The shared starts of their prompts, for pools with a prefix cache.
    pub(crate) prefixes: Option<Arc<Prefixes>>,
    /// Who decides when they are sent.
    pub(crate) client: Client,
}

/// Which kind of numbers the times are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// Multiples of 5 ms.
    Round,
    /// Any picosecond.
    Odd,
}

const ROUTERS: [RouterRule; 8] = [
    RouterRule::RoundRobin,
    RouterRule::LeastTokens,
    RouterRule::LeastQueued,
    RouterRule::LeastRequests,
    RouterRule::LeastPromptTokens,
    RouterRule::LeastKv,
    RouterRule::Random,
    RouterRule::PowerOfTwo,
];
const FALLBACKS: [&RouterRule; 3] = [
    &RouterRule::RoundRobin,
    &RouterRule::LeastQueued,
    &RouterRule::PowerOfTwo,
];
const RULES: [BatchRule; 6] = [
    BatchRule::Mixed,
    BatchRule::PrefillFirst,
    BatchRule::PrefillFirst,
    BatchRule::DecodeFirst,
    BatchRule::DecodeFirst,
    BatchRule::RunToCompletion,
];

impl Scenario {
    /// The scenario of `seed`.
    pub(crate) fn random(seed: u64) -> Self {
        let scenario = Self::one_stream(seed);
        // Drawn from a stream of its own.
        if Pick::new(seed, "multiplexed or not").chance(30) {
            return scenario.clone().multiplexed(seed).unwrap_or(scenario);
        }
        scenario
    }

    /// The same without streams that share GPUs.
    pub(crate) fn one_stream(seed: u64) -> Self {
        let pick = &mut Pick::new(seed, "scenario");
        let times = pick.of(&[Times::Round, Times::Odd]);
        let requests = requests(pick, times);
        let spec = SystemSpec {
            name: format!("scenario-{seed}"),
            pools: pools(pick, times, &requests),
            roles: RoleRule::Fixed,
            prefill_router: pick.of(&ROUTERS),
            decode_router: pick.of(&ROUTERS),
            skip: SkipPrefill {
                below: pick.of(&[0, 0, 0, 2, 20, 100]),
                uncached_below: 0,
                at_queue: pick.of(&[None, None, None, Some(0), Some(1), Some(3)]),
            },
            reservation: pick.of(&[
                Reservation::AtHandoff,
                Reservation::AtHandoff,
                Reservation::Early,
            ]),
            first_token: pick.of(&[FirstToken::Prefill, FirstToken::Decode]),
            transfer: TransferSpec::link(
                span(pick, times, 40),
                pick.of(&[f64::INFINITY, 1e5, 4e3, 333.0]),
            ),
            fast_forward: true,
        };
        let mut spec = spec;
        transfer(pick, times, &mut spec);
        if spec
            .pools
            .iter()
            .any(|p| p.kv.preemption == Preemption::ReturnToPrefill)
        {
            spec.reservation = Reservation::AtHandoff;
        }
        if spec.reservation == Reservation::Early {
            spec.skip.at_queue = None;
        }
        let mut scenario = Self {
            spec,
            requests,
            prefixes: None,
            client: Client::Open,
        };
        scenario.choose_early(seed);
        scenario.add_sessions(seed);
        scenario
    }

    /// Decode instances chosen at arrival, in some.
    fn choose_early(&mut self, seed: u64) {
        let pick = &mut Pick::new(seed, "decode choice");
        if self.spec.reservation == Reservation::AtHandoff && pick.chance(30) {
            self.spec.reservation = Reservation::AtHandoffChosenAtArrival;
            self.spec.skip.uncached_below = pick.of(&[0, 2, 20, 100]);
        }
    }

    /// Sessions, and routers that keep them together, in some.
    fn add_sessions(&mut self, seed: u64) {
        let pick = &mut Pick::new(seed, "sessions");
        if !pick.chance(30) {
            return;
        }
        let sessions = pick.from(1, 8);
        for request in &mut self.requests {
            request.session = pick.from(0, sessions);
        }
        let affinity = |pick: &mut Pick| RouterRule::SessionAffinity {
            fallback: pick.of(&FALLBACKS),
            most_above_least: pick.of(&[None, Some(0), Some(1), Some(4)]),
        };
        if pick.chance(70) {
            self.spec.prefill_router = affinity(pick);
        }
        if pick.chance(50) {
            self.spec.decode_router = affinity(pick);
        }
    }

    /// Host memory behind prefix caches, in half of them.
    fn add_cpu_tiers(&mut self, seed: u64) {
        let pick = &mut Pick::new(seed, "CPU tiers");
        let tiers = pick.chance(50);
        for pool in self.spec.pools.iter_mut().filter(|_| tiers) {
            pool.kv.cpu_cache = Some(CpuTier {
                blocks: pick.from(0, 300),
                bytes_per_sec: pick.of(&[f64::INFINITY, 1e6, 4096.0]),
            });
        }
    }

    /// The same requests from a client that keeps a few of them in flight.
    pub(crate) fn with_closed_loop(mut self, seed: u64) -> Self {
        let pick = &mut Pick::new(seed, "closed loop");
        self.client = Client::Closed {
            concurrency: pick.of(&[1, 1, 2, 3, 5, 8, 20, 100]),
            paced: pick.chance(40),
        };
        self
    }

    /// Simulates it.
    pub(crate) fn run<O: Observer>(
        &self,
        fast_forward: bool,
        horizon: Option<SimTime>,
        observer: &mut O,
    ) -> Result<SimTime, Error> {
        let spec = self.spec_with(fast_forward);
        let requests = self.requests.iter().copied();
        let options = Options {
            seed: 1,
            horizon,
            prefixes: self.prefixes.clone(),
        };
        match self.client {
            Client::Open => simulate(&spec, requests, options, observer),
            Client::Closed { concurrency, paced } => {
                let client = ClosedLoop::new(concurrency, paced, requests);
                simulate_from(&spec, client, options, observer)
            }
        }
    }

    /// The same with prompts and decodes in two streams that share each instance; none where it has several pools or stages.
    pub(crate) fn multiplexed(mut self, seed: u64) -> Option<Self> {
        let [pool] = &mut self.spec.pools[..] else {
            return None;
        };
        if pool.pp > 1 {
            return None;
        }
        let pick = &mut Pick::new(seed, "multiplexed");
        let split = SmSplit {
            prefill_share: pick.of(&[0.5, 0.5, 0.25, 0.8, 0.37]),
            contention: pick.of(&[1.0, 1.0, 2.0, 1.13]),
            idle: pick.of(&[IdleSms::Lent, IdleSms::Lent, IdleSms::Kept]),
            curve: SmCurve {
                compute_saturation: pick.of(&[1.0, 1.0, 0.7]),
                bandwidth_saturation: pick.of(&[0.5, 0.35, 0.1]),
            },
        };
        split.validate().unwrap();
        let chunks = pick.chance(40);
        pool.batch = BatchRule::SharedSm { chunks };
        pool.multiplex = Some(split.streams(&pool.latency));
        Some(self)
    }

    /// The same with prompts that start alike and pools that remember them.
    pub(crate) fn with_prefixes(mut self, seed: u64) -> Self {
        let pick = &mut Pick::new(seed, "prefixes");
        let prompt_block = self.spec.pools[0].kv.block_tokens * pick.of(&[1, 1, 2, 5]);
        for pool in &mut self.spec.pools {
            pool.kv.prefix_cache = prompt_block.is_multiple_of(pool.kv.block_tokens);
        }
        self.add_cpu_tiers(seed);
        if pick.chance(50) {
            self.spec.prefill_router = RouterRule::PrefixAware(LoadPenalty {
                prompt_milli: pick.of(&[1000, 1000, 0, 150]),
                context_milli: pick.of(&[0, 0, 500]),
            });
        }
        let groups = pick.of(&[1, 2, 5]);
        let mut prefixes = Prefixes::new(prompt_block);
        let mut next = 10_000;
        for request in &self.requests {
            let whole = request.input_tokens / prompt_block;
            let (group, shared) = (pick.from(0, groups - 1), pick.from(0, 12));
            let ids: Vec<u32> = (0..whole)
                .map(|depth| {
                    if u64::from(depth) < shared {
                        return u32::try_from(group).unwrap() * 400 + depth;
                    }
                    next += 1;
                    next
                })
                .collect();
            prefixes.push(ids);
        }
        self.prefixes = Some(Arc::new(prefixes));
        self
    }

    /// The same, stepping every token or not.
    pub(crate) fn spec_with(&self, fast_forward: bool) -> SystemSpec {
        SystemSpec {
            fast_forward,
            ..self.spec.clone()
        }
    }
}

/// A span of up to `most` ms, often zero.
fn span(pick: &mut Pick, times: Times, most: u64) -> SimDuration {
    if most == 0 || pick.chance(30) {
        return SimDuration::ZERO;
    }
    match times {
        Times::Round => SimDuration::from_ms(5 * pick.from(0, most / 5)),
        Times::Odd => SimDuration::from_ps(pick.from(1, most * 1_000_000_000)),
    }
}

/// Posting times, overlap or a shared network on top of a plain link.
fn transfer(pick: &mut Pick, times: Times, spec: &mut SystemSpec) {
    if pick.chance(50) {
        spec.transfer.per_block = span(pick, times, 5);
    }
    match pick.from(0, 5) {
        0 => spec.transfer.overlap = Overlap::Chunk,
        1 => {
            let layers = pick.small(1, 4);
            spec.transfer.overlap = Overlap::Layerwise { layers };
        }
        2 | 3 => {
            let instances: u32 = spec.pools.iter().map(|pool| pool.instances).sum();
            let mut rate = || pick.of(&[f64::INFINITY, 1e5, 4e3, 700.0, 333.0]);
            // Two ports of each instance, then two of each of two nodes.
            let ports = (0..2 * instances + 4).map(|_| rate()).collect();
            let by_node = pick.chance(50);
            let place = |i: u32| {
                let node = if by_node { i % 2 } else { i };
                let shared = 2 * instances + 2 * node;
                Place {
                    node,
                    host: None,
                    inside: [2 * i, 2 * i + 1],
                    network: if by_node {
                        [shared, shared + 1]
                    } else {
                        [2 * i, 2 * i + 1]
                    },
                }
            };
            spec.transfer.sharing = Some(Sharing {
                topology: Topology {
                    ports,
                    most_per_transfer: pick.of(&[f64::INFINITY, 2e3, 100.0]),
                    places: (0..instances).map(place).collect(),
                },
                in_flight: pick.of(&[1, 2, 5, u32::MAX]),
            });
        }
        _ => {}
    }
    way(pick, spec);
}

/// Who posts, the way through host memory, and what travels early over a shared network.
fn way(pick: &mut Pick, spec: &mut SystemSpec) {
    let transfer = &mut spec.transfer;
    let rates = [f64::INFINITY, 1e5, 4e3, 700.0];
    if let Some(sharing) = &mut transfer.sharing {
        let topology = &mut sharing.topology;
        if pick.chance(30) {
            for place in &mut topology.places {
                let first = u32::try_from(topology.ports.len()).unwrap();
                topology.ports.extend([pick.of(&rates), pick.of(&rates)]);
                place.host = Some([first, first + 1]);
            }
        }
        if pick.chance(60) {
            let layers = pick.small(1, 4);
            transfer.overlap = pick.of(&[
                Overlap::Chunk,
                Overlap::Layerwise { layers },
                Overlap::Layerwise { layers },
            ]);
            if pick.chance(70) {
                spec.reservation = Reservation::Early;
            }
        }
    }
    if pick.chance(25) {
        transfer.mode = TransferMode::Pull;
    }
    if pick.chance(20) {
        transfer.staging = Some(Staging {
            out_bytes_per_sec: pick.of(&rates),
            into_bytes_per_sec: pick.of(&rates),
        });
    }
    if transfer.mode == TransferMode::Pull || transfer.staging.is_some() {
        transfer.overlap = Overlap::None;
    }
}

fn requests(pick: &mut Pick, times: Times) -> Vec<RequestSpec> {
    let count = pick.from(1, 50);
    let longest_prompt = pick.of(&[1, 3, 8, 40, 150, 400]);
    let longest_output = pick.of(&[1, 2, 5, 30, 120, 500]);
    let gap = pick.of(&[0, 5, 20, 60, 200]);
    let mut arrival = SimTime::ZERO;
    let mut all = Vec::new();
    for _ in 0..count {
        if !pick.chance(35) {
            arrival = arrival.saturating_add(span(pick, times, gap));
        }
        let output_tokens = if pick.chance(20) {
            1
        } else {
            pick.small(1, longest_output)
        };
        all.push(RequestSpec {
            arrival,
            input_tokens: if pick.chance(20) {
                1
            } else {
                pick.small(1, longest_prompt)
            },
            output_tokens,
            max_output: output_tokens + pick.small(0, 50),
            class: u16::try_from(pick.from(0, 3)).unwrap(),
            session: 0,
        });
    }
    all
}

fn pools(pick: &mut Pick, times: Times, requests: &[RequestSpec]) -> Vec<PoolSpec> {
    if pick.chance(45) {
        return vec![pool(pick, times, requests, Role::Both)];
    }
    let mut pools = Vec::new();
    for role in [Role::Prefill, Role::Decode] {
        for _ in 0..pick.of(&[1, 1, 2]) {
            pools.push(pool(pick, times, requests, role));
        }
    }
    pools
}

fn pool(pick: &mut Pick, times: Times, requests: &[RequestSpec], role: Role) -> PoolSpec {
    let pp = pick.of(&[1, 1, 1, 1, 2, 3, 4]);
    PoolSpec {
        name: format!("{role:?}").to_lowercase(),
        role,
        instances: pick.small(1, 3),
        gpu: "none".to_owned(),
        bill: Bill::default(),
        tp: 1,
        pp,
        dp: 1,
        ep: 1,
        latency: latency(pick, times, pp),
        multiplex: None,
        batch: pick.of(&RULES),
        queue: queue(pick, times),
        limits: StepLimits {
            max_step_tokens: pick.of(&[1, 3, 16, 64, 256, 2048, u32::MAX]),
            max_step_prompts: pick.of(&[1, 2, 4, u32::MAX]),
            max_seqs: pick.of(&[1, 2, 3, 8, u32::MAX, u32::MAX]),
            max_decode_context: if pick.chance(25) {
                Some(pick.from(1, 700))
            } else {
                None
            },
            long_prompts: pick.chance(20).then(|| LongPrompts {
                above: pick.of(&[1, 8, 100]),
                most: pick.of(&[1, 1, 2]),
                interrupts: pick.chance(50),
            }),
        },
        kv: kv(pick, requests),
    }
}

fn queue(pick: &mut Pick, times: Times) -> QueueRule {
    let order = match pick.from(0, 7) {
        0 => QueueOrder::ShortestPrompt,
        1 => QueueOrder::Priority,
        2 => {
            let promises = (0..pick.from(1, 4)).map(|_| span(pick, times, 300));
            QueueOrder::EarliestDeadline(promises.collect())
        }
        _ => QueueOrder::Fcfs,
    };
    QueueRule {
        order,
        most_passes: pick.of(&[None, Some(0), Some(2), Some(10)]),
    }
}

fn kv(pick: &mut Pick, requests: &[RequestSpec]) -> KvSpec {
    let block_tokens = pick.of(&[1, 2, 3, 4, 8, 16, 32]);
    let reserve = match pick.from(0, 9) {
        0 => KvReserve::MaxOutput,
        1 => KvReserve::Oracle,
        2 => KvReserve::OracleAtDecode,
        _ => KvReserve::Paged,
    };
    let whole = |r: &RequestSpec| {
        let output = match reserve {
            KvReserve::MaxOutput => r.max_output,
            KvReserve::Paged | KvReserve::Oracle | KvReserve::OracleAtDecode => r.output_tokens,
        };
        blocks_for(u64::from(r.input_tokens + output - 1), block_tokens)
    };
    let largest = requests.iter().map(whole).max().unwrap_or(1);
    let all: u64 = requests.iter().map(whole).sum();
    let blocks = match pick.from(0, 9) {
        0 | 1 => None,
        // Tight: preemption storms.
        2..=4 => Some(largest + pick.from(0, 3)),
        5 | 6 => Some(largest + pick.from(0, largest)),
        7 => Some(largest.max(all / 4)),
        // Loose.
        8 => Some(all + 10),
        // Too small for some: rejections.
        _ => Some((largest / 2).max(1)),
    };
    KvSpec {
        block_tokens,
        blocks,
        watermark_blocks: pick.of(&[0, 0, 1, 5]),
        bytes_per_token: pick.of(&[0, 1, 100]),
        reserve,
        preemption: match pick.from(0, 7) {
            0 | 1 => Preemption::Swap {
                bytes_per_sec: pick.of(&[f64::INFINITY, 1e6, 4096.0]),
            },
            2 | 3 => Preemption::ReturnToPrefill,
            _ => Preemption::Recompute,
        },
        prefix_cache: false,
        cpu_cache: None,
    }
}

fn latency(pick: &mut Pick, times: Times, pp: u32) -> Arc<dyn LatencyModel> {
    match (times, pick.from(0, 9)) {
        // No time at all: every step lasts the least possible.
        (_, 0) => Arc::new(Fixed::default()),
        (Times::Round, _) => Arc::new(Fixed {
            prefill: SimDuration::from_ms(pick.of(&[0, 5, 10, 20])),
            prefill_per_token: SimDuration::from_ms(pick.of(&[0, 0, 5])),
            decode: SimDuration::from_ms(pick.of(&[5, 5, 10, 20])),
            decode_per_sequence: SimDuration::from_ms(pick.of(&[0, 0, 5])),
        }),
        (Times::Odd, 1..=3) => Arc::new(Fixed {
            prefill: span(pick, times, 30),
            prefill_per_token: span(pick, times, 1),
            decode: span(pick, times, 20),
            decode_per_sequence: span(pick, times, 1),
        }),
        (Times::Odd, 4 | 5) => Arc::new(polynomial(pick)),
        (Times::Odd, 6) => Arc::clone(&ROOFLINES[pp as usize - 1]),
        (Times::Odd, _) => Arc::new(Pieces {
            knot: pick.of(&[1, 2, 7, 16, 100, 1000]),
            pieces: pick.from(1, 40),
            base: pick.of(&[1, 1 << 16, 1 << 30, 1 << 40, 123_456_789_012]),
            slope: pick.of(&[0, 1, 1 << 15, 1 << 20, 987_654_321]),
            per_token: span(pick, times, 1),
        }),
    }
}

/// A real model on a real GPU, by pipeline-parallel degree.
static ROOFLINES: LazyLock<[Arc<dyn LatencyModel>; 4]> = LazyLock::new(|| {
    let of = |pp| -> Arc<dyn LatencyModel> {
        let (model, gpu) = (model("llama-3.1-8b").unwrap(), gpu("h100-sxm").unwrap());
        let cut = Parallelism {
            pp,
            ..Parallelism::SINGLE
        };
        let made = roofline(
            &model,
            &gpu,
            cut,
            Formats::BF16,
            Efficiency::default(),
            Overhead::NONE,
        );
        Arc::new(made.unwrap())
    };
    [of(1), of(2), of(3), of(4)]
});

fn polynomial(pick: &mut Pick) -> Polynomial {
    let mut terms = || Terms {
        a: 10.0 * pick.unit(),
        b: 0.01 * pick.unit(),
        c: 0.0001 * pick.unit(),
    };
    let coefficients = Coefficients {
        prefill: terms(),
        decode: DecodeTerms {
            small: terms(),
            large: terms(),
            large_batch_from: 4,
        },
        prefill_stage_overhead: 0.5,
        step_overhead: 1.0,
        step_overhead_per_token: 0.0001,
    };
    Polynomial::new(coefficients).unwrap()
}
