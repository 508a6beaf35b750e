//! Rows of the samples files: one CSV per kind of work, units in the column names.
//!
//! | file | columns before the times |
//! |---|---|
//! | `gemm.csv` | gpu, dtype, m, n, k |
//! | `prefill_attention.csv` | gpu, `kv_dtype`, batch, `new_tokens`, `past_tokens`, heads, `kv_heads`, `head_dim` |
//! | `decode_attention.csv` | gpu, `kv_dtype`, batch, `context_tokens`, heads, `kv_heads`, `head_dim` |
//! | `elementwise.csv` | gpu, op, rows, columns, bytes |
//! | `launch.csv` | gpu, op |
//! | `copy.csv` | gpu, op, bytes |
//! | `collective.csv` | gpu, kind, dtype, ranks, `message_bytes` |
//!
//! followed by `kernel` (whose kernel ran), `time_us` (median of one call), `spread` (interquartile range over median)
//! and `trials`. Heads, n, k and tokens are of one rank; tokens of attention are per sequence.

use super::measure::Measured;
use super::work::{
    Collective, Copy, CopyKind, Decode, Elementwise, ElementwiseOp, Gemm, GemmDtype, Kind,
    LaunchKind, Prefill, Work,
};
use crate::model::KvDtype;

/// A measured point.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The point.
    pub work: Work,
    /// Whose kernel ran: `cublaslt`, `pdsim`, `driver`.
    pub kernel: String,
    /// Its time.
    pub measured: Measured,
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// A column is not there.
    #[error("has no column `{0}`")]
    NoColumn(&'static str),
    /// A value cannot be read.
    #[error("column `{column}` holds `{value}`, expected {expected}")]
    BadValue {
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },
}

/// Columns of a kind's file that say what was run, after `gpu`.
const fn shape_columns(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Gemm => &["dtype", "m", "n", "k"],
        Kind::PrefillAttention => &[
            "kv_dtype",
            "batch",
            "new_tokens",
            "past_tokens",
            "heads",
            "kv_heads",
            "head_dim",
        ],
        Kind::DecodeAttention => &[
            "kv_dtype",
            "batch",
            "context_tokens",
            "heads",
            "kv_heads",
            "head_dim",
        ],
        Kind::Elementwise => &["op", "rows", "columns", "bytes"],
        Kind::Launch => &["op"],
        Kind::Copy => &["op", "bytes"],
        Kind::Collective => &["kind", "dtype", "ranks", "message_bytes"],
    }
}

/// All columns of a kind's file.
#[must_use]
pub fn columns(kind: Kind) -> Vec<&'static str> {
    let mut columns = vec!["gpu"];
    columns.extend(shape_columns(kind));
    columns.extend(["kernel", "time_us", "spread", "trials"]);
    columns
}

/// Whose kernel a point runs.
#[must_use]
pub fn kernel(work: &Work, library: bool) -> &'static str {
    match work {
        Work::Gemm(_) if library => "cublaslt",
        Work::Copy(c) if c.kind != CopyKind::StreamRead => "driver",
        _ => "pdsim",
    }
}

fn shape(work: &Work) -> Vec<String> {
    let text = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
    let with = |name: &str, numbers: &[u32]| {
        let mut fields = vec![name.to_owned()];
        fields.extend(text(numbers));
        fields
    };
    match *work {
        Work::Gemm(g) => with(g.dtype.name(), &[g.m, g.n, g.k]),
        Work::Prefill(p) => with(
            KvDtype::Bf16.name(),
            &[
                p.batch,
                p.new_tokens,
                p.past_tokens,
                p.heads,
                p.kv_heads,
                p.head_dim,
            ],
        ),
        Work::Decode(d) => with(
            d.kv_dtype.name(),
            &[d.batch, d.context_tokens, d.heads, d.kv_heads, d.head_dim],
        ),
        Work::Elementwise(e) => {
            let mut fields = with(e.op.name(), &[e.rows, e.columns]);
            fields.push(format!("{:.0}", work.bytes()));
            fields
        }
        Work::Launch(kind) => with(kind.name(), &[]),
        Work::Copy(c) => vec![c.kind.name().to_owned(), c.bytes.to_string()],
        Work::Collective(c) => vec![
            "all_reduce".to_owned(),
            "bf16".to_owned(),
            c.ranks.to_string(),
            c.bytes.to_string(),
        ],
    }
}

impl Sample {
    /// The fields of its row, in the order of [`columns`].
    #[must_use]
    pub fn fields(&self, gpu: &str) -> Vec<String> {
        let mut fields = vec![gpu.to_owned()];
        fields.extend(shape(&self.work));
        fields.push(self.kernel.clone());
        // Six digits: far below the spread, and short.
        fields.push(significant(self.measured.seconds * 1e6));
        fields.push(format!("{:.4}", self.measured.spread));
        fields.push(self.measured.trials.to_string());
        fields
    }

    /// Reads a row by its columns' names.
    ///
    /// # Errors
    /// When a column is missing or holds what it may not.
    pub fn parse(
        kind: Kind,
        header: &csv::StringRecord,
        row: &csv::StringRecord,
    ) -> Result<Self, RowError> {
        let fields = Fields { header, row };
        let micros: f64 = fields.number("time_us")?;
        if !(micros.is_finite() && micros > 0.0) {
            return Err(fields.bad("time_us", "a number above 0"));
        }
        Ok(Self {
            work: fields.work(kind)?,
            kernel: fields.text("kernel")?.to_owned(),
            measured: Measured {
                seconds: micros * 1e-6,
                spread: fields.number("spread")?,
                trials: fields.number("trials")?,
                stable: true,
            },
        })
    }
}

/// A number with six significant digits.
fn significant(value: f64) -> String {
    let digits = 5.0 - value.abs().max(1e-9).log10().floor();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=9"
    )]
    let digits = digits.clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

struct Fields<'a> {
    header: &'a csv::StringRecord,
    row: &'a csv::StringRecord,
}

impl<'a> Fields<'a> {
    fn text(&self, column: &'static str) -> Result<&'a str, RowError> {
        let place = self.header.iter().position(|c| c == column);
        place
            .and_then(|i| self.row.get(i))
            .ok_or(RowError::NoColumn(column))
    }

    fn bad(&self, column: &'static str, expected: &'static str) -> RowError {
        RowError::BadValue {
            column,
            value: self.text(column).unwrap_or_default().to_owned(),
            expected,
        }
    }

    fn number<T: std::str::FromStr>(&self, column: &'static str) -> Result<T, RowError> {
        let parsed = self.text(column)?.parse();
        parsed.map_err(|_| self.bad(column, "a number"))
    }

    fn named<T: std::marker::Copy>(
        &self,
        column: &'static str,
        known: &[T],
        name: fn(T) -> &'static str,
        expected: &'static str,
    ) -> Result<T, RowError> {
        let text = self.text(column)?;
        let found = known.iter().copied().find(|k| name(*k) == text);
        found.ok_or_else(|| self.bad(column, expected))
    }

    fn work(&self, kind: Kind) -> Result<Work, RowError> {
        Ok(match kind {
            Kind::Gemm => Work::Gemm(Gemm {
                dtype: self.named(
                    "dtype",
                    &[GemmDtype::Bf16, GemmDtype::Fp16, GemmDtype::Fp8],
                    GemmDtype::name,
                    "bf16, fp16 or fp8",
                )?,
                m: self.number("m")?,
                n: self.number("n")?,
                k: self.number("k")?,
            }),
            Kind::PrefillAttention => Work::Prefill(Prefill {
                batch: self.number("batch")?,
                new_tokens: self.number("new_tokens")?,
                past_tokens: self.number("past_tokens")?,
                heads: self.number("heads")?,
                kv_heads: self.number("kv_heads")?,
                head_dim: self.number("head_dim")?,
            }),
            Kind::DecodeAttention => Work::Decode(Decode {
                kv_dtype: self.named("kv_dtype", &KvDtype::ALL, KvDtype::name, "bf16 or fp8")?,
                batch: self.number("batch")?,
                context_tokens: self.number("context_tokens")?,
                heads: self.number("heads")?,
                kv_heads: self.number("kv_heads")?,
                head_dim: self.number("head_dim")?,
            }),
            Kind::Elementwise => Work::Elementwise(Elementwise {
                op: self.named(
                    "op",
                    &ElementwiseOp::ALL,
                    ElementwiseOp::name,
                    "rms_norm, silu_mul or rotary",
                )?,
                rows: self.number("rows")?,
                columns: self.number("columns")?,
            }),
            Kind::Launch => Work::Launch(self.named(
                "op",
                &[LaunchKind::Kernel, LaunchKind::Graph, LaunchKind::GraphNode],
                LaunchKind::name,
                "kernel, graph or graph_node",
            )?),
            Kind::Copy => Work::Copy(Copy {
                kind: self.named(
                    "op",
                    &CopyKind::ALL,
                    CopyKind::name,
                    "device, stream_read, host_to_device, device_to_host or peer",
                )?,
                bytes: self.number("bytes")?,
            }),
            Kind::Collective => Work::Collective(Collective {
                ranks: self.number("ranks")?,
                bytes: self.number("message_bytes")?,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::Device;
    use crate::calibrate::fake::Fake;
    use crate::calibrate::plan::{Options, plan};
    use crate::model;

    fn record(fields: &[impl AsRef<str>]) -> csv::StringRecord {
        fields.iter().map(AsRef::as_ref).collect()
    }

    fn sample(work: Work) -> Sample {
        Sample {
            work,
            kernel: "pdsim".to_owned(),
            measured: Measured {
                seconds: 12.3456e-6,
                spread: 0.0123,
                trials: 7,
                stable: true,
            },
        }
    }

    #[test]
    fn every_planned_point_comes_back_from_its_row() {
        let models: Vec<_> = model::model_names()
            .map(|n| model::model(n).unwrap())
            .collect();
        let mut facts = Fake::new().facts().clone();
        facts.gpus = 8;
        let options = Options {
            quick: true,
            dtypes: Vec::new(),
        };
        for work in plan(&facts, &models, &options) {
            let written = sample(work);
            let header = columns(work.kind());
            let fields = written.fields("gpu");
            assert_eq!(header.len(), fields.len());
            let read = Sample::parse(work.kind(), &record(&header), &record(&fields)).unwrap();
            assert_eq!(read.work, work);
            assert!((read.measured.seconds / 12.3456e-6 - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn bad_rows_name_column_and_value() {
        let work = Work::Launch(LaunchKind::Graph);
        let header = columns(Kind::Launch);
        let mut fields = sample(work).fields("gpu");
        fields[3] = "-1".to_owned();
        let parse = |h: &[&str], f: &[String]| Sample::parse(Kind::Launch, &record(h), &record(f));
        let error = parse(&header, &fields).unwrap_err().to_string();
        assert_eq!(
            error,
            "column `time_us` holds `-1`, expected a number above 0"
        );
        fields[3] = "1".to_owned();
        fields[1] = "grap".to_owned();
        let error = parse(&header, &fields).unwrap_err().to_string();
        assert!(
            error.contains("grap") && error.contains("graph_node"),
            "{error}"
        );
        let error = parse(&header[..2], &fields).unwrap_err().to_string();
        assert_eq!(error, "has no column `time_us`");
    }

    #[test]
    fn numbers_keep_six_digits() {
        assert_eq!(significant(1.234_567_8), "1.23457");
        assert_eq!(significant(12_345_678.9), "12345679");
        assert_eq!(significant(0.001_234_567), "0.00123457");
    }
}
