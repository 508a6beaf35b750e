//! Two streams on one GPU: prompts and decodes in steps of their own, at the same time, over the same KV blocks.
//!
//! ```text
//! prefill stream   ──[ prompts ]──[ prompts ]────────────[ prompts ]──
//! decode stream    ─[  ][   ][   ][   ][   ][ ][ ][ ][ ][  ][   ]─────     steps are longer beside those of the other stream
//! ```
//!
//! How long a step takes is settled when it starts, by whether the other stream has a step in progress or starts one at that instant;
//! a step in progress is not timed anew. A run of decode steps therefore holds while the prefill stream stays as it is:
//! it is cut at its next step boundary when a prefill step begins or ends, and books are brought to that instant. A prompt that is done is
//! ready to decode where it is, from the next decode step on.

use super::host::Host;
use super::instance::Instance;
use super::step::Shop;
use crate::units::SimDuration;

impl Instance {
    /// Starts steps on the streams that are idle and have work.
    #[inline(never)]
    pub(super) fn form_streams<H: Host>(&mut self, shop: &mut Shop<'_>, host: &mut H) {
        if self.stages[0].busy {
            self.book_decodes(host);
        } else {
            self.swap_in(shop, host);
            self.seat(shop, host);
        }
        loop {
            self.plan_step(shop);
            let decode = shop.plan.decodes > 0 && self.stages[0].wait.n > 0;
            if shop.plan.picks.is_empty() && !decode {
                return;
            }
            self.take_picks(shop, host);
            if decode {
                self.take_decodes(shop, host);
                self.left_over = self.stages[0].wait.n;
            }
            let prompts = !shop.plan.picks.is_empty();
            let decodes = decode && self.stages[0].batch.group.n > 0;
            if prompts || decodes {
                self.start_streams(prompts, decodes, shop, host);
                return;
            }
            // All decodes were preempted: a prompt may find blocks now.
        }
    }

    /// Starts the steps that stand on the streams; each sees the other.
    fn start_streams<H: Host>(
        &mut self,
        prompts: bool,
        decodes: bool,
        shop: &mut Shop<'_>,
        host: &mut H,
    ) {
        let beside_prompts = prompts || self.stages[self.prompts].busy;
        let beside_decodes = decodes || self.stages[0].busy;
        if prompts {
            self.start(self.prompts, usize::from(beside_decodes), shop, host);
        }
        if decodes {
            let first = &mut self.stages[0];
            if self.swap_time > SimDuration::ZERO {
                // A step that copies KV caches first interrupts the decode run.
                first.batch.group.clock = None;
                first.wait.clock = None;
            }
            self.start(0, usize::from(beside_prompts), shop, host);
        }
    }

    /// A prefill step ends: the decode run in progress is to end at its next step boundary, and what its steps have done by now counts.
    #[inline(never)]
    pub(super) fn meet_decodes<H: Host>(&mut self, host: &mut H) {
        self.cut_run(host);
        self.book_decodes(host);
    }

    /// Books the blocks of the decode run in progress as far as its steps have ended, as stepping would have done by now.
    fn book_decodes<H: Host>(&mut self, host: &mut H) {
        self.trim_prefix_at(host.now());
        self.report_ended(host);
    }
}
