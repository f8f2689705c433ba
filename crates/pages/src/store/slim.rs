//! Slim pages, without their uncoded content, when memory is short: three times as many fit, and the uncoded content
//! is hardly ever requested.

use std::sync::Arc;

use super::Pages;
use super::slots::Body;

/// Number of entries checked for one that can become slim, before one is evicted.
const LOOKED_AT: usize = 16;

/// Position of the cyclic search for pages that can become slim.
#[derive(Default)]
pub(super) struct Slimming {
    next: usize,
    /// Pages made slim, since the start.
    pub(super) slimmed: u64,
}

/// Whether most of a budget is used: three quarters.
pub(super) fn is_tight(bytes: usize, budget: usize) -> bool {
    bytes > budget / 4 * 3
}

impl<F: Clone> Pages<F> {
    pub(super) fn is_tight(&self) -> bool {
        is_tight(self.bytes(), self.budget)
    }

    /// Makes a page slim; false if there is none near the end of the last search.
    pub(super) fn slim_one(&mut self) -> bool {
        let entries = self.slots.len();
        for _ in 0..LOOKED_AT.min(entries) {
            self.slimming.next = (self.slimming.next + 1) % entries;
            if self.slim(self.slimming.next as u32) {
                return true;
            }
        }
        false
    }

    /// Makes this page slim, unless its uncoded content was requested lately. Returns whether it did.
    pub(super) fn slim(&mut self, at: u32) -> bool {
        let Body::Page(page) = &self.slots.get(at).body else { return false };
        if page.take_plain_is_wanted() {
            return false;
        }
        let Some(slim) = page.slim() else { return false };
        self.slots.get_mut(at).body = Body::Page(Arc::new(slim));
        self.weigh(at);
        self.slimming.slimmed += 1;
        true
    }
}
