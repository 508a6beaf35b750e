//! What a reader must know before trusting a figure: seen, why it matters, what to do.

use serde::Serialize;

use super::links::LinkMetrics;
use super::result::{Counts, PoolMetrics};
use super::verdict::SATURATED;

/// The refused request that needed most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TooLarge {
    /// Its number in order of arrival.
    pub request: u64,
    /// The pool that could not hold it.
    pub pool: String,
    /// KV blocks it needed.
    pub needed: u64,
    /// KV blocks an instance has.
    pub available: u64,
}

impl TooLarge {
    /// In brackets, behind the number of those refused.
    fn told(&self) -> String {
        format!(
            " (the largest, request {}, needs {} KV blocks of pool `{}`, an instance, or one of its `dp` ranks, has {})",
            self.request, self.needed, self.pool, self.available
        )
    }
}

/// A reason to read a run's figures with care.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// Nothing arrived after the warm-up.
    NothingMeasured {
        /// How many arrived in all.
        arrived: u64,
    },
    /// Arrivals lasted only a few mean E2E latencies.
    HorizonTooShort {
        /// Length of the arrival window in seconds.
        window_s: f64,
        /// Mean E2E latency in seconds.
        e2e_s: f64,
    },
    /// The warm-up takes a large share of the run.
    LongWarmup {
        /// Requests left out.
        warmup: u64,
        /// All requests.
        arrived: u64,
    },
    /// Too few requests for tail percentiles.
    FewRequests {
        /// Measured requests with a first token.
        count: u64,
    },
    /// The cluster refused requests.
    Rejected {
        /// How many.
        rejected: u64,
        /// Of how many.
        measured: u64,
        /// The one that needed most.
        worst: Option<TooLarge>,
    },
    /// Requests were cut off by the horizon.
    Unfinished {
        /// How many.
        unfinished: u64,
        /// Of how many.
        measured: u64,
    },
    /// The horizon came before the client could send all of its plan.
    NeverSent {
        /// How many were not sent.
        never_sent: u64,
        /// How many its plan had up to the horizon.
        planned: u64,
    },
    /// KV blocks ran out and sequences were computed again.
    Preempted {
        /// Preemptions of measured requests.
        preemptions: u64,
        /// Measured requests.
        measured: u64,
    },
    /// No request used a pool.
    Idle {
        /// Its name.
        pool: String,
        /// Its GPUs.
        gpus: u32,
    },
    /// KV caches wait for a link that has nearly no time left.
    LinkSaturated {
        /// The busiest link.
        link: String,
        /// Its utilisation.
        utilisation: f64,
        /// Mean waiting of the transfers over it in milliseconds.
        queue_mean_ms: f64,
    },
    /// Step times rest on shapes that nobody timed.
    Extrapolated {
        /// Estimated share of kernel time.
        share: f64,
    },
}

/// Share of kernel time outside measured ranges from which on a run says so.
const EXTRAPOLATED: f64 = 0.1;

impl Warning {
    /// What was seen.
    #[must_use]
    pub fn seen(&self) -> String {
        match self {
            Self::NothingMeasured { arrived } => {
                format!("no request arrived after the warm-up ({arrived} arrived in all)")
            }
            Self::HorizonTooShort { window_s, e2e_s } => format!(
                "arrivals last {window_s:.3} s, only {:.1} times the mean E2E of {e2e_s:.3} s",
                window_s / e2e_s
            ),
            Self::LongWarmup { warmup, arrived } => format!(
                "the warm-up leaves out {warmup} of {arrived} requests ({:.0} %)",
                percent(*warmup, *arrived)
            ),
            Self::FewRequests { count } => {
                format!("percentiles of TTFT rest on {}", counted(*count, "request"))
            }
            Self::Rejected {
                rejected,
                measured,
                worst,
            } => {
                let worst = worst.as_ref().map_or_else(String::new, TooLarge::told);
                format!("{rejected} of {measured} requests were rejected{worst}")
            }
            Self::Unfinished {
                unfinished,
                measured,
            } => format!("{unfinished} of {measured} requests were unfinished at the horizon"),
            Self::NeverSent {
                never_sent,
                planned,
            } => format!(
                "{never_sent} of {planned} requests planned before the horizon were never sent: the client had as many in flight as it may"
            ),
            Self::Preempted {
                preemptions,
                measured,
            } => format!(
                "{} over {}",
                counted(*preemptions, "preemption"),
                counted(*measured, "request")
            ),
            Self::LinkSaturated {
                link,
                utilisation,
                queue_mean_ms,
            } => format!(
                "link saturated: {link} is taken {:.0} % of the time; transfers wait {queue_mean_ms:.1} ms for their turn (mean)",
                100.0 * utilisation
            ),
            Self::Idle { pool, gpus } => {
                format!(
                    "pool `{pool}` ({}) formed no step",
                    counted(u64::from(*gpus), "GPU")
                )
            }
            Self::Extrapolated { share } => format!(
                "{:.0} % of the kernel time lies outside measured ranges (estimated from mean steps)",
                100.0 * share
            ),
        }
    }

    /// Why it matters.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Self::NothingMeasured { .. } => "there is nothing to take a mean of",
            Self::HorizonTooShort { .. } => "the system hardly had time to fill",
            Self::LongWarmup { .. } => "most of the simulated load is not measured",
            Self::FewRequests { .. } => "p99 of fewer than 100 values is close to the largest one",
            Self::Rejected { .. } => {
                "they need more KV blocks than an instance has, and count as missed"
            }
            Self::Unfinished { .. } => {
                "latencies cover only those that finished; they count as missed"
            }
            Self::NeverSent { .. } => {
                "no figure knows of them, attainment included: they are of what was sent"
            }
            Self::Preempted { .. } => {
                "KV blocks ran out: what was preempted was computed again or moved to host memory and back"
            }
            Self::Extrapolated { .. } => "the times of those kernels are extrapolated",
            Self::Idle { .. } => {
                "its GPUs count in every figure per GPU and per dollar, and no request used them"
            }
            Self::LinkSaturated { .. } => {
                "the hand-off, not the GPUs, sets the pace, and prompts that are done keep their KV blocks while they wait"
            }
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::NothingMeasured { .. } => "simulate more requests or lower workload.warmup",
            Self::HorizonTooShort { .. } | Self::FewRequests { .. } => {
                "simulate more requests (workload.requests, or a longer trace)"
            }
            Self::LongWarmup { .. } => "lower workload.warmup or simulate more requests",
            Self::Rejected { .. } => "give the pool more KV memory or cap the prompt length",
            Self::Unfinished { .. } => "raise the horizon or lower the rate",
            Self::NeverSent { .. } => {
                "raise workload.concurrency or lower workload.rate, or leave workload.concurrency out: what cannot be served then counts"
            }
            Self::Idle { .. } => {
                "see whether skip_prefill lets every prompt skip it, or outputs of one token leave nothing to decode; else leave the pool out"
            }
            Self::Preempted { .. } => "add KV memory or decode instances, or lower max_seqs",
            Self::Extrapolated { .. } => {
                "`pdsim explain` shows which; use a profile measured on such shapes (`pdsim calibrate`, `pdsim profile fit`), or another GPU, format or cut"
            }
            Self::LinkSaturated { .. } => {
                "take a faster link or more prefill and decode instances; raise block_tokens where posting descriptors takes the time"
            }
        }
    }

    /// The warning about the busiest link, if it has nearly no time left.
    pub(super) fn saturated(busiest: &LinkMetrics) -> Option<Self> {
        (busiest.utilisation >= SATURATED).then(|| Self::LinkSaturated {
            link: busiest.link.clone(),
            utilisation: busiest.utilisation,
            queue_mean_ms: busiest.queue_mean_ms,
        })
    }

    /// The warnings about pools that did nothing while another worked.
    pub(super) fn idle(pools: &[PoolMetrics]) -> Vec<Self> {
        if pools.iter().all(|pool| pool.steps == 0) {
            return Vec::new();
        }
        let idle = pools.iter().filter(|pool| pool.steps == 0);
        idle.map(|pool| Self::Idle {
            pool: pool.name.clone(),
            gpus: pool.gpus,
        })
        .collect()
    }

    /// The warning about kernel time outside measured ranges; none where nothing was measured, which step times say of themselves.
    pub(super) fn extrapolated(share: f64) -> Option<Self> {
        (EXTRAPOLATED..1.0)
            .contains(&share)
            .then_some(Self::Extrapolated { share })
    }

    /// Typical signs, from the counts of a run.
    pub(super) fn from_counts(
        counts: &Counts,
        preemptions: u64,
        with_ttft: u64,
        worst: Option<TooLarge>,
    ) -> Vec<Self> {
        let mut out = Vec::new();
        let measured = counts.measured;
        if measured == 0 {
            out.push(Self::NothingMeasured {
                arrived: counts.arrived,
            });
            return out;
        }
        if counts.warmup * 5 > counts.arrived {
            out.push(Self::LongWarmup {
                warmup: counts.warmup,
                arrived: counts.arrived,
            });
        }
        // Percentiles of nothing are not printed; why there is nothing is told below.
        if (1..100).contains(&with_ttft) {
            out.push(Self::FewRequests { count: with_ttft });
        }
        if counts.rejected > 0 {
            out.push(Self::Rejected {
                rejected: counts.rejected,
                measured,
                worst,
            });
        }
        if counts.unfinished > 0 {
            out.push(Self::Unfinished {
                unfinished: counts.unfinished,
                measured,
            });
        }
        if counts.never_sent > 0 {
            out.push(Self::NeverSent {
                never_sent: counts.never_sent,
                planned: counts.arrived + counts.never_sent,
            });
        }
        if preemptions * 20 > measured {
            out.push(Self::Preempted {
                preemptions,
                measured,
            });
        }
        out
    }
}

/// `1 request`, `2 requests`.
fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(measured: u64, rejected: u64, with_ttft: u64) -> Vec<Warning> {
        let counts = Counts {
            arrived: measured,
            measured,
            rejected,
            ..Counts::default()
        };
        Warning::from_counts(&counts, 0, with_ttft, None)
    }

    #[test]
    fn percentiles_rest_on_requests_that_there_are() {
        let seen = |warnings: Vec<Warning>| warnings.iter().map(Warning::seen).collect::<Vec<_>>();
        let none = seen(of(30, 30, 0));
        assert_eq!(none, ["30 of 30 requests were rejected"]);
        let one = seen(of(30, 29, 1));
        assert_eq!(one[0], "percentiles of TTFT rest on 1 request");
        let two = seen(of(30, 28, 2));
        assert_eq!(two[0], "percentiles of TTFT rest on 2 requests");
        assert_eq!(seen(of(100, 0, 100)), Vec::<String>::new());
    }
}
