//! Number formats of a pool: as written, else those the model is published in.

use crate::hardware::GpuSpec;
use crate::latency::compose::Formats;
use crate::model::{KvDtype, ModelSpec, WeightDtype};
use crate::scenario::schema::{KvFormat, Pool, Scenario, System, Weights};

use super::Builder;
use super::pool::PoolContext;

/// The formats of a pool; a pool's key wins over its system's, which wins over the scenario's. Without any, weights are as
/// published and the KV cache has 16 bits, as engines load a checkpoint.
pub(in crate::scenario) fn formats(
    scenario: &Scenario,
    system: &System,
    pool: &Pool,
    model: &ModelSpec,
) -> Formats {
    let weights = pool
        .weight_dtype
        .or(system.weight_dtype)
        .or(scenario.weight_dtype);
    let kv = pool.kv_dtype.or(system.kv_dtype).or(scenario.kv_dtype);
    Formats {
        weights: weights.map_or(model.native_weights, |Weights(format)| format),
        kv: kv.map_or(KvDtype::Bf16, |KvFormat(format)| format),
    }
}

impl Builder<'_> {
    /// The formats of a pool, refused where the GPU or the model has no use for them.
    pub(super) fn formats(
        &mut self,
        context: &PoolContext<'_>,
        path: &str,
        pool: &Pool,
        gpu: &GpuSpec,
    ) -> Option<Formats> {
        let formats = formats(self.scenario, context.system, pool, context.model);
        let key = self.format_key(
            context,
            path,
            "weight_dtype",
            pool.weight_dtype.is_some(),
            context.system.weight_dtype.is_some(),
        );
        let native = context.model.native_weights;
        if let Err(error) = formats.check(gpu) {
            let why = if formats.weights == native && native != WeightDtype::Bf16 {
                format!(
                    " ({} is published in {})",
                    context.model.name,
                    native.name()
                )
            } else {
                String::new()
            };
            self.wrong(&key, format!("{error}{why}"));
            return None;
        }
        let useful = formats.weights != WeightDtype::Mxfp4 || context.model.moe.is_some();
        self.require(useful, &key, || {
            format!(
                "is mxfp4, which covers experts alone, and {} has none; write bf16, or a format of all linear layers",
                context.model.name
            )
        })
        .then_some(formats)
    }

    /// Where a format is written: the pool, its system or the scenario.
    fn format_key(
        &self,
        context: &PoolContext<'_>,
        pool_path: &str,
        key: &str,
        in_pool: bool,
        in_system: bool,
    ) -> String {
        if in_pool {
            format!("{pool_path}.{key}")
        } else if in_system {
            format!("{}.{key}", context.path)
        } else if self.document.get(key).is_some() {
            key.to_owned()
        } else {
            pool_path.to_owned()
        }
    }

    /// Blocks that travel must be readable where they arrive: no connector of an engine converts them.
    pub(super) fn same_kv_format(&mut self, path: &str, system: &System) {
        let (Some(prefill), Some(decode)) = (&system.prefill, &system.decode) else {
            return;
        };
        let common = system.kv_dtype.or(self.scenario.kv_dtype);
        let format = |pool: &Pool| {
            pool.kv_dtype
                .or(common)
                .map_or(KvDtype::Bf16, |KvFormat(format)| format)
        };
        let (a, b) = (format(prefill), format(decode));
        let owner = if decode.kv_dtype.is_some() {
            "decode"
        } else {
            "prefill"
        };
        self.require(a == b, &format!("{path}.{owner}.kv_dtype"), || {
            format!(
                "makes the prefill pool keep {} and the decode pool {}, but KV blocks travel as they are; write one `kv_dtype` for the system",
                a.name(),
                b.name()
            )
        });
    }
}
