//! Keys of queue orders.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::{Name, Span};

/// In which order prompts wait, with its figures.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// The shortest prompt first.
    ShortestPrompt(Unfairness),
    /// The lowest request class first.
    Priority(Ranking),
    /// The earliest deadline first.
    EarliestDeadline(Deadlines),
}

/// How far an order may be unfair.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfairness {
    /// How many later prompts may pass a waiting one.
    pub most_passes: Option<u32>,
}

/// Which request class goes first: a list of names, or a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking(pub RankingKeys);

/// The same as a map.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankingKeys {
    /// Classes by name, the first goes first; without it in the order in which the trace names them.
    pub classes: Option<Vec<Name>>,
    /// How many later prompts may pass a waiting one.
    pub most_passes: Option<u32>,
}

impl<'de> Deserialize<'de> for Ranking {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(RankingVisitor)
    }
}

struct RankingVisitor;

impl<'de> Visitor<'de> for RankingVisitor {
    type Value = Ranking;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a list of request classes such as `[gold, silver]`, or a map of `classes` and `most_passes`",
        )
    }
    fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Ranking, A::Error> {
        let classes = Vec::deserialize(SeqAccessDeserializer::new(names))?;
        Ok(Ranking(RankingKeys {
            classes: Some(classes),
            most_passes: None,
        }))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Ranking, A::Error> {
        RankingKeys::deserialize(MapAccessDeserializer::new(map)).map(Ranking)
    }
}

/// What is promised to whom.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadlines {
    /// TTFT promised to each request class, from class 0; the last one holds for classes beyond.
    pub ttft: Vec<Span>,
    /// How many later prompts may pass a waiting one.
    pub most_passes: Option<u32>,
}

/// A cap of long prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompts {
    /// A prompt of more tokens is long.
    pub above: u32,
    /// Most of them in a step.
    pub most: Option<u32>,
    /// Whether one may interrupt decodes by itself.
    pub interrupts: Option<bool>,
}
