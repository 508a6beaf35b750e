//! Keys that would be of no effect are refused: whoever writes one expects something of it.

use crate::cluster::Role;
use crate::scenario::defaults;
use crate::scenario::schema::{self, Policy, Pool, System};

use super::Builder;
use super::pool::is_chunked;

impl Builder<'_> {
    /// Refuses the keys of a system and of its pools that its policy has no use for.
    pub(super) fn check_effects(&mut self, path: &str, system: &System) {
        let chunked: Vec<bool> = defaults::pools(system)
            .map(|(key, pool)| self.check_step_sizes(path, key, system, pool))
            .collect();
        // The budget of policy `chunked` may be the engine's.
        let asked = system.chunk_budget.is_some() && system.policy != Policy::Chunked;
        let chunks = chunked.is_empty() || chunked.contains(&true);
        self.require_use(!asked || chunks, path, &format!("{path}.chunk_budget"), || {
            "is of no effect: no pool of this system computes prompts in chunks; write `policy: chunked`, or `batch: decode_first` for a pool, \
             or remove it"
                .to_owned()
        });
        // Streams have a message of their own.
        let asked = system.max_step_tokens.is_some() && system.policy != Policy::Multiplexed;
        let used = chunked.is_empty() || chunked.contains(&false);
        self.require_use(!asked || used, path, &format!("{path}.max_step_tokens"), || {
            "is of no effect: every pool of this system computes prompts in chunks, within `chunk_budget`; write that, or remove it"
                .to_owned()
        });
        if let (Policy::Disaggregated, Some(prefill)) = (system.policy, &system.prefill) {
            self.check_prefill_only(path, prefill);
        }
        self.check_early_chunks(path, system, chunks);
    }

    /// Holds the step sizes of a pool against how it computes prompts; answers whether in chunks.
    fn check_step_sizes(&mut self, path: &str, key: &str, system: &System, pool: &Pool) -> bool {
        let role = match key {
            "prefill" => Role::Prefill,
            "decode" => Role::Decode,
            _ => Role::Both,
        };
        let chunked = is_chunked(system, pool, role);
        let idle = pool.chunk_budget.is_some() && !chunked;
        self.require_use(!idle, path, &format!("{path}.{key}.chunk_budget"), || {
            "is of no effect: what prompts this pool gets it computes whole; write `batch: decode_first` beside it, or remove it"
                .to_owned()
        });
        // Streams have a message of their own.
        let whole = !chunked || system.policy == Policy::Multiplexed;
        let idle = pool.max_step_tokens.is_some() && !whole;
        self.require_use(!idle, path, &format!("{path}.{key}.max_step_tokens"), || {
            "is of no effect: this pool computes prompts in chunks, within `chunk_budget`; write that, or remove it"
                .to_owned()
        });
        chunked
    }

    /// Refuses what tunes decoding on a pool where nothing decodes.
    fn check_prefill_only(&mut self, path: &str, pool: &Pool) {
        // That word has a message of its own.
        let returns = pool.preemption == Some(schema::Preemption::ReturnToPrefill);
        for (key, written) in [
            ("preemption", pool.preemption.is_some() && !returns),
            ("swap_bandwidth", pool.swap_bandwidth.is_some()),
            ("kv_reserve", pool.kv_reserve.is_some()),
            ("max_decode_context", pool.max_decode_context.is_some()),
        ] {
            self.require_use(!written, path, &format!("{path}.prefill.{key}"), || {
                format!(
                    "is of no effect: nothing decodes on prefill instances; remove it, or write `{key}` for `decode`"
                )
            });
        }
    }

    /// Refuses to send chunks early where there are none.
    fn check_early_chunks(&mut self, path: &str, system: &System, chunked: bool) {
        let transfer = system.transfer.as_ref();
        // Under `mixed_pool` it is refused whatever the chunks.
        let asked = system.policy != Policy::MixedPool
            && transfer.is_some_and(|t| t.overlap == Some(schema::Overlap::Chunk));
        let prefill = system.prefill.as_ref();
        let some = prefill.is_none_or(|pool| is_chunked(system, pool, Role::Prefill));
        let possible = some || (system.policy.moves() && chunked);
        self.require_use(!asked || possible, path, &format!("{path}.transfer.overlap"), || {
            "is `chunk`, but the prefill pool computes prompts whole, so that no chunk is there before the last one; write a `chunk_budget` \
             for `prefill`, or `overlap: layerwise`"
                .to_owned()
        });
    }
}
