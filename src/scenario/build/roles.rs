//! Role rules: thresholds, floors, and what the pools that exchange instances must have in common.

use crate::cluster::{Band, DecodeLoad, DynamicRule, KvReserve, MixedPoolRule, PoolSpec, RoleRule};
use crate::scenario::schema::{self, Marks, Policy, Roles, System, Transfer};
use crate::units::SimDuration;

use super::Builder;

impl Builder<'_> {
    /// Whether and how the instances of a system change roles.
    pub(super) fn role_rule(&mut self, path: &str, system: &System) -> RoleRule {
        let key = format!("{path}.roles");
        let Some(roles) = &system.roles else {
            return RoleRule::Fixed;
        };
        match system.policy {
            Policy::MixedPool => {
                self.own_rule_only(path, system);
                self.mixed_pool(&key, roles)
            }
            Policy::Dynamic => self.dynamic(&key, roles, system),
            _ => {
                self.wrong(
                    &key,
                    "is for the policies `mixed_pool` and `dynamic` only; remove it",
                );
                RoleRule::Fixed
            }
        }
    }

    /// Keys that would be of no effect, as the policy chooses both instances of a request at its arrival.
    fn own_rule_only(&mut self, path: &str, system: &System) {
        let overlaps =
            |transfer: &Transfer| !matches!(transfer.overlap, None | Some(schema::Overlap::None));
        for (key, written) in [
            ("router", system.router.is_some()),
            ("reservation", system.reservation.is_some()),
            ("decode_choice", system.decode_choice.is_some()),
            ("skip_prefill", system.skip_prefill.is_some()),
            (
                "transfer.overlap",
                system.transfer.as_ref().is_some_and(overlaps),
            ),
        ] {
            self.require(!written, &format!("{path}.{key}"), || {
                "is of no effect: policy `mixed_pool` chooses both instances at arrival by its own rule and reserves decode blocks at \
                 hand-off; remove it"
                    .to_owned()
            });
        }
        let decode = system.decode.as_ref().and_then(|pool| pool.preemption);
        let returns = decode.or(system.preemption) == Some(schema::Preemption::ReturnToPrefill);
        let key = self.written(&[
            format!("{path}.decode.preemption"),
            format!("{path}.preemption"),
        ]);
        self.require(!returns, &key, || {
            "is `return_to_prefill`, but with policy `mixed_pool` any instance may compute prompts; write `recompute` or `swap`"
                .to_owned()
        });
    }

    fn mixed_pool(&mut self, key: &str, roles: &Roles) -> RoleRule {
        for (name, written) in [
            ("prefill_queue", roles.prefill_queue.is_some()),
            ("decode_kv", roles.decode_kv.is_some()),
            ("decode_sequences", roles.decode_sequences.is_some()),
            ("at_least", roles.at_least.is_some()),
            ("dwell", roles.dwell.is_some()),
            ("switch_time", roles.switch_time.is_some()),
        ] {
            self.require(!written, &format!("{key}.{name}"), || {
                "is a key of policy `dynamic`; policy `mixed_pool` knows `prompt_tokens` and `kv_share`".to_owned()
            });
        }
        let rule = MixedPoolRule {
            prompt_tokens: roles
                .prompt_tokens
                .unwrap_or(MixedPoolRule::SPLITWISE.prompt_tokens),
            kv_share: roles.kv_share.unwrap_or(MixedPoolRule::SPLITWISE.kv_share),
        };
        self.require(
            rule.prompt_tokens > 0,
            &format!("{key}.prompt_tokens"),
            || {
                "is 0, so that no prompt could ever wait; expected a number of tokens such as 8192"
                    .to_owned()
            },
        );
        let share = rule.kv_share;
        self.require(
            share > 0.0 && share <= 1.0,
            &format!("{key}.kv_share"),
            || format!("is {share}, expected a share above 0 and at most 1, such as 0.9"),
        );
        RoleRule::MixedPool(rule)
    }

    fn dynamic(&mut self, key: &str, roles: &Roles, system: &System) -> RoleRule {
        for (name, written) in [
            ("prompt_tokens", roles.prompt_tokens.is_some()),
            ("kv_share", roles.kv_share.is_some()),
        ] {
            self.require(!written, &format!("{key}.{name}"), || {
                "is a key of policy `mixed_pool`; policy `dynamic` knows `prefill_queue`, `decode_kv`, `decode_sequences`, `at_least`, \
                 `dwell` and `switch_time`"
                    .to_owned()
            });
        }
        let both = roles.decode_kv.is_some() && roles.decode_sequences.is_some();
        self.require(!both, &format!("{key}.decode_sequences"), || {
            "stands beside `decode_kv`; decode pressure is measured by one of them".to_owned()
        });
        let prefill_queue = self.band(&format!("{key}.prefill_queue"), roles.prefill_queue);
        let (decode_load, decode) = match roles.decode_sequences {
            Some(_) => (
                DecodeLoad::Sequences,
                ("decode_sequences", roles.decode_sequences),
            ),
            None => (DecodeLoad::KvShare, ("decode_kv", roles.decode_kv)),
        };
        let decode_key = format!("{key}.{}", decode.0);
        let decode = self.band(&decode_key, decode.1);
        let possible = decode_load == DecodeLoad::Sequences || decode.high < 1.0;
        self.require(possible, &format!("{decode_key}.high"), || {
            format!(
                "is {}, which no share of KV blocks exceeds; expected a share below 1, such as 0.9",
                decode.high
            )
        });
        RoleRule::Dynamic(DynamicRule {
            prefill_queue,
            decode_load,
            decode,
            at_least: self.floors(key, roles, system),
            dwell: roles.dwell.map_or(SimDuration::ZERO, |span| span.0),
            switch_time: roles.switch_time.map_or(SimDuration::ZERO, |span| span.0),
        })
    }

    fn band(&mut self, key: &str, marks: Option<Marks>) -> Band {
        let mark = |of: fn(Marks) -> Option<f64>| marks.and_then(of).unwrap_or(0.0);
        let (low, high) = (mark(|m| m.low), mark(|m| m.high));
        self.require(low > 0.0 && low < high, key, || {
            format!(
                "has low {low} and high {high}: below the low mark a side has room to spare, above the high one it is under pressure; \
                 expected 0 < low < high"
            )
        });
        Band { low, high }
    }

    fn floors(&mut self, key: &str, roles: &Roles, system: &System) -> [u32; 2] {
        let (prefill, decode) = roles
            .at_least
            .map_or((None, None), |floor| (floor.prefill, floor.decode));
        let floors = [prefill.unwrap_or(1), decode.unwrap_or(1)];
        let pools =
            [&system.prefill, &system.decode].map(|pool| pool.as_ref().map(|p| p.instances));
        let mut stuck = true;
        for ((name, floor), pool) in ["prefill", "decode"].into_iter().zip(floors).zip(pools) {
            let key = format!("{key}.at_least.{name}");
            self.require(floor > 0, &key, || {
                "is 0: a switch could leave the pool empty, and its requests without a place to go; expected at least 1".to_owned()
            });
            let Some(instances) = pool else {
                return floors;
            };
            // No floor suits an empty pool, which is told with its instances.
            if instances == 0 {
                stuck = false;
                continue;
            }
            self.require(floor <= instances, &key, || {
                format!("is {floor}, but pool `{name}` starts with {instances} instances; lower it or start with more")
            });
            stuck &= floor >= instances;
        }
        self.require(!stuck, &format!("{key}.at_least"), || {
            "lets no instance ever switch: both pools start at their floors; lower one, add an instance, or write `policy: disaggregated`"
                .to_owned()
        });
        floors
    }

    /// Where a key is written that may stand in several places: the first of them that is overridden, else the first that has it.
    fn written(&self, places: &[String]) -> String {
        let there = |path: &&String| self.document.get(path).is_some();
        let overridden = |path: &&String| self.document.is_overridden(path);
        let found = places.iter().filter(there).find(overridden);
        let found = found.or_else(|| places.iter().find(there));
        found.or(places.first()).cloned().unwrap_or_default()
    }

    /// What pools that exchange instances must have in common: a KV cache must be readable wherever it goes.
    pub(super) fn check_exchange(&mut self, path: &str, rule: &RoleRule, pools: &[PoolSpec]) {
        let ([prefill, decode], true) = (pools, rule.moves()) else {
            return;
        };
        let differ = [
            ("tp", prefill.tp, decode.tp),
            ("pp", prefill.pp, decode.pp),
            ("dp", prefill.dp, decode.dp),
            (
                "block_tokens",
                prefill.kv.block_tokens,
                decode.kv.block_tokens,
            ),
        ];
        for (key, a, b) in differ {
            // The one that was changed from outside is more likely to be the slip.
            let pools = ["decode", "prefill"].map(|pool| format!("{path}.{pool}.{key}"));
            let at = self.written(&pools);
            let (here, other, there) = if at == pools[0] {
                (b, "prefill", a)
            } else {
                (a, "decode", b)
            };
            self.require(a == b, &at, || {
                format!(
                    "is {here}, but {there} in pool `{other}`: instances of the two change sides, so their KV caches must be laid out alike; \
                     write the same `{key}` for both"
                )
            });
        }
        let late = |pool: &&PoolSpec| pool.kv.reserve == KvReserve::OracleAtDecode;
        if let Some(pool) = pools.iter().find(late) {
            let key = self.written(&[
                format!("{path}.{}.kv_reserve", pool.name),
                format!("{path}.kv_reserve"),
            ]);
            self.wrong(
                &key,
                "is `oracle_at_decode`, but where roles change a prompt must have the blocks to stay; write `oracle`",
            );
        }
        let unlimited = pools.iter().any(|pool| pool.kv.blocks.is_none());
        match rule {
            RoleRule::Dynamic(rule) if unlimited && rule.decode_load == DecodeLoad::KvShare => {
                self.wrong(
                    &format!("{path}.roles.decode_kv"),
                    "watches a share of KV blocks that are unlimited; write `decode_sequences: {low: 32, high: 128}` instead, or limit `kv_blocks`",
                );
            }
            RoleRule::MixedPool(_) if unlimited => self.notes.push(format!(
                "{path}: KV memory is unlimited, so that the token side never lacks room and only prompts fill the mixed pool"
            )),
            _ => {}
        }
    }
}
