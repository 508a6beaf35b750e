//! Random scenarios in which instances change roles.

use pdsim::cluster::{
    Band, DecodeLoad, DynamicRule, MixedPoolRule, PoolSpec, Preemption, Role, RoleRule,
};
use pdsim::units::SimDuration;

use crate::pick::Pick;
use crate::scenario::Scenario;

impl Scenario {
    /// The scenario of `seed` with prefill and decode pools and a rule that moves instances between them.
    pub(crate) fn moving(seed: u64) -> Self {
        let pick = &mut Pick::new(seed, "roles");
        let rule = if pick.chance(50) {
            mixed_pool(pick)
        } else {
            dynamic(pick)
        };
        Self::split(seed).under(rule)
    }

    /// The scenario of `seed`, with prefill and decode pools in any case.
    pub(crate) fn split(seed: u64) -> Self {
        let mut scenario = Self::one_stream(seed);
        let pick = &mut Pick::new(seed, "split");
        if let [pool] = &scenario.spec.pools[..] {
            let mut side = |name: &str, role| PoolSpec {
                name: name.to_owned(),
                role,
                instances: pick.small(1, 3),
                ..pool.clone()
            };
            scenario.spec.pools =
                vec![side("prefill", Role::Prefill), side("decode", Role::Decode)];
            scenario.spec.transfer.sharing = None;
        }
        scenario
    }

    /// The same under a rule that changes roles.
    pub(crate) fn under(mut self, rule: RoleRule) -> Self {
        if rule.places() {
            for pool in &mut self.spec.pools {
                if pool.kv.preemption == Preemption::ReturnToPrefill {
                    pool.kv.preemption = Preemption::Recompute;
                }
            }
        }
        self.spec.roles = rule;
        self
    }
}

fn mixed_pool(pick: &mut Pick) -> RoleRule {
    RoleRule::MixedPool(MixedPoolRule {
        prompt_tokens: pick.of(&[1, 10, 50, 200, 1000, 100_000]),
        kv_share: pick.of(&[0.3, 0.8, 1.0, 1.0]),
    })
}

fn dynamic(pick: &mut Pick) -> RoleRule {
    let mut band = |low: &[f64], more: &[f64]| {
        let low = pick.of(low);
        Band {
            low,
            high: low + pick.of(more),
        }
    };
    let prefill_queue = band(&[0.5, 10.0, 100.0], &[0.1, 5.0, 50.0]);
    let shares = band(&[0.05, 0.3, 0.6], &[0.0, 0.1, 0.3]);
    let sequences = band(&[0.5, 2.0, 5.0], &[0.1, 1.0, 3.0]);
    let by_share = pick.chance(50);
    let mut span = |most: u64| {
        let ps = pick.from(0, most * 1_000_000_000);
        if pick.chance(40) {
            SimDuration::ZERO
        } else if pick.chance(50) {
            // On the grid where step ends meet.
            SimDuration::from_ms(ps / 5_000_000_000 * 5)
        } else {
            SimDuration::from_ps(ps)
        }
    };
    RoleRule::Dynamic(DynamicRule {
        prefill_queue,
        decode_load: if by_share {
            DecodeLoad::KvShare
        } else {
            DecodeLoad::Sequences
        },
        decode: if by_share { shares } else { sequences },
        at_least: [1, 1],
        dwell: span(100),
        switch_time: span(60),
    })
}
