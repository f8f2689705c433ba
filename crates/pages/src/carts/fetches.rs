//! On which pages visitors' browsers fetch the cart. Some themes print what is in the cart, and a script in the browser replaces that with
//! the cart it gets from WooCommerce's Store API. The script comes in files, and how a page starts it differs from version to version. So it is
//! observed: PHP has made a page for a visitor with a cart, and a moment later the same visitor's browser requests the cart, and says that
//! this page does (`Referer`).

use std::collections::{HashMap, VecDeque};

use crate::visitors::Print;
use crate::{Millis, Tag};

/// A browser fetches the cart as soon as the page's scripts run; on a slow phone that takes a while.
const PATIENCE: Millis = 60_000;

/// Of so many pages of a kind it is remembered whether the cart was fetched.
const REMEMBERED: u32 = 8;

/// So many of them must have done so, and more than half: some visitors leave before the page's scripts have run.
const ENOUGH: u32 = 3;

/// Maximum number of pages that are waited for; the oldest ones are forgotten.
const MOST_AWAITED: usize = 1024;

/// Maximum number of kinds. With more, the table starts again.
const MOST_KINDS: usize = 4096;

/// What was observed.
#[derive(Debug, Default)]
pub struct Fetches {
    awaited: VecDeque<AwaitedFetch>,
    /// For each kind of page the last outcomes, a bit each, and their number.
    kinds: HashMap<Tag, (u8, u32)>,
}

/// PHP has made a page for a visitor, whose browser may fetch the cart now.
#[derive(Debug)]
struct AwaitedFetch {
    visitor: Print,
    /// A hash of its URL.
    url: u64,
    kind: Tag,
    until: Millis,
}

impl Fetches {
    /// PHP has made a page of this kind for a visitor.
    pub fn expect(&mut self, visitor: Print, url: u64, kind: Tag, now: Millis) {
        self.forget(now);
        if self.awaited.len() >= MOST_AWAITED {
            self.awaited.pop_front();
        }
        self.awaited.push_back(AwaitedFetch { visitor, url, kind, until: now + PATIENCE });
    }

    /// A browser with one of these cookies has fetched the cart for the page with this URL.
    pub fn fetched(&mut self, visitor: impl Fn(Print) -> bool, url: u64, now: Millis) {
        self.forget(now);
        let is_it = |awaited: &AwaitedFetch| awaited.url == url && visitor(awaited.visitor);
        if let Some(found) = self.awaited.iter().position(is_it).and_then(|at| self.awaited.remove(at)) {
            self.note(found.kind, true);
        }
    }

    /// Whether browsers fetch the cart on pages of this kind.
    pub fn are_seen(&self, kind: Tag) -> bool {
        self.kinds.get(&kind).is_some_and(|(outcomes, number)| {
            outcomes.count_ones() >= ENOUGH && 2 * outcomes.count_ones() > *number
        })
    }

    /// Those that have not come in time.
    fn forget(&mut self, now: Millis) {
        while let Some(kind) =
            self.awaited.front().filter(|awaited| awaited.until < now).map(|awaited| awaited.kind)
        {
            self.awaited.pop_front();
            self.note(kind, false);
        }
    }

    fn note(&mut self, kind: Tag, has_come: bool) {
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&kind) {
            self.kinds.clear();
        }
        let (outcomes, number) = self.kinds.entry(kind).or_default();
        *outcomes = *outcomes << 1 | u8::from(has_come);
        *number = (*number + 1).min(REMEMBERED);
    }

    #[cfg(test)]
    pub(super) fn see(&mut self, kind: Tag) {
        (0..ENOUGH).for_each(|_| self.note(kind, true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visitors::PrintKey;

    const KIND: Tag = Tag(7);

    #[test]
    fn the_visitors_own_browser_for_that_page_and_soon() {
        let key = PrintKey::default();
        let [one, other] = [b"1", b"2"].map(|value| key.print(b"session", value));
        let mut fetches = Fetches::default();
        for (visitor, url, at) in [(other, 1, 0), (one, 2, 0), (one, 1, PATIENCE + 1)] {
            for _ in 0..REMEMBERED {
                fetches.expect(one, 1, KIND, 0);
                fetches.fetched(|print| print == visitor, url, at);
            }
            assert!(!fetches.are_seen(KIND));
            fetches.forget(2 * PATIENCE);
        }
        for n in 0..REMEMBERED {
            assert_eq!(fetches.are_seen(KIND), n > REMEMBERED / 2, "{n}");
            fetches.expect(one, 1, KIND, 0);
            fetches.fetched(|print| print == one, 1, PATIENCE);
            fetches.fetched(|print| print == one, 1, PATIENCE);
        }
        assert!(fetches.are_seen(KIND) && !fetches.are_seen(Tag(8)));
        // Some visitors leave at once; if all do, nothing fetches it any more.
        for n in 0..REMEMBERED {
            assert_eq!(fetches.are_seen(KIND), n < REMEMBERED / 2, "{n}");
            fetches.note(KIND, false);
        }
    }

    #[test]
    fn it_is_bounded() {
        let (key, mut fetches) = (PrintKey::default(), Fetches::default());
        (0..3 * MOST_AWAITED as u64).for_each(|n| fetches.expect(key.print(b"a", b"b"), n, Tag(n), 0));
        assert_eq!(fetches.awaited.len(), MOST_AWAITED);
        fetches.forget(Millis::MAX);
        (0..2 * MOST_KINDS as u64).for_each(|n| fetches.note(Tag(n), true));
        assert!(fetches.kinds.len() <= MOST_KINDS);
    }
}
