//! Statistics of a trace, gathered row by row in constant memory.
//!
//! Quantiles of lengths are exact (counted length by length); those of gaps and ratios come from logarithmic bins half a
//! percent wide. Only the prefix-sharing bound and the count of sessions need memory that grows, with the number of
//! distinct blocks and sessions, and both stop at a bound and say so.

mod counter;
mod log_bins;
mod moments;
mod sharing;
mod timeline;

use std::path::Path;

pub use counter::Quantiles;
pub use log_bins::LogBins;
pub use sharing::Sharing;
pub use timeline::Timeline;

use crate::rng::{self, Rng};
use crate::units::{PS_PER_S, SimDuration};
use crate::workload::draw;
use crate::workload::trace::{ReadOptions, ReadReport, TraceError, read_rows};
use counter::Counter;
use moments::{Dispersion, Moments};

/// Pairs of lengths kept for a scatter plot.
const PAIRS: usize = 4000;

/// What `trace info` says of a trace.
#[derive(Debug, Clone)]
pub struct TraceStats {
    /// Rows read, kept and dropped.
    pub report: ReadReport,
    /// Mean requests per second; none when all arrive at once.
    pub rate: Option<f64>,
    /// Coefficient of variation of the inter-arrival times; none for fewer than three requests.
    pub gap_cv: Option<f64>,
    /// Index of dispersion (variance / mean) of arrivals in windows of 1 s, 10 s and 60 s; none where fewer than ten
    /// windows fit in the span.
    pub dispersion: [(f64, Option<f64>); 3],
    /// Prompt tokens.
    pub input: Quantiles,
    /// Output tokens.
    pub output: Quantiles,
    /// Prompt tokens per output token, in logarithmic bins.
    pub ratio: LogBins,
    /// Inter-arrival times in seconds above zero, in logarithmic bins.
    pub gaps: LogBins,
    /// Inter-arrival times of zero.
    pub zero_gaps: u64,
    /// Arrivals and tokens over time.
    pub timeline: Timeline,
    /// Share of prompt tokens that an infinite prefix cache would save; none for formats without blocks.
    pub sharing: Option<Sharing>,
    /// Distinct sessions, at most ten million counted; none for a trace without.
    pub sessions: Option<u64>,
    /// Requests of each class by number, as `report.classes` names them; empty for a trace without.
    pub class_requests: Vec<u64>,
    /// A uniform sample of at most 4,000 (prompt, output) pairs.
    pub pairs: Vec<(u32, u32)>,
}

/// Gathers [`TraceStats`].
struct Gatherer {
    input: Counter,
    output: Counter,
    ratio: LogBins,
    gaps: LogBins,
    gap_moments: Moments,
    zero_gaps: u64,
    dispersion: [Dispersion; 3],
    timeline: Timeline,
    sharing: sharing::Cache,
    sessions: sharing::Sessions,
    classes: Vec<u64>,
    pairs: Vec<(u32, u32)>,
    seen: u64,
    rng: Rng,
    first_ps: Option<i128>,
    last_ps: i128,
}

/// Reads a trace and gathers its statistics.
///
/// Times are those of the file: `time_scale`, `rate` and `shuffle_arrivals` are not applied.
///
/// # Errors
/// As [`crate::workload::read_trace`].
pub fn trace_stats(path: &Path, options: &ReadOptions) -> Result<TraceStats, TraceError> {
    let (report, gatherer) = read_rows(path, options, Gatherer::new, |gatherer, row, extra| {
        gatherer.add(row.at_ps, row.input_tokens, row.output_tokens);
        gatherer
            .sharing
            .add(row.input_tokens, extra.blocks, extra.block_tokens);
        gatherer.sessions.add(row.session);
        gatherer.count_class(row.class);
    })?;
    Ok(gatherer.finish(report))
}

impl Gatherer {
    fn new() -> Self {
        Self {
            input: Counter::default(),
            output: Counter::default(),
            ratio: LogBins::default(),
            gaps: LogBins::default(),
            gap_moments: Moments::default(),
            zero_gaps: 0,
            dispersion: [1, 10, 60].map(|s| Dispersion::new(SimDuration::from_ms(s * 1000))),
            timeline: Timeline::default(),
            sharing: sharing::Cache::default(),
            sessions: sharing::Sessions::default(),
            classes: Vec::new(),
            pairs: Vec::new(),
            seen: 0,
            rng: rng::stream(1, "trace sample"),
            first_ps: None,
            last_ps: 0,
        }
    }

    fn add(&mut self, at_ps: i128, input: u32, output: u32) {
        self.input.add(input);
        self.output.add(output);
        self.ratio.add(f64::from(input) / f64::from(output));
        let first = *self.first_ps.get_or_insert(at_ps);
        // Rows come in order of arrival, and a span beyond the clock is refused at the end.
        let since_ps = u64::try_from(at_ps - first).unwrap_or(u64::MAX / 2);
        if self.seen > 0 {
            let gap = (at_ps - self.last_ps) as f64 / PS_PER_S as f64;
            self.gap_moments.add(gap);
            if gap > 0.0 {
                self.gaps.add(gap);
            } else {
                self.zero_gaps += 1;
            }
        }
        self.last_ps = at_ps;
        for dispersion in &mut self.dispersion {
            dispersion.add(since_ps);
        }
        self.timeline.add(since_ps, input, output);
        self.sample(input, output);
    }

    fn count_class(&mut self, class: u16) {
        let class = usize::from(class);
        if self.classes.len() <= class {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
    }

    /// Reservoir sampling (Vitter's algorithm R).
    fn sample(&mut self, input: u32, output: u32) {
        self.seen += 1;
        if self.pairs.len() < PAIRS {
            self.pairs.push((input, output));
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of the rows seen, at least 0"
        )]
        let at = (draw::uniform(&mut self.rng) * self.seen as f64) as usize;
        if at < PAIRS {
            self.pairs[at] = (input, output);
        }
    }

    fn finish(mut self, report: ReadReport) -> TraceStats {
        let span = report.span;
        // A class of dropped rows alone has a number, too; where no class has a name, there are none.
        self.classes.resize(report.classes.len(), 0);
        let [one, ten, sixty] = self.dispersion.map(|d| (d.window_s(), d.index(span)));
        TraceStats {
            rate: report.rate(),
            gap_cv: (self.seen > 2).then(|| self.gap_moments.cv()).flatten(),
            dispersion: [one, ten, sixty],
            input: self.input.quantiles(),
            output: self.output.quantiles(),
            ratio: self.ratio,
            gaps: self.gaps,
            zero_gaps: self.zero_gaps,
            timeline: self.timeline,
            sharing: self.sharing.finish(),
            sessions: self.sessions.count(),
            class_requests: self.classes,
            pairs: self.pairs,
            report,
        }
    }
}

#[cfg(test)]
mod tests;
