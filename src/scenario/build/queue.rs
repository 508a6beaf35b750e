//! Queue orders and the cap of long prompts.

use crate::cluster::{LongPrompts, QueueOrder, QueueRule, Reservation, SystemSpec};
use crate::names::{did_you_mean, some};
use crate::scenario::schema::{self, Name, Policy, QueueKind, Ranking, System, WordOr};
use crate::units::SimDuration;

use super::Builder;
use super::pool::PoolContext;

/// Orders by the word in a scenario.
const WORDS: [&str; 4] = ["fcfs", "shortest_prompt", "priority", "earliest_deadline"];

/// What gives requests a class.
const WITH_CLASSES: &str = "use a trace with classes (a column or key `class`, a Bailian `type`, a BurstGPT `Model`), or remove it";

impl Builder<'_> {
    /// In which order the prompts of a system wait.
    pub(super) fn queue(&mut self, path: &str, system: &System) -> Option<QueueRule> {
        let path = format!("{path}.queue");
        let rule = |order, most_passes| Some(QueueRule { order, most_passes });
        match system.queue.as_ref() {
            None => Some(QueueRule::default()),
            Some(WordOr::Word(word)) => match word.as_str() {
                "fcfs" => Some(QueueRule::default()),
                "shortest_prompt" => rule(QueueOrder::ShortestPrompt, None),
                "priority" => rule(QueueOrder::Priority, None),
                "earliest_deadline" => {
                    self.wrong(
                        &path,
                        "the order `earliest_deadline` needs promises; write `earliest_deadline: {ttft: [250 ms, 5 s]}`, one for each request class",
                    );
                    None
                }
                _ => {
                    let near = did_you_mean(word, WORDS);
                    let allowed = WORDS.join(", ");
                    self.wrong(
                        &path,
                        format!("unknown order `{word}`{near} (allowed: {allowed})"),
                    );
                    None
                }
            },
            Some(WordOr::Map(QueueKind::ShortestPrompt(bound))) => {
                rule(QueueOrder::ShortestPrompt, bound.most_passes)
            }
            Some(WordOr::Map(QueueKind::Priority(Ranking(keys)))) => {
                let order = match &keys.classes {
                    None => QueueOrder::Priority,
                    Some(names) => self.ranked(&path, names),
                };
                rule(order, keys.most_passes)
            }
            Some(WordOr::Map(QueueKind::EarliestDeadline(deadlines))) => {
                let key = format!("{path}.earliest_deadline.ttft");
                self.require(!deadlines.ttft.is_empty(), &key, || {
                    "is empty; write a duration for each request class, as in `[250 ms, 5 s]`"
                        .to_owned()
                });
                let promises = deadlines.ttft.iter().map(|span| span.0).collect();
                rule(
                    QueueOrder::EarliestDeadline(promises),
                    deadlines.most_passes,
                )
            }
        }
    }

    /// Holds queue orders against the request classes of the workload, by number: an order that looks for what nobody has is a problem.
    pub(super) fn check_queues(&mut self, classes: &[String], systems: &[SystemSpec]) {
        for system in systems {
            // All pools of a system have its order.
            let Some(pool) = system.pools.first() else {
                continue;
            };
            match &pool.queue.order {
                QueueOrder::Fcfs | QueueOrder::ShortestPrompt => {}
                QueueOrder::Priority | QueueOrder::Ranked(_) => {
                    self.check_priority(classes, &system.name);
                }
                QueueOrder::EarliestDeadline(promises) => {
                    self.check_deadlines(classes, promises, system);
                }
            }
            self.tell_classes(classes, &system.name, &pool.queue.order);
        }
    }

    /// Tells what an order makes of each class of the trace: people know these by name, orders by number.
    fn tell_classes(&mut self, classes: &[String], system: &str, order: &QueueOrder) {
        let workload = self.scenario.workload.as_ref();
        let Some(trace) = workload.and_then(|workload| workload.trace.as_ref()) else {
            return;
        };
        if classes.len() < 2 {
            return;
        }
        let trace = trace.display();
        let quoted = |name: &str| match name {
            "" => "those without one".to_owned(),
            name => format!("`{name}`"),
        };
        let named = |(number, name): (usize, &String)| format!("{} {number}", quoted(name));
        let note = match order {
            QueueOrder::Fcfs | QueueOrder::ShortestPrompt => return,
            QueueOrder::Priority => format!(
                "classes of {trace} by priority, first goes first: {}, in order of first appearance; for another order name them, as in \
                 `priority: [gold, silver]`",
                some(classes.iter().enumerate().map(named))
            ),
            QueueOrder::Ranked(ranks) => {
                let last = ranks.iter().copied().max();
                let unnamed = |class: &usize| ranks.get(*class).copied() == last;
                let rest: Vec<usize> = (0..classes.len()).filter(unnamed).collect();
                // With every class named, the scenario itself says it all.
                let [_, _, ..] = rest.as_slice() else {
                    return;
                };
                format!(
                    "{system}: classes of {trace} that `queue` does not name go last, as equals: {}",
                    some(rest.into_iter().map(|class| quoted(&classes[class])))
                )
            }
            QueueOrder::EarliestDeadline(promises) => {
                let promised = |(number, name): (usize, &String)| {
                    let promise = promises.get(number).or(promises.last());
                    let seconds = promise.map_or(0.0, |promise| promise.as_secs_f64());
                    format!("{} {seconds} s", quoted(name))
                };
                format!(
                    "{system}: classes of {trace} and the TTFT promised to each: {}, in order of first appearance",
                    some(classes.iter().enumerate().map(promised))
                )
            }
        };
        self.notes.push(note);
    }

    /// The order of classes by name, held against those of the trace.
    fn ranked(&mut self, path: &str, names: &[Name]) -> QueueOrder {
        let path = format!("{path}.priority");
        self.require(!names.is_empty(), &path, || {
            "names no class; write the request classes of the trace, the first goes first, as in `[gold, silver]`"
                .to_owned()
        });
        let twice = names
            .iter()
            .enumerate()
            .find(|(at, name)| names[..*at].contains(name));
        if let Some((_, Name(name))) = twice {
            self.wrong(
                &path,
                format!("names the class `{name}` twice; name each class once"),
            );
        }
        // Without a trace there is no class, which is told elsewhere.
        let classes = self.classes.clone().unwrap_or_default();
        let known: Vec<&str> = classes
            .iter()
            .map(String::as_str)
            .filter(|name| !name.is_empty())
            .collect();
        for Name(name) in names.iter().filter(|_| !classes.is_empty()) {
            self.require(classes.contains(name), &path, || {
                format!(
                    "names the class `{name}`, which no request of the trace has{} (its classes: {})",
                    did_you_mean(name, known.iter().copied()),
                    some(known.iter().map(|name| (*name).to_owned()))
                )
            });
        }
        let rank = |class: &String| names.iter().position(|Name(name)| name == class);
        let ranks = classes
            .iter()
            .map(|class| u16::try_from(rank(class).unwrap_or(names.len())).unwrap_or(u16::MAX));
        QueueOrder::Ranked(ranks.collect())
    }

    fn check_priority(&mut self, classes: &[String], system: &str) {
        let path = format!("systems.{system}.queue");
        match classes {
            [] => self.without_use(
                self.document.swept("workload.trace"),
                &path,
                format!("is of no effect: `priority` goes by request class, and no request of this workload has a class; {WITH_CLASSES}"),
            ),
            // Another part of the same trace may have more of them.
            [only] => self.notes.push(format!(
                "{system}: the queue order `priority` is first come, first served: all requests are of class `{only}`"
            )),
            _ => {}
        }
    }

    fn check_deadlines(
        &mut self,
        classes: &[String],
        promises: &[SimDuration],
        system: &SystemSpec,
    ) {
        let of_class = |class: usize| promises.get(class).or(promises.last());
        let differ = (1..classes.len()).any(|class| of_class(class) != of_class(0));
        // Elsewhere prompts come to a queue in order of arrival, which one promise to all leaves as it is.
        let late = system.reservation == Reservation::Early
            || system.returns_to_prefill()
            || system.roles.moves();
        if differ || late {
            return;
        }
        let path = format!("systems.{}.queue", system.name);
        let same = promises
            .iter()
            .all(|promise| Some(promise) == promises.first());
        match classes {
            [only] if !same => self.notes.push(format!(
                "{}: the queue order `earliest_deadline` is first come, first served: all requests are of class `{only}`, so that one promise \
                 holds for all",
                system.name
            )),
            _ => {
                let (why, instead) = match classes {
                    [] => (
                        "no request of this workload has a class, so that the first promise holds for all",
                        WITH_CLASSES,
                    ),
                    _ => (
                        "all request classes are promised the same",
                        "write a promise for each, as in `earliest_deadline: {ttft: [250 ms, 5 s]}`, or remove it",
                    ),
                };
                let beside = self.document.swept_beside(&format!("systems.{}", system.name), &path);
                self.without_use(
                    self.document.swept("workload.trace").or(beside),
                    &path,
                    format!("is of no effect: {why} and deadlines come in the order of arrival; {instead}"),
                );
            }
        }
    }

    /// The cap of long prompts written at `path`.
    pub(super) fn long_prompts(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        keys: schema::LongPrompts,
        pp: u32,
    ) -> LongPrompts {
        let interrupts = keys.interrupts.unwrap_or(true);
        let mixed = context.system.policy == Policy::MixedPool;
        self.require_use(interrupts || mixed, context.path, &format!("{path}.interrupts"), || {
            "is false, which has an effect only under policy `mixed_pool`: elsewhere no instance decodes beside prompts that go \
             on to another; leave it out"
                .to_owned()
        });
        self.require(interrupts || pp == 1, &format!("{path}.interrupts"), || {
            format!(
                "is false on instances with pp {pp}, where each step is another batch that a prompt does not interrupt; leave \
                 it out, or set pp to 1"
            )
        });
        let most = keys.most.unwrap_or(1);
        self.require(most > 0, &format!("{path}.most"), || {
            "is 0, so that no long prompt would ever run; expected a whole number of at least 1"
                .to_owned()
        });
        LongPrompts {
            above: keys.above,
            most,
            interrupts,
        }
    }
}
