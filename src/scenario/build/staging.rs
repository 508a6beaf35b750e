//! The way of KV caches through host memory.

use crate::cluster::Staging;
use crate::scenario::schema::{Copying, HostRate, Pool, System, Transfer, WordOr};

use super::Builder;
use super::pool::gpus_of_a_rank;
use super::transfer::gpu;

/// How transfers are staged, with the rates of a prefill instance's copies out and of a decode instance's copies in.
pub(super) enum Staged {
    /// Not at all.
    No,
    /// All pieces at the same time: the slowest part of the way decides.
    Pipelined { out: f64, into: f64 },
    /// Copy, transfer and copy one after the other.
    Whole { out: f64, into: f64 },
}

impl Staged {
    /// Rates that every transfer passes beside the link's.
    pub(super) const fn ports(&self) -> Option<(f64, f64)> {
        match *self {
            Self::Pipelined { out, into } => Some((out, into)),
            Self::No | Self::Whole { .. } => None,
        }
    }

    /// Copies that are made before and after a transfer.
    pub(super) const fn whole(&self) -> Option<Staging> {
        match *self {
            Self::Whole { out, into } => Some(Staging {
                out_bytes_per_sec: out,
                into_bytes_per_sec: into,
            }),
            Self::No | Self::Pipelined { .. } => None,
        }
    }
}

impl Builder<'_> {
    /// How the transfers of a system are staged.
    pub(super) fn staging(
        &mut self,
        key: &str,
        transfer: &Transfer,
        system: &System,
    ) -> Option<Staged> {
        let key = format!("{key}.staging");
        let (rate, copy) = match &transfer.staging {
            None => return Some(Staged::No),
            Some(WordOr::Word(word)) if word == "none" => return Some(Staged::No),
            Some(WordOr::Word(word)) if word == "pcie" => (HostRate::Pcie, None),
            Some(WordOr::Word(word)) => {
                self.wrong(&key, format!("is `{word}`, expected `none`, `pcie` or a map such as `{{bandwidth: 25 GB/s, copy: whole}}`"));
                return None;
            }
            Some(WordOr::Map(keys)) => {
                let Some(rate) = keys.bandwidth else {
                    self.wrong(&key, "the key `bandwidth` is missing; write how fast an instance copies to and from host memory, as in `bandwidth: 25 GB/s`, or `bandwidth: pcie`");
                    return None;
                };
                (rate, keys.copy)
            }
        };
        if let HostRate::At(rate) = rate {
            self.require(rate.0 > 0.0, &format!("{key}.bandwidth"), || {
                "is zero, so that nothing would ever arrive; write a bandwidth such as `25 GB/s`, or `pcie`"
                    .to_owned()
            });
        }
        let of = |pool: &Pool| match rate {
            HostRate::At(rate) => Some(rate.0),
            HostRate::Pcie => Some(gpu(pool)?.pcie_bandwidth * f64::from(gpus_of_a_rank(pool))),
        };
        let (out, into) = (of(system.prefill.as_ref()?)?, of(system.decode.as_ref()?)?);
        Some(match copy {
            Some(Copying::Whole) => Staged::Whole { out, into },
            Some(Copying::Pipelined) | None => Staged::Pipelined { out, into },
        })
    }
}
