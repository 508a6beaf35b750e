//! Kernels on part of the SMs.

use std::sync::Arc;

use super::Slowdown;
use crate::latency::Chunk;
use crate::latency::kernels::{
    Collective, Dispatch, Experts, Gemm, HeadLayout, Kernels, LatentLayout, Timed,
};
use crate::latency::roofline::{Datasheet, Unit};

/// The kernels of a GPU of which only part of the SMs is to be had.
#[derive(Debug, Clone)]
pub(in crate::latency) struct SharedKernels {
    whole: Arc<dyn Kernels>,
    slowdown: Slowdown,
}

/// `whole`, slowed down.
pub(in crate::latency) fn share_kernels(
    whole: Arc<dyn Kernels>,
    slowdown: Slowdown,
) -> SharedKernels {
    SharedKernels { whole, slowdown }
}

impl SharedKernels {
    /// The time of a kernel that takes `timed` on the whole GPU and does this work on this unit.
    fn slow(&self, timed: Timed, unit: Unit, flops: f64, bytes: f64) -> Timed {
        let bounds = self.whole.datasheet().bounds(unit, flops, bytes);
        let longer = bounds.compute.max(bounds.memory);
        let slow =
            (bounds.compute * self.slowdown.compute).max(bounds.memory * self.slowdown.memory);
        let factor = if longer > 0.0 { slow / longer } else { 1.0 };
        // Launching a kernel takes no SMs.
        let fixed = timed.seconds.min(self.whole.datasheet().kernel_seconds());
        let seconds = (fixed + (timed.seconds - fixed) * factor) * self.slowdown.contention;
        // Rounding must not make it faster than it was.
        Timed::unmeasured(seconds.max(timed.seconds))
    }
}

impl Kernels for SharedKernels {
    fn gemm(&self, g: Gemm) -> Timed {
        let timed = self.whole.gemm(g);
        self.slow(timed, Unit::Product(g.format), g.flops(), g.bytes())
    }

    fn prefill_attention(&self, layout: &HeadLayout, chunks: &[Chunk]) -> Timed {
        let timed = self.whole.prefill_attention(layout, chunks);
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        self.slow(timed, Unit::Attention, flops, layout.prefill_bytes(chunks))
    }

    fn decode_attention(&self, layout: &HeadLayout, batch: u32, context: f64) -> Timed {
        let timed = self.whole.decode_attention(layout, batch, context);
        let flops = layout.decode_flops(batch, context);
        let bytes = layout.decode_bytes(batch, context);
        self.slow(timed, Unit::Attention, flops, bytes)
    }

    fn latent_prefill(&self, layout: &LatentLayout, chunks: &[Chunk]) -> Timed {
        let timed = self.whole.latent_prefill(layout, chunks);
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        self.slow(timed, Unit::Attention, flops, layout.prefill_bytes(chunks))
    }

    fn latent_decode(&self, layout: &LatentLayout, batch: u32, context: f64) -> Timed {
        let timed = self.whole.latent_decode(layout, batch, context);
        let flops = layout.decode_flops(batch, context);
        let bytes = layout.decode_bytes(batch, context);
        self.slow(timed, Unit::Attention, flops, bytes)
    }

    fn experts(&self, e: &Experts) -> Timed {
        let timed = self.whole.experts(e);
        self.slow(timed, Unit::Product(e.format), e.flops(), e.bytes())
    }

    fn collective(&self, c: Collective) -> Timed {
        // Links carry what they carried; a few SMs drive them.
        let timed = self.whole.collective(c);
        Timed::unmeasured(timed.seconds * self.slowdown.contention)
    }

    fn dispatch(&self, d: Dispatch) -> Timed {
        let timed = self.whole.dispatch(d);
        Timed::unmeasured(timed.seconds * self.slowdown.contention)
    }

    fn elementwise(&self, bytes: f64) -> Timed {
        self.slow(self.whole.elementwise(bytes), Unit::Memory, 0.0, bytes)
    }

    fn prompts(&self, layout: &HeadLayout, number: f64, length: f64) -> Option<Timed> {
        self.whole.prompts(layout, number, length)
    }

    fn latent_prompts(&self, layout: &LatentLayout, number: f64, length: f64) -> Option<Timed> {
        self.whole.latent_prompts(layout, number, length)
    }

    fn prompts_slowed(&self, layout: &HeadLayout, chunks: &[Chunk], seconds: f64) -> f64 {
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        let whole = Timed::unmeasured(self.whole.prompts_slowed(layout, chunks, seconds));
        self.slow(whole, Unit::Attention, flops, layout.prefill_bytes(chunks))
            .seconds
    }

    fn latent_prompts_slowed(&self, layout: &LatentLayout, chunks: &[Chunk], seconds: f64) -> f64 {
        let flops = chunks.iter().map(|&c| layout.prefill_flops(c)).sum();
        let whole = Timed::unmeasured(self.whole.latent_prompts_slowed(layout, chunks, seconds));
        self.slow(whole, Unit::Attention, flops, layout.prefill_bytes(chunks))
            .seconds
    }

    fn context_knots(&self) -> &[u32] {
        self.whole.context_knots()
    }

    fn datasheet(&self) -> &Datasheet {
        self.whole.datasheet()
    }
}
