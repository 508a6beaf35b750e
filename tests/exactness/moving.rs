//! The same where instances change roles.

use pdsim::cluster::{Role, RoleRule};
use pdsim::units::SimTime;

use crate::facts::Facts;
use crate::scenario::Scenario;
use crate::shrink::holds;

#[test]
fn roles_change_at_the_same_instants_in_both_modes() {
    let (mut pulled, mut switched) = (0, 0);
    for seed in 20_000_000..20_001_200 {
        let scenario = Scenario::moving(seed);
        holds(&scenario, |scenario| {
            let stepping = Facts::of(scenario, false, None);
            Facts::of(scenario, true, None).difference(&stepping)
        });
        let roles = Facts::of(&scenario, true, None).roles;
        let took =
            |wanted: fn(&Option<Role>) -> bool| roles.iter().filter(|r| wanted(&r.2)).count();
        match scenario.spec.roles {
            RoleRule::MixedPool(_) => pulled += took(|role| *role == Some(Role::Both)),
            _ => switched += took(Option::is_some),
        }
    }
    assert!(
        pulled > 1000 && switched > 500,
        "put to the test: {pulled} joined a mixed pool, {switched} switched"
    );
}

#[test]
fn a_horizon_cuts_moving_systems_alike() {
    for seed in 20_100_000..20_100_300 {
        let scenario = Scenario::moving(seed);
        let end = Facts::of(&scenario, true, None).end.unwrap().unwrap();
        for eighths in [1, 3, 6] {
            let horizon = SimTime::from_ps(end.as_ps() / 8 * eighths);
            holds(&scenario, |scenario| {
                let stepping = Facts::of(scenario, false, Some(horizon));
                Facts::of(scenario, true, Some(horizon)).difference(&stepping)
            });
        }
    }
}

#[test]
fn moving_systems_with_prefix_caches_agree() {
    for seed in 20_200_000..20_200_300 {
        let scenario = Scenario::moving(seed).with_prefixes(seed);
        holds(&scenario, |scenario| {
            let stepping = Facts::of(scenario, false, None);
            Facts::of(scenario, true, None).difference(&stepping)
        });
    }
}

#[test]
fn moving_systems_never_stall() {
    for seed in 20_300_000..20_303_000 {
        let scenario = Scenario::moving(seed);
        let facts = Facts::of(&scenario, true, None);
        assert!(
            matches!(facts.end, Some(Ok(_))),
            "seed {seed}: {:?}",
            facts.end
        );
        assert_eq!(facts.records.len(), scenario.requests.len());
    }
}
