//! Building blocks of the schema: quantities with units, words, and "a word or a map".

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::units::{SimDuration, parse};

/// A scalar that is written as text and knows how to read itself.
trait Scalar: FromStr<Err: fmt::Display> {
    /// What is expected, for the message when a map or a list is found.
    const EXPECTED: &'static str;
}

/// Turns any scalar into its text, so that `6` and `"6"` get the same answer about the missing unit.
struct TextVisitor(&'static str);

impl Visitor<'_> for TextVisitor {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

macro_rules! scalar_serde {
    ($($name:ident = $expected:literal),* $(,)?) => {$(
        impl Scalar for $name {
            const EXPECTED: &'static str = $expected;
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                let text = reader.deserialize_any(TextVisitor(Self::EXPECTED))?;
                text.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

scalar_serde! {
    Span = "a duration such as `50 ms`",
    Rate = "a rate such as `6 /s`",
    Bandwidth = "a bandwidth such as `25 GB/s`",
    Size = "a size such as `64 GiB`",
    Name = "a name",
}

/// A name that a trace gives, which may be a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(pub String);

impl FromStr for Name {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// A duration, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub SimDuration);

/// A rate in events per second, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub f64);

/// A bandwidth in bytes per second, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bandwidth(pub f64);

/// A number of bytes, written with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::bytes(text).map(Self)
    }
}

impl FromStr for Span {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::duration(text).map(Self)
    }
}

impl FromStr for Rate {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::rate(text).map(Self)
    }
}

impl FromStr for Bandwidth {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::bandwidth(text).map(Self)
    }
}

/// A number or one of the words that stand for the absence of one, or for a computed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvBlocks {
    /// `fit`: as many as the GPU memory holds beside the weights.
    Fit,
    /// `unlimited`.
    Unlimited,
    /// That many per instance.
    Blocks(u64),
}

/// A limit that may be `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `unlimited`.
    Unlimited,
    /// At most that many.
    AtMost(u64),
}

/// Rate of copies between GPU and host memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HostRate {
    /// `pcie`: that of the data sheet, for each GPU of an instance.
    Pcie,
    /// Of one instance.
    At(Bandwidth),
}

/// When a run stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// `none`: when the last request has ended.
    None,
    /// At that simulated time; requests still in the system are unfinished.
    At(SimDuration),
}

/// What is left out of the metrics at the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// That many first requests.
    Requests(u64),
    /// Requests that arrive before that time.
    Time(SimDuration),
}

macro_rules! number_or_words {
    ($name:ident = $expected:literal, $number:ident, { $($word:literal => $variant:ident),* }) => {
        scalar_serde! { $name = $expected }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => text.parse().map(Self::$number).map_err(|_| format!("`{text}` is not {}", $expected)),
                }
            }
        }
    };
}

number_or_words! { KvBlocks = "a whole number of blocks, `fit` or `unlimited`", Blocks, { "fit" => Fit, "unlimited" => Unlimited } }
number_or_words! { HostRate = "a bandwidth such as `25 GB/s`, or `pcie`", At, { "pcie" => Pcie } }
number_or_words! { Limit = "a whole number or `unlimited`", AtMost, { "unlimited" => Unlimited } }

scalar_serde! {
    Horizon = "a duration such as `10 min`, or `none`",
    Warmup = "a whole number of requests, or a duration such as `30 s`",
}

impl FromStr for Horizon {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            _ => parse::duration(text).map(Self::At),
        }
    }
}

impl FromStr for Warmup {
    type Err = parse::QuantityError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(count) => Ok(Self::Requests(count)),
            Err(_) => parse::duration(text).map(Self::Time),
        }
    }
}

/// A name, or a map that says more: `lengths: sharegpt` or `lengths: {fixed: {input: 512, output: 64}}`.
#[derive(Debug, Clone, PartialEq)]
pub enum WordOr<T> {
    /// The name, checked later against the names that exist.
    Word(String),
    /// The map.
    Map(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for WordOr<T> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(WordOrVisitor(PhantomData))
    }
}

struct WordOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for WordOrVisitor<T> {
    type Value = WordOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word or a map")
    }
    fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
        Ok(WordOr::Word(word.to_owned()))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(WordOr::Map)
    }
}

/// Which seeds to run: a count `n` (seeds 1 to n) or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

impl Seeds {
    /// The seeds 1 to `count`.
    #[must_use]
    pub fn count(count: u64) -> Self {
        Self((1..=count).collect())
    }
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(SeedsVisitor)
    }
}

/// More replications than this in one run is a slip of the keyboard.
const MAX_SEEDS: u64 = 100_000;

struct SeedsVisitor;

impl<'de> Visitor<'de> for SeedsVisitor {
    type Value = Seeds;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of seeds (at least 1) or a list such as [1, 2, 3]")
    }
    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Seeds, E> {
        if (1..=MAX_SEEDS).contains(&count) {
            return Ok(Seeds::count(count));
        }
        Err(E::invalid_value(de::Unexpected::Unsigned(count), &self))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Seeds, A::Error> {
        let mut seeds = Vec::new();
        while let Some(seed) = seq.next_element()? {
            // A seed twice is the same run twice, and would feign certainty.
            if seeds.contains(&seed) {
                return Err(de::Error::custom(format!(
                    "names the seed {seed} twice; name each seed once"
                )));
            }
            seeds.push(seed);
        }
        if seeds.is_empty() {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(Seeds(seeds))
    }
}
