//! Number formats by the names that model files and profiles use.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::model::{KvDtype, WeightDtype};
use crate::names::did_you_mean;

/// Format of the weights of the linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weights(pub WeightDtype);

/// Format of the KV cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvFormat(pub KvDtype);

fn unknown(text: &str, what: &str, names: &[&str]) -> String {
    format!(
        "`{text}` is not a format of {what}{} (allowed: {})",
        did_you_mean(text, names.iter().copied()),
        names.join(", ")
    )
}

impl FromStr for Weights {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = WeightDtype::ALL.map(WeightDtype::name);
        WeightDtype::from_name(text)
            .map(Self)
            .ok_or_else(|| unknown(text, "weights", &names))
    }
}

impl FromStr for KvFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = KvDtype::ALL.map(KvDtype::name);
        KvDtype::from_name(text)
            .map(Self)
            .ok_or_else(|| unknown(text, "the KV cache", &names))
    }
}

/// Reads a word and has it understood.
struct WordVisitor<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for WordVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a number format such as `bf16` or `fp8`")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! words {
    ($($name:ident),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
                reader.deserialize_any(WordVisitor(std::marker::PhantomData))
            }
        }
    )*};
}

words! { Weights, KvFormat }
