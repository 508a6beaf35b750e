//! Splitwise's cluster-level scheduling (Patel et al., ISCA 2024, arXiv 2311.18677, section IV-A): a prompt pool, a token pool, and
//! a mixed pool that takes instances of either while their side has no room.
//!
//! Both instances of a request are chosen at its arrival:
//!
//! 1. its prompt goes to the prompt instance with the least pending tokens, unless that has prompts waiting and would be above the
//!    limit with this one; then to a mixed instance by the same test;
//! 2. its tokens go to the token instance with the least KV memory committed, unless the request does not fit beside that; then
//!    to a mixed instance by the same test;
//! 3. no room for the prompt: the token instance with the least pending tokens joins the mixed pool and takes it;
//! 4. no room for the tokens: the prompt instance with the least memory committed joins the mixed pool and takes them;
//! 5. still none: the instance with the least pending tokens of all does both.
//!
//! A mixed instance with nothing left goes back to the end of its own pool.

use super::{PlacedRequest, Placement, Role, RoleChanger, RolesView};

/// When a side has no room.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MixedPoolRule {
    /// Most pending tokens of an instance on which prompts wait: those of its prompts, plus one for each of its decodes.
    pub prompt_tokens: u64,
    /// Share of an instance's KV blocks that may be committed to decodes, at most 1.
    pub kv_share: f64,
}

impl MixedPoolRule {
    /// The authors' values: 8192 pending prompt tokens, all memory.
    pub const SPLITWISE: Self = Self {
        prompt_tokens: 8192,
        kv_share: 1.0,
    };
}

/// The pools, in the order in which ties are broken.
#[derive(Debug)]
pub(super) struct MixedPool {
    rule: MixedPoolRule,
    homes: Vec<Role>,
    prompt: Vec<usize>,
    token: Vec<usize>,
    mixed: Vec<usize>,
}

impl MixedPool {
    pub(super) fn new(rule: MixedPoolRule, homes: &[Role]) -> Self {
        let of = |wanted: Role| (0..homes.len()).filter(|&i| homes[i] == wanted).collect();
        Self {
            rule,
            homes: homes.to_vec(),
            prompt: of(Role::Prefill),
            token: of(Role::Decode),
            mixed: of(Role::Both),
        }
    }

    /// The instance of `pool` for a prompt, if it has room.
    fn for_prompt(&self, pool: &[usize], tokens: u32, view: &dyn RolesView) -> Option<usize> {
        let best = least(pool, |i| pending(view, i))?;
        let waits = view.load(best).waiting > 0;
        let full = pending(view, best) + u64::from(tokens) > self.rule.prompt_tokens;
        (!(waits && full)).then_some(best)
    }

    /// The instance of `pool` for the output tokens, if it has room.
    fn for_tokens(
        &self,
        pool: &[usize],
        request: &dyn PlacedRequest,
        view: &dyn RolesView,
    ) -> Option<usize> {
        let best = least(pool, |i| view.kv_committed(i))?;
        let Some(capacity) = view.kv_capacity(best) else {
            return Some(best);
        };
        let wanted = view.kv_committed(best) + request.kv_blocks(best);
        // An instance without anything takes whatever fits it.
        let fits = wanted as f64 <= capacity as f64 * self.rule.kv_share;
        (fits || view.kv_committed(best) == 0).then_some(best)
    }
}

impl RoleChanger for MixedPool {
    fn place(
        &mut self,
        request: &dyn PlacedRequest,
        view: &dyn RolesView,
        moves: &mut Vec<(usize, Role)>,
    ) -> Option<Placement> {
        let tokens = request.input_tokens();
        let mut prefill = self
            .for_prompt(&self.prompt, tokens, view)
            .or_else(|| self.for_prompt(&self.mixed, tokens, view));
        let mut decode = self
            .for_tokens(&self.token, request, view)
            .or_else(|| self.for_tokens(&self.mixed, request, view));
        let mut pull = |from: &mut Vec<usize>, mixed: &mut Vec<usize>, i: usize| {
            from.retain(|&other| other != i);
            mixed.push(i);
            moves.push((i, Role::Both));
            i
        };
        if prefill.is_none() {
            prefill = least(&self.token, |i| pending(view, i))
                .map(|i| pull(&mut self.token, &mut self.mixed, i));
        }
        if decode.is_none() {
            decode = least(&self.prompt, |i| view.kv_committed(i))
                .map(|i| pull(&mut self.prompt, &mut self.mixed, i));
        }
        if let (Some(prefill), Some(decode)) = (prefill, decode) {
            return Some(Placement { prefill, decode });
        }
        let all = [&self.prompt[..], &self.mixed, &self.token].concat();
        let one = least(&all, |i| pending(view, i))?;
        Some(Placement {
            prefill: one,
            decode: one,
        })
    }

    fn emptied(&mut self, i: usize) -> Role {
        self.mixed.retain(|&other| other != i);
        let home = self.homes[i];
        match home {
            Role::Prefill => self.prompt.push(i),
            Role::Decode => self.token.push(i),
            Role::Both => self.mixed.push(i),
        }
        home
    }
}

/// Tokens of prompts not computed, plus one for each sequence.
fn pending(view: &dyn RolesView, i: usize) -> u64 {
    let load = view.load(i);
    load.prompt_tokens + load.decodes
}

/// The member of `pool` with the smallest load; the first among equals.
fn least(pool: &[usize], load: impl Fn(usize) -> u64) -> Option<usize> {
    pool.iter().copied().min_by_key(|&i| load(i))
}
