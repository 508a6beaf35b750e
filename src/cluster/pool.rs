//! What the instances of a pool have in common.

use super::spec::{KvSpec, PoolSpec, Role};
use crate::latency::{DecodeCurve, Segment, Stage, StepShape};
use crate::policy::batch::StepLimits;
use crate::policy::queue::QueueRule;
use crate::units::{FINE_BITS, Fine, SimDuration};

/// Shared facts of a pool and the decode curves looked up so far.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) role: Role,
    pub(super) stages: u32,
    pub(super) limits: StepLimits,
    pub(super) kv: KvSpec,
    pub(super) queue: QueueRule,
    spec: PoolSpec,
    /// Decode curves by stage, then batch size.
    curves: Vec<Vec<Option<DecodeCurve>>>,
}

impl Pool {
    pub(super) fn new(spec: &PoolSpec) -> Self {
        Self {
            role: spec.role,
            stages: spec.pp,
            limits: spec.limits,
            kv: spec.kv,
            queue: spec.queue.clone(),
            curves: vec![Vec::new(); spec.pp as usize],
            spec: spec.clone(),
        }
    }

    /// Its name in reports.
    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// The linear piece of the decode curve of `batch` sequences that holds at `context`, and where it ends (exclusive).
    pub(super) fn decode_segment(
        &mut self,
        stage: u32,
        batch: u32,
        context: u64,
    ) -> (Segment, u64) {
        let curves = &mut self.curves[stage as usize];
        let at = batch as usize;
        if at >= curves.len() {
            curves.resize(at + 1, None);
        }
        let stage = Stage {
            index: stage,
            of: self.stages,
        };
        let curve = curves[at].get_or_insert_with(|| self.spec.latency.decode_curve(batch, stage));
        let (mut segment, end) = curve.segment(context);
        segment.base = at_least_a_picosecond(segment.base);
        (segment, end)
    }

    /// The time of a decode-only step of `batch` sequences.
    pub(super) fn decode_step(&mut self, stage: u32, batch: u32, context: u64) -> SimDuration {
        let (segment, _) = self.decode_segment(stage, batch, context);
        let growth = segment.slope.0.saturating_mul(context - segment.from);
        Fine(segment.base.0.saturating_add(growth)).ceil()
    }

    /// The time of a step with prompts.
    pub(super) fn step(&self, stage: u32, shape: &StepShape<'_>) -> SimDuration {
        let time = self.spec.latency.step_time(
            shape,
            Stage {
                index: stage,
                of: self.stages,
            },
        );
        time.max(SimDuration::from_ps(1))
    }
}

/// Steps take time, however fast the model: a step of no time would let an instance step for ever in one instant.
fn at_least_a_picosecond(time: Fine) -> Fine {
    time.max(Fine(1 << FINE_BITS))
}
