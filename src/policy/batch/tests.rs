//! What the batch policies pick from small queues.

use super::{BatchRule, InstanceView, Pick, PromptQueue, PromptView, StepLimits, StepPlan};

struct Queue(Vec<PromptView>);

impl PromptQueue for Queue {
    fn get(&self, i: usize) -> Option<PromptView> {
        self.0.get(i).copied()
    }
}

/// An instance with room for everything but what a test takes away.
struct Case {
    /// Tokens and blocks of each waiting prompt.
    waiting: Vec<(u32, u64)>,
    partial: Vec<u32>,
    decodes: u32,
    decode_blocks: u64,
    free_blocks: u64,
    watermark_blocks: u64,
    max_step_tokens: u32,
    max_step_prompts: u32,
}

impl Case {
    fn new(waiting: &[(u32, u64)]) -> Self {
        Self {
            waiting: waiting.to_vec(),
            partial: Vec::new(),
            decodes: 0,
            decode_blocks: 0,
            free_blocks: 1000,
            watermark_blocks: 0,
            max_step_tokens: 100,
            max_step_prompts: 10,
        }
    }

    fn plan(&self, rule: BatchRule) -> StepPlan {
        let view = |length, blocks| PromptView {
            length,
            remaining: length,
            blocks,
        };
        let waiting = Queue(self.waiting.iter().map(|&(t, b)| view(t, b)).collect());
        let partial = Queue(self.partial.iter().map(|&t| view(t, 0)).collect());
        let mut plan = StepPlan::default();
        rule.build().plan(
            &InstanceView {
                waiting: &waiting,
                partial: &partial,
                decodes: self.decodes,
                decode_blocks: self.decode_blocks,
                free_blocks: self.free_blocks,
                watermark_blocks: self.watermark_blocks,
                seqs: self.decodes,
                limits: StepLimits {
                    max_step_tokens: self.max_step_tokens,
                    max_step_prompts: self.max_step_prompts,
                    max_seqs: 8,
                    max_decode_context: None,
                    long_prompts: None,
                },
            },
            &mut plan,
        );
        plan
    }

    /// Tokens of the waiting prompts picked.
    fn admitted(&self, rule: BatchRule) -> Vec<u32> {
        let picks = self.plan(rule).picks.into_iter();
        picks
            .filter_map(|pick| match pick {
                Pick::Waiting { tokens, .. } => Some(tokens),
                Pick::Partial { .. } => None,
            })
            .collect()
    }
}

const BOTH: [BatchRule; 2] = [BatchRule::PrefillFirst, BatchRule::DecodeFirst];

#[test]
fn nothing_overtakes_a_prompt_that_finds_no_blocks() {
    for rule in BOTH {
        let mut case = Case::new(&[(10, 1), (10, 8), (10, 1)]);
        case.free_blocks = 8;
        assert_eq!(case.admitted(rule), [10], "{rule:?}");
    }
}

#[test]
fn admissions_leave_the_watermark_free() {
    for rule in BOTH {
        let mut case = Case::new(&[(10, 4), (10, 4)]);
        (case.free_blocks, case.watermark_blocks) = (10, 3);
        assert_eq!(case.admitted(rule), [10], "{rule:?}");
    }
}

#[test]
fn seats_and_prompts_of_a_step_are_limited() {
    for rule in BOTH {
        let mut case = Case::new(&[(5, 1); 6]);
        case.max_step_prompts = 3;
        assert_eq!(case.admitted(rule).len(), 3, "{rule:?}");
        // Eight seats, six taken.
        case.decodes = 6;
        assert_eq!(case.admitted(rule).len(), 2, "{rule:?}");
    }
}

#[test]
fn prefill_first_takes_whole_prompts_and_a_longer_one_alone() {
    let rule = BatchRule::PrefillFirst;
    let mut case = Case::new(&[(60, 1), (50, 1), (10, 1)]);
    case.decodes = 3;
    let plan = case.plan(rule);
    assert_eq!(
        plan.picks,
        [Pick::Waiting {
            index: 0,
            tokens: 60
        }]
    );
    assert_eq!(plan.decodes, 0, "decodes stall behind prompts");
    case.waiting[0] = (300, 1);
    assert_eq!(case.admitted(rule), [300]);
    case.waiting.clear();
    assert_eq!(case.plan(rule).decodes, case.decodes);
}

#[test]
fn decode_first_fills_the_budget_with_chunks_partial_prompts_before_waiting_ones() {
    let mut case = Case::new(&[(70, 1), (70, 1)]);
    (case.decodes, case.partial) = (6, vec![30]);
    let plan = case.plan(BatchRule::DecodeFirst);
    assert_eq!(plan.decodes, case.decodes);
    let expected = [
        Pick::Partial {
            index: 0,
            tokens: 30,
        },
        Pick::Waiting {
            index: 0,
            tokens: 64,
        },
    ];
    assert_eq!(plan.picks, expected, "100 tokens, 6 of them decodes");
}

#[test]
fn decode_first_gives_decodes_their_blocks_before_it_admits() {
    let mut case = Case::new(&[(10, 3)]);
    (case.decodes, case.decode_blocks, case.free_blocks) = (4, 3, 5);
    assert!(case.admitted(BatchRule::DecodeFirst).is_empty());
    case.free_blocks = 6;
    assert_eq!(case.admitted(BatchRule::DecodeFirst), [10]);
    // Sequences are about to be preempted: not even a prompt without blocks is admitted.
    (case.waiting[0].1, case.free_blocks) = (0, 2);
    assert!(case.admitted(BatchRule::DecodeFirst).is_empty());
}

#[test]
fn shared_sm_starts_prompts_and_decodes_together_whole_or_in_chunks() {
    let mut case = Case::new(&[(60, 1), (50, 1)]);
    case.decodes = 3;
    let plan = case.plan(BatchRule::SharedSm { chunks: false });
    assert_eq!(plan.decodes, 3, "decodes do not stall");
    let waiting = |index, tokens| Pick::Waiting { index, tokens };
    assert_eq!(plan.picks, [waiting(0, 60)], "whole prompts");
    let plan = case.plan(BatchRule::SharedSm { chunks: true });
    assert_eq!(plan.decodes, 3);
    // Decodes take nothing of the budget: their step is another one.
    assert_eq!(plan.picks, [waiting(0, 60), waiting(1, 40)]);
    case.decodes = 0;
    assert_eq!(case.plan(BatchRule::SharedSm { chunks: true }).decodes, 0);
}

#[test]
fn shared_sm_gives_decodes_their_blocks_before_it_admits() {
    for chunks in [false, true] {
        let rule = BatchRule::SharedSm { chunks };
        let mut case = Case::new(&[(10, 3)]);
        (case.decodes, case.decode_blocks, case.free_blocks) = (4, 3, 5);
        assert!(case.admitted(rule).is_empty());
        case.free_blocks = 6;
        assert_eq!(case.admitted(rule), [10]);
        // Sequences are about to be preempted: not even a prompt without blocks is admitted.
        (case.waiting[0].1, case.free_blocks) = (0, 2);
        assert!(case.admitted(rule).is_empty());
    }
}

#[test]
fn mixed_lets_as_many_decodes_ride_as_the_prompts_leave_tokens_for() {
    let mut case = Case::new(&[(60, 1)]);
    case.decodes = 6;
    assert_eq!(case.plan(BatchRule::Mixed).decodes, 6);
    case.waiting = vec![(96, 1)];
    assert_eq!(case.plan(BatchRule::Mixed).decodes, 4, "100 tokens");
    case.waiting = vec![(300, 1)];
    assert_eq!(case.plan(BatchRule::Mixed).decodes, 0);
}
