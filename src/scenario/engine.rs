//! Engine presets: what the tuning keys are when nobody sets them.
//!
//! A preset is a row of defaults; every one of its keys can be overridden per system or per pool. The numbers are the
//! engines' own defaults on data-centre GPUs, with their source; scheduling differences beyond these keys are the
//! business of `policy`.

use crate::hardware::GpuSpec;
use crate::latency::compose::Overhead;
use crate::units::SimDuration;

use super::schema::{FirstToken, KvBlocks, KvReserve, Limit, Preemption, Tuning};

/// One engine's defaults.
#[derive(Debug)]
pub(super) struct Engine {
    /// Name in scenarios.
    pub(super) name: &'static str,
    /// Where the numbers come from; stated in the resolved scenario.
    pub(super) source: &'static str,
    /// Default of every tuning key.
    pub(super) chunk_budget: u32,
    pub(super) max_step_tokens: u32,
    pub(super) max_step_prompts: u32,
    pub(super) max_seqs: u32,
    pub(super) max_decode_context: Limit,
    pub(super) block_tokens: u32,
    pub(super) memory_fraction: f64,
    pub(super) kv_watermark: f64,
    /// Whether prompt blocks stay cached.
    pub(super) prefix_cache: bool,
    /// Who emits the first token when the KV cache travels.
    pub(super) first_token: FirstToken,
    /// Published coefficient set of the `polynomial` step-time model.
    pub(super) polynomial_set: &'static str,
    /// Router of prompts and of decodes.
    pub(super) routers: [&'static str; 2],
    /// Limits on large GPUs, where the engine has others there.
    pub(super) on_large_gpus: Option<StepSize>,
    /// What a step takes besides its kernels.
    pub(super) host: HostTime,
}

/// The limits of a step that an engine chooses by the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepSize {
    pub(super) chunk_budget: u32,
    pub(super) max_seqs: u32,
}

/// Time of a step in which no kernel runs: scheduling, input preparation, launches, sampling, output handling.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostTime {
    /// Microseconds per step.
    pub(super) step_us: u32,
    /// Microseconds per sequence of the step.
    pub(super) sequence_us: u32,
    /// Where the figures come from; stated in the resolved scenario.
    pub(super) source: &'static str,
}

impl HostTime {
    /// As the step-time models take it.
    pub(super) fn overhead(self) -> Overhead {
        Overhead {
            step: SimDuration::from_us(u64::from(self.step_us)),
            per_sequence: SimDuration::from_us(u64::from(self.sequence_us)),
            ..Overhead::NONE
        }
    }
}

/// The preset of scenarios that name none.
pub(super) const DEFAULT: &str = "vllm-v1";

/// Larger than any step: stands for "no limit of its own" where a key must be a number.
const ANY: u32 = 1 << 24;

/// vLLM's own rule for larger steps.
const LARGE_GPU_BYTES: u64 = 70 << 30;

const HOST_V1: HostTime = HostTime {
    step_us: 650,
    sequence_us: 0,
    source: "least absolute deviations over AIConfigurator's measurements of vLLM 0.12 serving Llama-3.1-70B at FP8 and Qwen3-32B on H100 \
             (github.com/ai-dynamo/aiconfigurator, commit 095f58a, Apache-2.0; 16 rows with prompts no longer than outputs, concurrency up \
             to 16) less pdsim's kernels; good to 0.5 ms, no growth with sequences seen",
};
const HOST_V0: HostTime = HostTime {
    step_us: 810,
    sequence_us: 42,
    source: "least squares over Vidur's CPU timings of its 2024 vLLM fork at TP 1 (github.com/microsoft/vidur, MIT; schedule, input \
             preparation, sampling and output handling, batches of 8 to 128; median error 0.8 %)",
};
const HOST_SG: HostTime = HostTime {
    step_us: 0,
    sequence_us: 0,
    source: "since v0.4 SGLang schedules the next step while this one runs (LMSYS, December 2024)",
};
const HOST_DS: HostTime = HostTime {
    step_us: 2000,
    sequence_us: 0,
    source: "DistServe's own simulator (simdistserve, commit 82831f1) adds 2 ms to each step of the first stage",
};
const HOST_ID: HostTime = HostTime {
    step_us: 0,
    sequence_us: 0,
    source: "none",
};

/// The presets.
static ENGINES: [Engine; 5] = [
    Engine {
        name: "vllm-v1",
        source: "vLLM V1, EngineArgs.get_batch_defaults of a server (vllm/engine/arg_utils.py, PR 17885): max_num_batched_tokens 2048 and \
                 max_num_seqs 256 on A100 and below 70 GiB, 8192 and 1024 on others (whole prompts go by 8192); block_size 16, \
                 gpu_memory_utilization 0.9; proxy_demo answers with the decode instance's tokens",
        chunk_budget: 2048,
        max_step_tokens: 8192,
        max_step_prompts: ANY,
        max_seqs: 256,
        max_decode_context: Limit::Unlimited,
        block_tokens: 16,
        memory_fraction: 0.9,
        kv_watermark: 0.0,
        prefix_cache: true,
        first_token: FirstToken::Decode,
        polynomial_set: "vllm",
        routers: ["least_tokens", "least_tokens"],
        on_large_gpus: Some(StepSize {
            chunk_budget: 8192,
            max_seqs: 1024,
        }),
        host: HOST_V1,
    },
    Engine {
        name: "vllm-v0",
        source: "vLLM 0.6 V0 EngineArgs: max_num_batched_tokens 2048 (more where max_model_len is; 512 with chunked prefill, 2048 in \
                 0.6.6), max_num_seqs 256, block_size 16, \
                 gpu_memory_utilization 0.9, BlockSpaceManager watermark 0.01",
        chunk_budget: 512,
        max_step_tokens: 2048,
        max_step_prompts: ANY,
        max_seqs: 256,
        max_decode_context: Limit::Unlimited,
        block_tokens: 16,
        memory_fraction: 0.9,
        kv_watermark: 0.01,
        prefix_cache: false,
        first_token: FirstToken::Decode,
        polynomial_set: "vllm",
        routers: ["least_tokens", "least_tokens"],
        on_large_gpus: None,
        host: HOST_V0,
    },
    Engine {
        name: "sglang",
        source: "SGLang 0.4 ServerArgs: chunked_prefill_size 8192, max_prefill_tokens 16384, page_size 1, \
                 mem_fraction_static 0.88 (that of tp 1; 0.87 at tp 2, 0.85 at tp 4, 0.81 at tp 8)",
        chunk_budget: 8192,
        max_step_tokens: 16384,
        max_step_prompts: ANY,
        max_seqs: ANY,
        max_decode_context: Limit::Unlimited,
        block_tokens: 1,
        memory_fraction: 0.88,
        kv_watermark: 0.0,
        prefix_cache: true,
        first_token: FirstToken::Decode,
        polynomial_set: "vllm",
        routers: ["least_tokens", "least_tokens"],
        on_large_gpus: None,
        host: HOST_SG,
    },
    Engine {
        name: "distserve",
        source: "DistServe evaluation scripts: prefill batches of 128 requests and 8192 tokens, decode batches of 1024 requests and \
                 65536 context tokens, block size 16; memory fraction such that OPT-13B on one A100-80G has the 66,144 KV tokens that its \
                 simulator tabulates; the prefill instance emits the first token",
        chunk_budget: 2048,
        max_step_tokens: 8192,
        max_step_prompts: 128,
        max_seqs: 1024,
        max_decode_context: Limit::AtMost(65536),
        block_tokens: 16,
        memory_fraction: 0.945,
        kv_watermark: 0.0,
        prefix_cache: false,
        first_token: FirstToken::Prefill,
        polynomial_set: "distserve",
        routers: ["least_queued", "least_queued"],
        on_large_gpus: None,
        host: HOST_DS,
    },
    Engine {
        name: "ideal",
        source: "no limits but the hardware's",
        chunk_budget: 8192,
        max_step_tokens: ANY,
        max_step_prompts: ANY,
        max_seqs: ANY,
        max_decode_context: Limit::Unlimited,
        block_tokens: 1,
        memory_fraction: 1.0,
        kv_watermark: 0.0,
        prefix_cache: false,
        first_token: FirstToken::Prefill,
        polynomial_set: "distserve",
        routers: ["least_tokens", "least_tokens"],
        on_large_gpus: None,
        host: HOST_ID,
    },
];

/// The preset of that name.
pub(super) fn engine(name: &str) -> Option<&'static Engine> {
    ENGINES.iter().find(|engine| engine.name == name)
}

/// The names of all presets.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ENGINES.iter().map(|engine| engine.name)
}

impl Engine {
    /// The limits of a step on this GPU.
    pub(super) fn step_size(&self, gpu: Option<&GpuSpec>) -> StepSize {
        let base = StepSize {
            chunk_budget: self.chunk_budget,
            max_seqs: self.max_seqs,
        };
        let large =
            |gpu: &&GpuSpec| gpu.memory_bytes >= LARGE_GPU_BYTES && !gpu.name.contains("a100");
        match (self.on_large_gpus, gpu.filter(large)) {
            (Some(size), Some(_)) => size,
            _ => base,
        }
    }

    /// The preset's tuning keys, all present.
    pub(super) fn tuning(&self) -> Tuning {
        Tuning {
            chunk_budget: Some(self.chunk_budget),
            max_step_tokens: Some(self.max_step_tokens),
            max_step_prompts: Some(self.max_step_prompts),
            max_seqs: Some(self.max_seqs),
            max_decode_context: Some(self.max_decode_context),
            long_prompts: None,
            block_tokens: Some(self.block_tokens),
            memory_fraction: Some(self.memory_fraction),
            kv_watermark: Some(self.kv_watermark),
            kv_blocks: Some(KvBlocks::Fit),
            kv_reserve: Some(KvReserve::Paged),
            preemption: Some(Preemption::Recompute),
            swap_bandwidth: None,
            prefix_cache: Some(self.prefix_cache),
            weight_dtype: None,
            kv_dtype: None,
            cpu_cache: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Cell<'a> = &'a dyn Fn(&Engine) -> String;

    /// The cells of a row of the documentation's table of tuning keys, one per engine.
    fn documented(key: &str) -> Vec<&'static str> {
        let row = include_str!("../../docs/scenario.md")
            .lines()
            .find(|line| {
                line.starts_with(&format!("| `{key}` |")) && line.matches('|').count() == 9
            })
            .unwrap_or_else(|| panic!("{key} is not in the table"));
        row.split('|').skip(3).take(5).map(str::trim).collect()
    }

    #[test]
    fn the_documentation_states_the_presets_numbers() {
        let count = |n: u32| match n {
            ANY => "no limit".to_owned(),
            n => n.to_string(),
        };
        let limit = |limit: Limit| match limit {
            Limit::Unlimited => "unlimited".to_owned(),
            Limit::AtMost(n) => n.to_string(),
        };
        let share = |x: f64| x.to_string();
        let by_gpu = |base: u32, large: Option<u32>| {
            large.map_or_else(|| count(base), |large| format!("{base} / {large}"))
        };
        let host = |e: &Engine| format!("{} us + {} us", e.host.step_us, e.host.sequence_us);
        let rows: [(&str, Cell<'_>); 9] = [
            ("chunk_budget", &|e| {
                by_gpu(e.chunk_budget, e.on_large_gpus.map(|l| l.chunk_budget))
            }),
            ("max_step_tokens", &|e| count(e.max_step_tokens)),
            ("max_step_prompts", &|e| count(e.max_step_prompts)),
            ("max_seqs", &|e| {
                by_gpu(e.max_seqs, e.on_large_gpus.map(|l| l.max_seqs))
            }),
            ("max_decode_context", &|e| limit(e.max_decode_context)),
            ("block_tokens", &|e| count(e.block_tokens)),
            ("memory_fraction", &|e| share(e.memory_fraction)),
            ("kv_watermark", &|e| share(e.kv_watermark)),
            ("step_overhead", &host),
        ];
        for (key, cell) in rows {
            let cells: Vec<String> = ENGINES.iter().map(cell).collect();
            // The documentation writes 1.0, which is no count.
            let documented = documented(key).into_iter().map(|c| c.replace("1.0", "1"));
            assert_eq!(documented.collect::<Vec<_>>(), cells, "{key}");
        }
        assert_eq!(
            documented("router"),
            ENGINES.each_ref().map(|e| e.routers[0])
        );
    }
}
