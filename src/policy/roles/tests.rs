//! What the rules decide on small clusters.

use super::{
    Band, DecodeLoad, DynamicRule, InstanceLoad, MixedPoolRule, PlacedRequest, Placement, Role,
    RoleChanger, RoleRule, RolesView,
};
use crate::units::{SimDuration, SimTime};

/// Instances by hand, each with its KV blocks committed, of 100.
struct Instances(Vec<(InstanceLoad, u64)>);

impl RolesView for Instances {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn load(&self, i: usize) -> InstanceLoad {
        self.0[i].0
    }
    fn kv_committed(&self, i: usize) -> u64 {
        self.0[i].1
    }
    fn kv_capacity(&self, _: usize) -> Option<u64> {
        Some(100)
    }
}

impl Instances {
    fn idle(roles: &[Role]) -> Self {
        let load = |&role| InstanceLoad {
            role,
            moving: false,
            since: SimTime::ZERO,
            waiting: 0,
            prompt_tokens: 0,
            requests: 0,
            decodes: 0,
        };
        Self(roles.iter().map(|role| (load(role), 0)).collect())
    }

    /// Prompts of so many tokens wait on the `i`-th.
    fn queue(mut self, i: usize, tokens: u64) -> Self {
        let load = &mut self.0[i].0;
        (load.waiting, load.prompt_tokens) = (1, tokens);
        self
    }

    /// So many sequences with so many blocks are on the `i`-th.
    fn decodes(mut self, i: usize, sequences: u64, blocks: u64) -> Self {
        let (load, committed) = &mut self.0[i];
        (load.decodes, load.requests, *committed) = (sequences, sequences, blocks);
        self
    }
}

/// A prompt of 50 tokens that takes 10 blocks.
struct Request;

impl PlacedRequest for Request {
    fn input_tokens(&self) -> u32 {
        50
    }
    fn kv_blocks(&self, _: usize) -> u64 {
        10
    }
}

const SPLIT: [Role; 4] = [Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];

fn mixed() -> Box<dyn RoleChanger> {
    let rule = MixedPoolRule {
        prompt_tokens: 100,
        kv_share: 0.9,
    };
    RoleRule::MixedPool(rule).build(&SPLIT).unwrap()
}

fn place(rule: &mut dyn RoleChanger, view: &Instances) -> (usize, usize, Vec<(usize, Role)>) {
    let mut moves = Vec::new();
    let Placement { prefill, decode } = rule.place(&Request, view, &mut moves).unwrap();
    (prefill, decode, moves)
}

#[test]
fn each_side_takes_what_it_has_room_for() {
    let view = Instances::idle(&SPLIT).queue(0, 60).decodes(2, 3, 80);
    assert_eq!(place(&mut *mixed(), &view), (1, 3, vec![]));
    // At the limit, not above it.
    let view = Instances::idle(&SPLIT).queue(0, 50).queue(1, 60);
    assert_eq!(place(&mut *mixed(), &view), (0, 2, vec![]));
}

#[test]
fn a_long_prompt_does_not_pull_anybody_while_nothing_waits() {
    let mut view = Instances::idle(&SPLIT);
    for i in [0, 1] {
        // In progress, none waiting.
        view.0[i].0.prompt_tokens = 5000;
    }
    assert_eq!(place(&mut *mixed(), &view).2, vec![]);
}

#[test]
fn a_prompt_without_room_pulls_the_token_instance_with_the_least_pending_tokens() {
    let view = Instances::idle(&SPLIT).queue(0, 60).queue(1, 70);
    let view = view.decodes(2, 9, 20).decodes(3, 4, 30);
    let mut rule = mixed();
    assert_eq!(place(&mut *rule, &view), (3, 2, vec![(3, Role::Both)]));
    // It stays in the mixed pool and takes the next prompt without being pulled again.
    assert_eq!(place(&mut *rule, &view), (3, 2, vec![]));
    assert_eq!(rule.emptied(3), Role::Decode);
    // Back at the end of its pool: ties go to the other now.
    assert_eq!(place(&mut *rule, &Instances::idle(&SPLIT)).1, 2);
}

#[test]
fn a_request_without_memory_pulls_the_prompt_instance_with_the_least_committed() {
    let view = Instances::idle(&SPLIT).decodes(2, 9, 85).decodes(3, 9, 81);
    let view = view.decodes(0, 1, 30).queue(1, 10);
    let mut rule = mixed();
    assert_eq!(place(&mut *rule, &view), (0, 1, vec![(1, Role::Both)]));
    // The mixed one is asked next, and computes prompts as well once the prompt pool is full.
    let view = view.queue(0, 200);
    assert_eq!(place(&mut *rule, &view), (1, 1, vec![]));
}

#[test]
fn without_room_anywhere_one_instance_does_both() {
    let mut view = Instances::idle(&SPLIT);
    for i in 0..4 {
        view = view.queue(i, 300 - i as u64).decodes(i, 1, 95);
    }
    let mut rule = mixed();
    // Both sides pull first: a token instance for prompts, a prompt instance for tokens.
    assert_eq!(place(&mut *rule, &view).2.len(), 2);
    assert_eq!(place(&mut *rule, &view).2.len(), 2);
    // Now all are mixed.
    assert_eq!(place(&mut *rule, &view), (3, 3, vec![]));
}

fn dynamic(at_least: [u32; 2]) -> Box<dyn RoleChanger> {
    let rule = DynamicRule {
        prefill_queue: Band {
            low: 100.0,
            high: 1000.0,
        },
        decode_load: DecodeLoad::KvShare,
        decode: Band {
            low: 0.5,
            high: 0.9,
        },
        at_least,
        dwell: SimDuration::from_ms(10),
        switch_time: SimDuration::ZERO,
    };
    RoleRule::Dynamic(rule).build(&SPLIT).unwrap()
}

const LATER: SimTime = SimTime::from_ps(50_000_000_000);

#[test]
fn a_long_prefill_queue_takes_the_decode_instance_with_the_least_to_end() {
    let view = Instances::idle(&SPLIT).queue(0, 2500).decodes(2, 5, 40);
    let view = view.decodes(3, 3, 50);
    assert_eq!(
        dynamic([1, 1]).switch(LATER, &view),
        Some((3, Role::Prefill))
    );
    // The queue counts per instance.
    let view = Instances::idle(&SPLIT).queue(0, 1900);
    assert_eq!(dynamic([1, 1]).switch(LATER, &view), None);
}

#[test]
fn full_decode_instances_take_the_prefill_instance_with_the_least_to_compute() {
    let view = Instances::idle(&SPLIT).queue(0, 40);
    let view = view.decodes(2, 5, 95).decodes(3, 5, 90);
    assert_eq!(
        dynamic([1, 1]).switch(LATER, &view),
        Some((1, Role::Decode))
    );
}

#[test]
fn nobody_switches_when_both_sides_are_under_pressure_or_between_the_marks() {
    let both = Instances::idle(&SPLIT).queue(0, 9000);
    let both = both.decodes(2, 5, 95).decodes(3, 5, 95);
    assert_eq!(dynamic([1, 1]).switch(LATER, &both), None);
    let between = Instances::idle(&SPLIT).queue(0, 1500);
    let between = between.decodes(2, 5, 70).decodes(3, 5, 70);
    assert_eq!(dynamic([1, 1]).switch(LATER, &between), None);
}

#[test]
fn a_floor_and_the_dwell_time_hold_instances_back() {
    let view = || Instances::idle(&SPLIT).queue(0, 9000);
    assert_eq!(dynamic([1, 2]).switch(LATER, &view()), None);
    let early = SimTime::from_ps(9_999_999_999);
    assert_eq!(dynamic([1, 1]).switch(early, &view()), None);
    let mut newcomer = view();
    newcomer.0[2].0.since = LATER;
    assert_eq!(
        dynamic([1, 1]).switch(LATER, &newcomer),
        Some((3, Role::Prefill)),
        "the one that has dwelt goes"
    );
}

#[test]
fn a_switch_that_would_leave_a_pool_empty_is_refused_whatever_the_floor() {
    let mut view = Instances::idle(&[Role::Prefill, Role::Decode]).queue(0, 9000);
    assert_eq!(dynamic([0, 0]).switch(LATER, &view), None);
    // Instances on their way to another role do not count.
    view = Instances::idle(&SPLIT).queue(0, 9000);
    view.0[3].0.moving = true;
    assert_eq!(dynamic([1, 1]).switch(LATER, &view), None);
}
