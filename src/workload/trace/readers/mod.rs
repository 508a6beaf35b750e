//! One reader a format.

pub(crate) mod aiperf;
pub(crate) mod azure;
pub(crate) mod bailian;
pub(crate) mod burstgpt;
pub(crate) mod inference_perf;
pub(crate) mod llmservingsim;
pub(crate) mod mooncake;
pub(crate) mod pdsim_csv;
pub(crate) mod pdsim_jsonl;
pub(crate) mod servegen;
pub(crate) mod sharegpt;
pub(crate) mod splitwise;
pub(crate) mod vidur;
pub(crate) mod vllm_bench;
pub(crate) mod weka;
