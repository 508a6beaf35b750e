//! The sentences that compare systems: who keeps the promise, who is better, and on what hardware.

use super::answer::{Crossing, at_point, digits, percent, share_text};
use super::input::Report;
use super::pool::{Pooled, difference};
use crate::metrics::{Estimate, State};

/// A figure on which systems are compared.
struct Yardstick {
    figure: &'static str,
    scale: f64,
    unit: &'static str,
    words: &'static str,
}

impl Yardstick {
    /// Good requests, or latency where there is no promise or nobody keeps any of it.
    fn of(best: &Pooled) -> Self {
        let (figure, scale, unit, words) = match best.mean("attainment") {
            Some(share) if share > 0.0 => ("attainment", 100.0, "points", "good requests"),
            // Two systems without a good request may still differ by hours.
            Some(_) => ("e2e_mean_ms", 1.0, "ms", "no good requests, mean E2E"),
            None => ("e2e_mean_ms", 1.0, "ms", "mean E2E"),
        };
        Self {
            figure,
            scale,
            unit,
            words,
        }
    }

    fn seen(&self, p: &Pooled) -> String {
        let value = p.mean(self.figure);
        value.map_or_else(String::new, |v| match self.figure {
            "attainment" => percent(v),
            _ => format!("{} ms", digits(v)),
        })
    }

    /// `difference 0.9 ± 0.8 points over 5 paired seeds`, or a word of warning for a single seed.
    fn difference(&self, d: &Estimate) -> String {
        let size = (d.mean * self.scale).abs();
        d.half_width.map_or_else(
            || "one seed, so without a confidence interval".to_owned(),
            |half| {
                format!(
                    "difference {size:.1} ± {:.1} {} over {} paired seeds",
                    half * self.scale,
                    self.unit,
                    d.seeds
                )
            },
        )
    }
}

/// Whether a difference may be chance: zero lies in its interval, or, for a single seed, there is none.
fn is_level(d: &Estimate) -> bool {
    match d.differs_from_zero() {
        Some(differs) => !differs,
        None => d.mean.abs() <= 0.0,
    }
}

/// Whether `other` cannot be told from `best` in good requests, beyond noise or at all.
pub(super) fn keeps_up(report: &Report, best: &Pooled, other: &Pooled) -> bool {
    let d = difference(report, other.point, best.system, other.system, "attainment");
    d.is_none_or(|d| is_level(&d) || d.mean < 0.005)
}

/// Who serves the load better; `here` are the contenders at one point, best first, at least two.
pub(super) fn headline(report: &Report, here: &[&Pooled]) -> Option<String> {
    let (best, others) = here.split_first()?;
    let next = others.first()?;
    let point = best.point;
    let at = at_point(report, point);
    if here.iter().all(|p| p.counts.measured == 0) {
        return Some(format!(
            "Nothing was measured{at}: no request arrived after the warm-up and before the horizon."
        ));
    }
    let yard = Yardstick::of(best);
    let to_best = |p: &Pooled| difference(report, point, best.system, p.system, yard.figure);
    let level: Vec<(&Pooled, Estimate)> = others
        .iter()
        .filter_map(|p| Some((*p, to_best(p)?)))
        .filter(|(_, d)| is_level(d))
        .collect();
    if let Some((_, farthest)) = level.last() {
        let same: Vec<&Pooled> = std::iter::once(*best)
            .chain(level.iter().map(|(p, _)| *p))
            .collect();
        let names = list(same.iter().map(|p| label(report, p)));
        let seen = list(same.iter().map(|p| yard.seen(p)));
        let words = yard.words;
        return Some(if level.iter().all(|(_, d)| d.mean.abs() <= 0.0) {
            let seeds = match farthest.seeds {
                1 => "one seed".to_owned(),
                n => format!("{n} seeds"),
            };
            format!("{names} come out equal{at}: {words} {seen} ({seeds}).")
        } else {
            format!(
                "{names} do not differ beyond noise{at}: {words} {seen}; the largest {}.",
                yard.difference(farthest)
            )
        });
    }
    let (a, b) = (label(report, best), label(report, next));
    let Some(d) = to_best(next) else {
        return Some(format!(
            "{a} and {b} have no seed in common in which both finished requests{at}, so they cannot be compared."
        ));
    };
    Some(format!(
        "{a} serves this load better than {b}{at}: {} {} against {}, {}.",
        yard.words,
        yard.seen(best),
        yard.seen(next),
        yard.difference(&d)
    ))
}

/// How far along the axis each system keeps the promise.
pub(super) fn by_crossing(report: &Report, crossings: &[Crossing]) -> String {
    let target = report.slo.map_or(0.0, |slo| slo.attainment);
    let value = |point: usize| report.axis.values[point].label.as_str();
    let mut order: Vec<&Crossing> = crossings.iter().collect();
    order.sort_by_key(|c| std::cmp::Reverse((c.kept, c.missed.is_none())));
    let parts = order.iter().map(|c| {
        let name = along_axis(report, c.system);
        match (c.kept, c.missed) {
            (Some(kept), Some(missed)) => {
                format!("{name} up to {} (not at {})", value(kept), value(missed))
            }
            (Some(kept), None) => {
                // What came after was tried, but nothing of it was measured.
                let last = if kept + 1 == report.axis.values.len() {
                    "tried"
                } else {
                    "measured"
                };
                format!("{name} up to {}, the last value {last}", value(kept))
            }
            (None, Some(missed)) => format!("{name} nowhere (not even at {})", value(missed)),
            (None, None) => format!("{name} nowhere"),
        }
    });
    format!(
        "The promise ({} good requests) is kept, read from the sweep's grid: {}.",
        percent(target),
        parts.collect::<Vec<_>>().join("; ")
    )
}

/// Who keeps the promise at a single point.
pub(super) fn by_promise(report: &Report, here: &[&Pooled]) -> Option<String> {
    let target = report.slo?.attainment;
    let (kept, missed): (Vec<&Pooled>, Vec<&Pooled>) = here
        .iter()
        .filter(|p| p.mean("attainment").is_some())
        .partition(|p| p.mean("attainment").is_some_and(|share| share >= target));
    let names = |systems: &[&Pooled]| list(systems.iter().map(|p| label(report, p)));
    let promise = format!("The promise ({} good requests)", percent(target));
    match (&kept[..], &missed[..]) {
        ([], []) => None,
        (kept, []) => Some(format!("{promise} is kept by {}.", names(kept))),
        ([], missed) => Some(format!("{promise} is missed by {}.", names(missed))),
        (kept, missed) => Some(format!(
            "{promise} is kept by {}, missed by {}.",
            names(kept),
            names(missed)
        )),
    }
}

/// What a promise that is kept means where the client falls behind its plan.
pub(super) fn of_what_is_sent(report: &Report, here: &[&Pooled]) -> Option<String> {
    let target = report.slo?.attainment;
    let behind = here.iter().filter(|p| {
        let kept = p.mean("attainment").is_some_and(|share| share >= target);
        kept && p.paced && p.state == State::Overloaded
    });
    let behind: Vec<String> = behind
        .map(|p| {
            let of = |name| p.mean(name).map_or_else(|| "-".to_owned(), digits);
            format!(
                "{}{} carries {} requests/s, and its client's wait is {} ms at the median",
                label(report, p),
                at_point(report, p.point),
                of("requests_per_s"),
                of("client_wait_p50_ms")
            )
        })
        .collect();
    (!behind.is_empty()).then(|| {
        format!(
            "Kept and overloaded at once: the promise is about what the client sends within its concurrency, not about its plan, behind which \
             it falls ever further, and its wait is no part of TTFT or E2E. {}.",
            list(behind.into_iter())
        )
    })
}

/// Shares so close to the target that other seeds could have put them on its other side.
pub(super) fn within_noise(report: &Report, decisive: &[&Pooled]) -> Option<String> {
    let target = report.slo?.attainment;
    let close = decisive.iter().filter_map(|p| {
        let share = p.figures.get("attainment")?;
        let near = (share.mean - target).abs() <= share.half_width?;
        near.then(|| {
            format!(
                "{}{} ({})",
                report.systems[p.system].name,
                at_point(report, p.point),
                share_text(share)
            )
        })
    });
    let close: Vec<String> = close.collect();
    (!close.is_empty()).then(|| {
        format!(
            "Too close to {} to call with these seeds: {}; run more seeds or requests.",
            percent(target),
            list(close.into_iter())
        )
    })
}

/// What a comparison of unequal hardware must say: counts, types, and good requests per GPU.
pub(super) fn unequal_hardware(report: &Report, here: &[&Pooled]) -> Vec<String> {
    let mut out = Vec::new();
    let point = here.first().map_or(0, |p| p.point);
    if counts_differ(report, point) {
        let per_gpu = here.iter().filter_map(|p| {
            let rate = p.mean("good_requests_per_s_per_gpu")?;
            Some(format!("{} {}", label(report, p), digits(rate)))
        });
        let per_gpu: Vec<String> = per_gpu.collect();
        let what = if per_gpu.is_empty() {
            "compare the figures per GPU".to_owned()
        } else {
            format!(
                "good requests/s per GPU{}: {}",
                at_point(report, point),
                per_gpu.join(", ")
            )
        };
        out.push(format!("The systems have unequal numbers of GPUs; {what}."));
    }
    let kinds: Vec<Vec<&str>> = here.iter().map(|p| gpu_types(report, p)).collect();
    let mixed = kinds.windows(2).any(|pair| pair[0] != pair[1]);
    out.extend(unequal_prices(report, here, mixed));
    out
}

/// What a comparison of unequal prices must say, or of GPU types (`mixed`) without a price.
fn unequal_prices(report: &Report, here: &[&Pooled], mixed: bool) -> Option<String> {
    let prices: Option<Vec<f64>> = here.iter().map(|p| p.mean("usd_per_hour")).collect();
    let Some(prices) = prices else {
        return mixed.then(|| {
            "The systems have GPUs of different types, and not all of them have a price (`price_per_hour_usd`): the better one may cost \
             more."
                .to_owned()
        });
    };
    let same = |pair: &[f64]| (pair[0] - pair[1]).abs() < 0.005;
    if prices.windows(2).all(same) {
        return None;
    }
    let each = |name: &str| {
        let known = here.iter().filter_map(|p| {
            let value = digits(p.mean(name)?);
            Some(format!("{} {value}", report.systems[p.system].name))
        });
        known.collect::<Vec<_>>().join(", ")
    };
    let good = each("usd_per_million_good_tokens");
    let (figure, per) = if good.is_empty() {
        (each("usd_per_million_output_tokens"), "output tokens")
    } else {
        (good, "output tokens of good requests")
    };
    let at = at_point(report, here.first()?.point);
    let served = if figure.is_empty() {
        String::new()
    } else {
        format!("; in $ per 1M {per}{at}: {figure}")
    };
    Some(format!(
        "The systems cost unequal amounts, in $ per hour: {}{served}.",
        each("usd_per_hour")
    ))
}

/// The GPU types of a system at a point, sorted, once each.
fn gpu_types<'r>(report: &'r Report, p: &Pooled) -> Vec<&'r str> {
    let runs = report.runs_of(p.system, p.point);
    let pools = runs.first().map_or(&[][..], |run| &run.metrics.pools[..]);
    let mut types: Vec<&str> = pools.iter().map(|pool| pool.gpu.as_str()).collect();
    types.sort_unstable();
    types.dedup();
    types
}

/// Whether the systems have unequal numbers of GPUs at a point.
fn counts_differ(report: &Report, point: usize) -> bool {
    let mut systems = report.systems.windows(2);
    systems.any(|pair| pair[0].shapes[point].gpus != pair[1].shapes[point].gpus)
}

/// A system's name, with its GPUs at the point where the systems differ in them.
fn label(report: &Report, p: &Pooled) -> String {
    let gpus = report.shape(p.system, p.point).gpus;
    let told = counts_differ(report, p.point).then_some((gpus, gpus));
    with_gpus(&report.systems[p.system].name, told)
}

/// A system's name, with its GPUs along the axis where the systems differ in them at any point.
fn along_axis(report: &Report, system: usize) -> String {
    let info = &report.systems[system];
    let mut points = 0..report.axis.values.len();
    let told = points.any(|point| counts_differ(report, point));
    with_gpus(&info.name, told.then(|| info.gpus()))
}

/// `a`, `a (1 GPU)`, `a (2 GPUs)` or `a (2 to 5 GPUs)`.
fn with_gpus(name: &str, gpus: Option<(u32, u32)>) -> String {
    match gpus {
        None => name.to_owned(),
        Some((1, 1)) => format!("{name} (1 GPU)"),
        Some((fewest, most)) if fewest == most => format!("{name} ({most} GPUs)"),
        Some((fewest, most)) => format!("{name} ({fewest} to {most} GPUs)"),
    }
}

/// `a`, `a and b`, `a, b and c`.
fn list(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.collect();
    match (items.pop(), items.is_empty()) {
        (None, _) => String::new(),
        (Some(only), true) => only,
        (Some(last), false) => format!("{} and {last}", items.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{sentences, telling_point};
    use super::super::pool::pool;
    use super::super::testing::report;
    use super::*;

    fn said(report: &Report) -> String {
        sentences(report, &pool(report)).join("\n")
    }

    /// Gives every system the runs of the first one.
    fn made_equal(mut report: Report) -> Report {
        let first: Vec<_> = report
            .runs
            .iter()
            .filter(|r| r.system == 0)
            .cloned()
            .collect();
        for run in &mut report.runs {
            let twin = first
                .iter()
                .find(|r| r.point == run.point && r.seed == run.seed);
            run.metrics = twin.unwrap().metrics.clone();
        }
        report
    }

    #[test]
    fn every_one_of_equal_systems_is_named() {
        for seeds in [1, 3] {
            for rates in [&[4.0][..], &[4.0, 8.0]] {
                let text = said(&made_equal(report(rates, seeds, 300)));
                let names = "colocated, chunked-512 and disaggregated come out equal";
                assert!(text.contains(names), "{text}");
                assert!(!text.contains("better"), "{text}");
            }
        }
    }

    #[test]
    fn more_gpus_are_said_beside_the_better_system() {
        let mut report = report(&[8.0], 3, 1000);
        report.systems[2].shapes[0].gpus = 4;
        let text = said(&report);
        assert!(
            text.contains("disaggregated (4 GPUs) serves this load better than"),
            "{text}"
        );
        assert!(
            text.contains("unequal numbers of GPUs; good requests/s per GPU: "),
            "{text}"
        );
    }

    #[test]
    fn gpus_are_those_of_the_point_spoken_of() {
        let mut report = report(&[2.0, 8.0], 1, 300);
        report.axis.is_rate = false;
        report.slo.as_mut().unwrap().attainment = 0.01;
        for (shape, gpus) in report.systems[2].shapes.iter_mut().zip([3, 5]) {
            shape.gpus = gpus;
        }
        let text = said(&report);
        assert!(text.contains("disaggregated (3 to 5 GPUs) up to"), "{text}");
        assert!(text.contains("colocated (3 GPUs) up to"), "{text}");
        assert!(text.contains("per GPU at 8 /s: "), "{text}");
        assert!(text.contains("disaggregated (5 GPUs) "), "{text}");
        report.systems[2].shapes.reverse();
        assert!(!said(&report).contains("unequal"), "{}", said(&report));
    }

    #[test]
    fn gpus_of_different_types_are_told_unless_their_prices_are() {
        let mut report = report(&[4.0], 1, 300);
        assert!(!said(&report).contains("different types"));
        for run in report.runs.iter_mut().filter(|r| r.system == 1) {
            run.metrics.pools[0].gpu = "other".to_owned();
        }
        assert!(
            said(&report).contains("different types"),
            "{}",
            said(&report)
        );
        for run in &mut report.runs {
            let factor = if run.system == 1 { 2.0 } else { 1.0 };
            run.metrics.cost.usd_per_hour = Some(3.0 * factor);
            run.metrics.cost.usd_per_million_good_tokens = Some(0.5 * factor);
        }
        let text = said(&report);
        assert!(!text.contains("different types"), "{text}");
        let prices = "chunked-512 6.00";
        assert!(
            text.contains("cost unequal amounts, in $ per hour: "),
            "{text}"
        );
        assert!(
            text.contains(prices) && text.contains("chunked-512 1.00"),
            "{text}"
        );
    }

    #[test]
    fn a_single_point_says_who_keeps_the_promise() {
        let mut report = report(&[2.0], 1, 300);
        let set = |report: &mut Report, system: usize, tenths: u64| {
            for run in report.runs.iter_mut().filter(|r| r.system == system) {
                let attainment = run.metrics.attainment.as_mut().unwrap();
                attainment.met = attainment.of * tenths / 10;
            }
        };
        set(&mut report, 0, 9);
        set(&mut report, 1, 10);
        set(&mut report, 2, 8);
        let text = said(&report);
        let first = "The promise (90 % good requests) is kept by chunked-512 and colocated, missed by disaggregated.";
        assert!(text.starts_with(first), "{text}");
        (0..3).for_each(|system| set(&mut report, system, 1));
        let text = said(&report);
        assert!(text.contains("is missed by"), "{text}");
        assert!(!text.contains("is kept by"), "{text}");
    }

    #[test]
    fn a_share_whose_interval_holds_the_target_is_not_called_certain() {
        let mut report = report(&[4.0], 3, 300);
        for run in &mut report.runs {
            let attainment = run.metrics.attainment.as_mut().unwrap();
            // 100 %, 90 % and 80 %: 90 % ± 24.8.
            attainment.met = attainment.of * (10 - run.seed) / 10;
        }
        let text = said(&report);
        assert!(
            text.contains("Too close to 90 % to call with these seeds: "),
            "{text}"
        );
        for run in &mut report.runs {
            let attainment = run.metrics.attainment.as_mut().unwrap();
            attainment.met = attainment.of;
        }
        assert!(!said(&report).contains("Too close"));
    }

    #[test]
    fn a_run_without_measured_requests_is_not_called_equal() {
        let mut report = report(&[4.0], 1, 30);
        for run in &mut report.runs {
            run.metrics.counts.measured = 0;
            run.metrics.attainment.as_mut().unwrap().of = 0;
        }
        let text = said(&report);
        assert!(text.contains("Nothing was measured"), "{text}");
    }

    /// Takes all measured requests out of the runs of a point.
    fn emptied(report: &mut Report, point: usize) {
        for run in report.runs.iter_mut().filter(|run| run.point == point) {
            run.metrics.counts.measured = 0;
            run.metrics.attainment.as_mut().unwrap().of = 0;
        }
    }

    #[test]
    fn a_point_without_measured_requests_is_no_miss_and_tells_nothing() {
        let mut report = report(&[2.0, 3.0, 4.0], 1, 300);
        report.slo.as_mut().unwrap().attainment = 0.01;
        emptied(&mut report, 2);
        let text = said(&report);
        let kept = "colocated up to 3 /s, the last value measured;";
        assert!(text.contains(kept), "{text}");
        assert!(!text.contains("not at"), "{text}");
        emptied(&mut report, 0);
        assert!(said(&report).contains(kept), "{}", said(&report));
        assert_eq!(telling_point(&report, &pool(&report)), 1);
        // Nobody keeps it, and nobody promised anything: the point that was measured.
        report.slo.as_mut().unwrap().attainment = 1.1;
        assert_eq!(telling_point(&report, &pool(&report)), 1);
        report.slo = None;
        assert_eq!(telling_point(&report, &pool(&report)), 1);
    }

    #[test]
    fn seeds_that_measured_nothing_have_no_say() {
        let mut report = report(&[2.0], 3, 300);
        let before = pool(&report);
        for run in report.runs.iter_mut().filter(|run| run.seed == 0) {
            run.metrics.counts.measured = 0;
            run.metrics.attainment.as_mut().unwrap().of = 0;
            run.metrics.throughput.requests_per_s = 0.0;
            run.metrics.verdict.state = State::Overloaded;
        }
        let after = pool(&report);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!((before.seeds, before.agreeing), (3, 3));
            assert_eq!((after.seeds, after.measuring, after.agreeing), (3, 2, 2));
            assert_eq!(after.state, State::Stable);
            let rate = after.figures["requests_per_s"];
            assert_eq!(rate.seeds, 2);
            assert!(rate.mean > 1.5, "{rate:?}");
        }
        let style = crate::report::Style {
            width: 120,
            colour: false,
        };
        let shown = crate::report::terminal(&report, &style);
        let agree = "2 of 2 seeds agree; nothing measured with the other one";
        assert!(shown.contains(agree), "{shown}");
        let paired = difference(&report, 0, 1, 0, "requests_per_s").unwrap();
        assert_eq!(paired.seeds, 2);
    }

    #[test]
    fn cautions_are_part_of_the_answer() {
        let mut report = report(&[4.0], 1, 30);
        report.cautions.push("a has x, b has y".to_owned());
        assert!(said(&report).ends_with("Caution: a has x, b has y."));
    }
}
