//! The instance that served the session before: its prefix cache holds the conversation so far.

use std::collections::HashMap;

use super::{ClusterView, RequestView, Router, least};
use crate::ids::InstanceId;

/// Takes the instance that the last request of the same session went to. The first request of a session, those without a session, and those
/// whose instance has too many requests go where the fallback router sends them, and their session with them.
///
/// Remembers every session it has seen.
#[derive(Debug)]
pub(super) struct SessionAffinity {
    served: HashMap<u64, InstanceId>,
    fallback: Box<dyn Router>,
    /// How many requests the session's instance may have more than the one with the fewest; `None`: any number.
    most_above_least: Option<u32>,
}

impl SessionAffinity {
    pub(super) fn new(fallback: Box<dyn Router>, most_above_least: Option<u32>) -> Self {
        Self {
            served: HashMap::new(),
            fallback,
            most_above_least,
        }
    }

    /// Whether one more request may go to the `i`-th.
    fn bears(&self, i: usize, view: &dyn ClusterView) -> bool {
        self.most_above_least.is_none_or(|most| {
            let fewest = view.requests(least(view.len(), |i| view.requests(i)));
            view.requests(i) - fewest <= u64::from(most)
        })
    }
}

impl Router for SessionAffinity {
    fn route(&mut self, request: &RequestView, view: &dyn ClusterView) -> usize {
        if request.session == 0 {
            return self.fallback.route(request, view);
        }
        let before = self.served.get(&request.session);
        let position = before.and_then(|&id| view.position(id));
        if let Some(i) = position.filter(|&i| self.bears(i, view)) {
            return i;
        }
        let chosen = self.fallback.route(request, view);
        self.served.insert(request.session, view.id(chosen));
        chosen
    }
}
