//! Step times of two streams that share the SMs of a GPU: prompts on a share `s` of them, decodes on `1 − s`.
//!
//! A kernel that would keep the compute units busy for `c` seconds and the memory for `m` on the whole GPU, and takes `T`,
//! takes on a share `r` of the SMs
//!
//! ```text
//! fixed + (T − fixed) · max(c·f(r), m·g(r)) / max(c, m)          f(r) = max(1, compute_saturation / r)
//! all of it × contention while the other stream runs, too        g(r) = max(1, bandwidth_saturation / r)
//! ```
//!
//! so that a product is slowed by what it lacks of SMs, a kernel that waits for memory only where the SMs left no longer
//! saturate the bandwidth, and one between the two by whichever of them comes to bind. Models that are not composed of kernels are scaled
//! as a whole: a step with prompts by `f`, a decode step by `g`. No time is ever below the one on the whole GPU.
//!
//! **Sources.** `f`: with compute that saturates at all SMs this is 1/r, which the prefill of Nexus follows closely (arXiv 2507.06608,
//! section 3.2: 30 % to 40 % of the SMs cut it by over 25 %, 70 % to 80 % still by 10 %; 1/r gives 25 % and 12.5 %). `g`: there a decode
//! step gains 10 % from 30 % to 40 % of the SMs and under 3 % per further 10 points beyond 50 %; saturation at 35 % gives 14 % and nothing. The
//! authors of `BulletServe` see bandwidth saturate at some 40 SMs of an H100 PCIe, which has 114 (its issue 1).
//!
//! Not modelled: a bandwidth that the streams divide by their demand. Kernels of both that wait for memory at one time get
//! all of it each; `contention` makes up for that on average. Nexus (section 3.3) sees one decode batch slow down by 36 % as the context of the
//! prompt chunks beside it grows from 2000 to 10000 tokens.

mod kernels;
mod scaled;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::{LatencyError, LatencyModel};

use scaled::Scaled;

pub(super) use kernels::{SharedKernels, share_kernels};

/// How fast kernels are on part of the SMs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmCurve {
    /// Share of the SMs beyond which computing gets no faster.
    pub compute_saturation: f64,
    /// Share of the SMs that saturates the memory bandwidth.
    pub bandwidth_saturation: f64,
}

impl Default for SmCurve {
    fn default() -> Self {
        Self {
            compute_saturation: 1.0,
            bandwidth_saturation: 0.35,
        }
    }
}

/// What becomes of the SMs of a stream that has no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IdleSms {
    /// The other stream gets them for the steps that start meanwhile (dynamic assignment, as in `MuxServe`).
    #[default]
    Lent,
    /// Nobody uses them (limits set when the streams start, as Semi-PD sets those of CUDA MPS).
    Kept,
}

/// How two streams share a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmSplit {
    /// Share of the SMs of the prefill stream, above 0 and below 1; decodes have the rest.
    pub prefill_share: f64,
    /// Factor, at least 1, on all kernels while both streams run.
    pub contention: f64,
    /// The SMs of an idle stream.
    pub idle: IdleSms,
    /// How fast kernels are on part of the SMs.
    pub curve: SmCurve,
}

/// Factors on the times of the whole GPU, each at least 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// On time that the compute units need.
    pub compute: f64,
    /// On time that the memory needs.
    pub memory: f64,
    /// On both.
    pub contention: f64,
}

/// Step times of the two streams of an instance: of one that runs alone, then of one beside the other.
#[derive(Debug, Clone)]
pub struct Streams {
    /// Steps of prompts.
    pub prefill: [Arc<dyn LatencyModel>; 2],
    /// Steps of decodes.
    pub decode: [Arc<dyn LatencyModel>; 2],
}

impl SmCurve {
    /// The factors on `share` of the SMs.
    #[must_use]
    pub fn at(&self, share: f64) -> Slowdown {
        Slowdown {
            compute: (self.compute_saturation / share).max(1.0),
            memory: (self.bandwidth_saturation / share).max(1.0),
            contention: 1.0,
        }
    }
}

impl Slowdown {
    /// The whole GPU for oneself.
    pub const NONE: Self = Self {
        compute: 1.0,
        memory: 1.0,
        contention: 1.0,
    };
}

impl SmSplit {
    /// Checks that shares and factors are possible.
    ///
    /// # Errors
    /// Names the first that is not.
    pub fn validate(&self) -> Result<(), LatencyError> {
        let curve = &self.curve;
        let checks = [
            (
                "prefill_share",
                self.prefill_share,
                // One SM of a data-centre GPU is about one percent of them.
                (0.01..=0.99).contains(&self.prefill_share),
                "a share from 0.01 to 0.99, such as 0.5: both streams need SMs",
            ),
            (
                "contention",
                self.contention,
                (1.0..=100.0).contains(&self.contention),
                "a factor from 1 (none) to 100",
            ),
            (
                "compute_saturation",
                curve.compute_saturation,
                curve.compute_saturation > 0.0 && curve.compute_saturation <= 1.0,
                "a share of the SMs above 0 and at most 1",
            ),
            (
                "bandwidth_saturation",
                curve.bandwidth_saturation,
                // Otherwise a kernel with more to compute could become the faster one.
                curve.bandwidth_saturation > 0.0
                    && curve.bandwidth_saturation <= curve.compute_saturation,
                "a share of the SMs above 0 and at most `compute_saturation`",
            ),
        ];
        match checks.into_iter().find(|(_, _, good, _)| !good) {
            Some((key, value, _, allowed)) => Err(LatencyError::BadShare {
                key,
                value,
                allowed,
            }),
            None => Ok(()),
        }
    }

    /// Factors on the prefill and the decode stream: each alone, then beside the other.
    #[must_use]
    pub fn slowdowns(&self) -> [[Slowdown; 2]; 2] {
        [self.prefill_share, 1.0 - self.prefill_share].map(|share| {
            let on_share = self.curve.at(share);
            let alone = match self.idle {
                IdleSms::Lent => Slowdown::NONE,
                IdleSms::Kept => on_share,
            };
            let beside = Slowdown {
                contention: self.contention,
                ..on_share
            };
            [alone, beside]
        })
    }

    /// The step times of both streams of an instance whose whole GPUs take those of `whole`.
    #[must_use]
    pub fn streams(&self, whole: &Arc<dyn LatencyModel>) -> Streams {
        let [prefill, decode] = self
            .slowdowns()
            .map(|pair| pair.map(|slowdown| slowed(whole, slowdown)));
        Streams { prefill, decode }
    }
}

/// `whole`, slowed down; itself where nothing slows it.
#[must_use]
pub fn slowed(whole: &Arc<dyn LatencyModel>, slowdown: Slowdown) -> Arc<dyn LatencyModel> {
    if slowdown == Slowdown::NONE {
        return Arc::clone(whole);
    }
    whole
        .on_shared_gpu(slowdown)
        .unwrap_or_else(|| Arc::new(Scaled::new(Arc::clone(whole), slowdown)))
}
