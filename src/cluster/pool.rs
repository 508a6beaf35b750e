//! What the instances of a pool have in common.

use std::sync::Arc;

use super::spec::{KvSpec, PoolSpec, Role};
use crate::latency::{DecodeCurve, LatencyModel, Segment, Stage, StepShape};
use crate::policy::batch::StepLimits;
use crate::policy::queue::QueueRule;
use crate::units::{FINE_BITS, Fine, SimDuration};

/// Shared facts of a pool and the decode curves looked up so far.
#[derive(Debug)]
pub(super) struct Pool {
    name: String,
    pub(super) role: Role,
    pub(super) limits: StepLimits,
    pub(super) kv: KvSpec,
    /// KV blocks that one sequence may take.
    pub(super) blocks_of_a_rank: Option<u64>,
    pub(super) queue: QueueRule,
    /// By site: who knows its times, and of which stage.
    prompts: Vec<Site>,
    decodes: Vec<Site>,
    /// Decode curves by site, then batch size.
    curves: Vec<Vec<Option<DecodeCurve>>>,
}

/// What step times depend on beside the batch: the pipeline stage or, where two streams share a GPU, whether the other one runs,
/// too (site 1) or not (site 0).
type Site = (Arc<dyn LatencyModel>, Stage);

/// The sites of prompts and of decodes.
fn sites(spec: &PoolSpec) -> [Vec<Site>; 2] {
    if let Some(streams) = &spec.multiplex {
        let whole = |model: &Arc<dyn LatencyModel>| (Arc::clone(model), Stage::ONLY);
        return [&streams.prefill, &streams.decode].map(|pair| pair.iter().map(whole).collect());
    }
    let of = spec.pp;
    let stages = (0..of).map(|index| (Arc::clone(&spec.latency), Stage { index, of }));
    [stages.clone().collect(), stages.collect()]
}

impl Pool {
    pub(super) fn new(spec: &PoolSpec) -> Self {
        let [prompts, decodes] = sites(spec);
        Self {
            name: spec.name.clone(),
            role: spec.role,
            limits: spec.limits,
            kv: spec.kv,
            blocks_of_a_rank: spec.blocks_of_a_rank(),
            queue: spec.queue.clone(),
            curves: vec![Vec::new(); decodes.len()],
            prompts,
            decodes,
        }
    }

    /// Its name in reports.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The linear piece of the decode curve of `batch` sequences that holds at `context`, and where it ends (exclusive).
    pub(super) fn decode_segment(
        &mut self,
        site: usize,
        batch: u32,
        context: u64,
    ) -> (Segment, u64) {
        let curves = &mut self.curves[site];
        let at = batch as usize;
        if at >= curves.len() {
            curves.resize(at + 1, None);
        }
        let curve = curves[at].get_or_insert_with(|| {
            let (model, stage) = &self.decodes[site];
            model.decode_curve(batch, *stage)
        });
        let (mut segment, end) = curve.segment(context);
        segment.base = at_least_a_picosecond(segment.base);
        (segment, end)
    }

    /// The time of a decode-only step of `batch` sequences.
    pub(super) fn decode_step(&mut self, site: usize, batch: u32, context: u64) -> SimDuration {
        let (segment, _) = self.decode_segment(site, batch, context);
        let growth = segment.slope.0.saturating_mul(context - segment.from);
        Fine(segment.base.0.saturating_add(growth)).ceil()
    }

    /// The time of a step with prompts.
    pub(super) fn step(&self, site: usize, shape: &StepShape<'_>) -> SimDuration {
        let (model, stage) = &self.prompts[site];
        let time = model.step_time(shape, *stage);
        time.max(SimDuration::from_ps(1))
    }
}

/// Steps take time, however fast the model: a step of no time would let an instance step for ever in one instant.
fn at_least_a_picosecond(time: Fine) -> Fine {
    time.max(Fine(1 << FINE_BITS))
}
