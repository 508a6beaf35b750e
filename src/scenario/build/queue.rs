//! Queue orders and the cap of long prompts.

use crate::cluster::{LongPrompts, QueueOrder, QueueRule};
use crate::names::did_you_mean;
use crate::scenario::schema::{self, Policy, QueueKind, System, WordOr};

use super::Builder;
use super::pool::PoolContext;

/// Orders by the word in a scenario.
const WORDS: [&str; 4] = ["fcfs", "shortest_prompt", "priority", "earliest_deadline"];

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
            Some(WordOr::Map(QueueKind::Priority(bound))) => {
                rule(QueueOrder::Priority, bound.most_passes)
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
