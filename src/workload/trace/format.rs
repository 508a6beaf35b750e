//! The formats and how they are told apart.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::workload::error::WorkloadError;
use crate::workload::trace::error::{Fault, short};
use crate::workload::trace::options::{ReadOptions, TimeUnit};
use crate::workload::trace::parse::columns;
use crate::workload::trace::readers::{
    aiperf, azure, bailian, burstgpt, inference_perf, llmservingsim, mooncake, pdsim_csv,
    pdsim_jsonl, servegen, sharegpt, splitwise, vidur, vllm_bench, weka,
};
use crate::workload::trace::row::Rows;
use crate::workload::trace::source::Input;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// pdsim's own CSV: `arrival_s,input_tokens,output_tokens[,class][,session]`.
    PdsimCsv,
    /// pdsim's own JSONL, with sessions and prefix blocks.
    PdsimJsonl,
    /// Azure LLM inference traces of 2023 and 2024, CSV.
    Azure,
    /// Mooncake JSONL, milliseconds; AIPerf's trace inputs are the same.
    Mooncake,
    /// Mooncake's keys in seconds, as GuideLLM wants them.
    GuideLlm,
    /// Qwen-Bailian JSONL, seconds.
    Bailian,
    /// BurstGPT CSV, seconds.
    BurstGpt,
    /// ServeGen client windows, CSV and the JSON beside it.
    ServeGen,
    /// ShareGPT conversations, JSON; texts only.
    ShareGpt,
    /// Vidur CSV, seconds.
    Vidur,
    /// Splitwise simulator CSV, seconds.
    Splitwise,
    /// LLMServingSim JSONL, nanoseconds.
    LlmServingSim,
    /// Result of `vllm bench serve --save-detailed`, JSON.
    VllmBench,
    /// AIPerf `profile_export.jsonl`, nanoseconds.
    AiPerf,
    /// inference-perf `per_request_lifecycle_metrics.json`, seconds.
    InferencePerf,
    /// Weka agentic sessions, JSON, seconds.
    Weka,
}

impl Format {
    /// All formats, in the order in which they are listed.
    pub const ALL: [Self; 16] = [
        Self::PdsimCsv,
        Self::PdsimJsonl,
        Self::Azure,
        Self::Mooncake,
        Self::GuideLlm,
        Self::Bailian,
        Self::BurstGpt,
        Self::ServeGen,
        Self::ShareGpt,
        Self::Vidur,
        Self::Splitwise,
        Self::LlmServingSim,
        Self::VllmBench,
        Self::AiPerf,
        Self::InferencePerf,
        Self::Weka,
    ];

    /// The name used on the command line and in scenarios.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PdsimCsv => "pdsim-csv",
            Self::PdsimJsonl => "pdsim-jsonl",
            Self::Azure => "azure",
            Self::Mooncake => "mooncake",
            Self::GuideLlm => "guidellm",
            Self::Bailian => "bailian",
            Self::BurstGpt => "burstgpt",
            Self::ServeGen => "servegen",
            Self::ShareGpt => "sharegpt",
            Self::Vidur => "vidur",
            Self::Splitwise => "splitwise",
            Self::LlmServingSim => "llmservingsim",
            Self::VllmBench => "vllm-bench",
            Self::AiPerf => "aiperf",
            Self::InferencePerf => "inference-perf",
            Self::Weka => "weka",
        }
    }

    /// The names of all formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|format| format.name())
    }

    /// The unit of its numeric times; none for calendar times and formats without times of their own.
    #[must_use]
    pub const fn unit(self) -> Option<TimeUnit> {
        match self {
            Self::Azure | Self::ServeGen | Self::ShareGpt => None,
            Self::Mooncake => Some(TimeUnit::Milliseconds),
            Self::LlmServingSim | Self::AiPerf => Some(TimeUnit::Nanoseconds),
            Self::PdsimCsv
            | Self::PdsimJsonl
            | Self::GuideLlm
            | Self::Bailian
            | Self::BurstGpt
            | Self::Vidur
            | Self::Splitwise
            | Self::VllmBench
            | Self::InferencePerf
            | Self::Weka => Some(TimeUnit::Seconds),
        }
    }

    /// Whether its times already count from the start of the simulation.
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::PdsimCsv | Self::PdsimJsonl)
    }

    /// Finds the format from the beginning of a file, or hands back its first line, shortened.
    pub(crate) fn detect(head: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start();
        let line = text.lines().next().unwrap_or_default().trim();
        let found = match text.as_bytes().first() {
            Some(b'{' | b'[') => json(text, line),
            _ => csv(line),
        };
        found.ok_or_else(|| match head {
            [b'P', b'A', b'R', b'1', ..] => {
                "PAR1… (Parquet: convert it to CSV or JSONL)".to_owned()
            }
            [b'P', b'K', 3, 4, ..] => "PK… (a zip archive: unpack it)".to_owned(),
            _ if text.starts_with("version https://git-lfs") => {
                "version https://git-lfs… (a Git LFS pointer, not the data)".to_owned()
            }
            _ => short(line),
        })
    }

    /// Opens the reader of this format.
    pub(crate) fn rows(
        self,
        input: Input,
        path: &Path,
        options: &ReadOptions,
    ) -> Result<Box<dyn Rows>, Fault> {
        let unit = options.time_unit.or(self.unit()).map_or(1, TimeUnit::ps);
        Ok(match self {
            Self::PdsimCsv => Box::new(pdsim_csv::PdsimCsv::new(input, unit)?),
            Self::PdsimJsonl => Box::new(pdsim_jsonl::PdsimJsonl::new(input, unit)),
            Self::Azure => Box::new(azure::Azure::new(input)?),
            Self::Mooncake | Self::GuideLlm => Box::new(mooncake::Mooncake::new(input, unit)),
            Self::Bailian => Box::new(bailian::Bailian::new(input, unit)),
            Self::BurstGpt => Box::new(burstgpt::BurstGpt::new(input, unit)?),
            Self::ServeGen => Box::new(servegen::ServeGen::new(input, path, options.seed)?),
            Self::ShareGpt => Box::new(sharegpt::ShareGpt::new(input, options.chars_per_token)),
            Self::Vidur => Box::new(vidur::Vidur::new(input, unit)?),
            Self::Splitwise => Box::new(splitwise::Splitwise::new(input, unit)?),
            Self::LlmServingSim => Box::new(llmservingsim::LlmServingSim::new(input, unit)),
            Self::VllmBench => Box::new(vllm_bench::VllmBench::new(input, unit)?),
            Self::AiPerf => Box::new(aiperf::AiPerf::new(input, unit)),
            Self::InferencePerf => Box::new(inference_perf::InferencePerf::new(input, unit)),
            Self::Weka => Box::new(weka::Weka::new(input, unit)),
        })
    }
}

/// The JSON format of a file that begins with `text`, whose first line is `line`.
fn json(text: &str, line: &str) -> Option<Format> {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    // The keys of one row, where rows are lines.
    let row = |key: &str| line.contains(&format!("\"{key}\""));
    if row("arrival_s") && row("input_tokens") {
        return Some(Format::PdsimJsonl);
    }
    if row("input_toks") || row("sub_requests") {
        return Some(Format::LlmServingSim);
    }
    if row("chat_id") && row("input_length") {
        return Some(Format::Bailian);
    }
    if row("input_length") && row("output_length") && (row("timestamp") || row("delay")) {
        return Some(if decimal_timestamp(line) {
            Format::GuideLlm
        } else {
            Format::Mooncake
        });
    }
    if has("input_lens") || has("request_throughput") {
        return Some(Format::VllmBench);
    }
    if has("hash_id_scope") || has("block_size") && has("requests") {
        return Some(Format::Weka);
    }
    if has("conversations") || has("conversation") {
        return Some(Format::ShareGpt);
    }
    if has("metadata") && has("request_start_ns") {
        return Some(Format::AiPerf);
    }
    (has("start_time") && has("end_time")).then_some(Format::InferencePerf)
}

/// Whether the row's timestamp has decimals: milliseconds are written whole, so it must be seconds.
fn decimal_timestamp(line: &str) -> bool {
    let after = line.split("\"timestamp\"").nth(1).unwrap_or_default();
    let number = after.trim_start_matches([':', ' ']);
    let end = number.find([',', '}', ' ']).unwrap_or(number.len());
    number[..end].contains('.') && !number[..end].trim_end_matches('0').ends_with('.')
}

/// The CSV format of a file whose first line is `line`.
fn csv(line: &str) -> Option<Format> {
    let has = |wanted: &[&str]| {
        wanted
            .iter()
            .all(|name| columns::names(line).any(|column| column == *name))
    };
    let by_columns = [
        (Format::PdsimCsv, &pdsim_csv::COLUMNS[..]),
        (Format::Azure, &azure::COLUMNS),
        (Format::BurstGpt, &burstgpt::COLUMNS),
        (Format::Vidur, &vidur::COLUMNS),
        (Format::Splitwise, &splitwise::COLUMNS),
    ];
    let known = by_columns
        .into_iter()
        .find(|(_, columns)| has(columns))
        .map(|(format, _)| format);
    known.or_else(|| {
        // ServeGen has no header: start, rate, variation, family, shape, scale.
        let fields: Vec<&str> = line.split(',').collect();
        let numbers = [0, 1, 2, 4, 5].iter().all(|i| {
            fields
                .get(*i)
                .is_some_and(|field| field.parse::<f64>().is_ok())
        });
        let family = fields
            .get(3)
            .is_some_and(|family| matches!(*family, "" | "Gamma" | "Weibull"));
        (fields.len() == 6 && numbers && family).then_some(Format::ServeGen)
    })
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<Self, WorkloadError> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| WorkloadError::unknown_name("format", name, Self::names()))
    }
}
