//! What the comparisons have shown, for each kind of page, and for pages that differ.
//!
//! A page that differs is that page's first: it goes to PHP, and the other pages of its kind have to agree anew before visitors with a
//! cart get them. When it repeats on [`DIFFERENT_PAGES`] pages, the whole kind differs.

use std::collections::HashMap;

use super::fetches::Fetches;
use super::public_pages::KnownNoise;
use crate::{Millis, Tag};

/// Number of comparisons without a difference after which a kind of page counts as proven; and a page that has differed.
pub const AGREED: u32 = 3;

/// How long a page or a kind of page goes to PHP after the first difference; doubled each further time.
pub const DOUBT: Millis = 3_600_000;

/// Longest such time.
const LONGEST_DOUBT: Millis = 24 * DOUBT;

/// So many different pages of a kind that differ at the same time are the kind's. One may be an accident of this page: something at random in its
/// content. Two may share one: a product is the "previous product" of one page, and has a link back on its own. Three don't.
pub const DIFFERENT_PAGES: usize = 3;

/// The public page is made again for each comparison that says nothing: after so many in a row, the page differs.
pub const MOST_UNSURE: u32 = 3;

/// Maximum number of kinds. With more, the table starts again.
const MOST_KINDS: usize = 4096;

/// Maximum number of pages of a kind that are known to differ, or are looked into. With more, the kind is unproven.
const MOST_PAGES: usize = 64;

/// What is known about a kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageProof {
    /// Visitors with a cart may have the public page.
    Proven,
    /// There were too few comparisons.
    Unproven,
    /// PHP made another page for a visitor with a cart.
    Differs,
}

#[derive(Clone, Debug, Default)]
struct KindRecord {
    /// Comparisons without a difference since the last one with.
    agreed: u32,
    /// Members whose pages agreed; each counts once.
    members: Vec<u64>,
    differences: u32,
    /// Until when it goes to PHP.
    doubted: Millis,
    /// It is the same only if the browser fetches the cart.
    needs_fetch: bool,
    /// Pages that differ, or are looked into.
    pages: Vec<PageRecord>,
}

/// A page that differs, or may.
#[derive(Clone, Debug, Default)]
struct PageRecord {
    page: u64,
    /// Comparisons without a difference since the last one with.
    agreed: u32,
    differences: u32,
    /// Comparisons that said nothing, since the last one that did.
    unsure: u32,
    /// Until when it goes to PHP.
    doubted: Millis,
    /// What differs.
    what: Box<str>,
}

/// What a page has to do with its visitor: a kind of page is proven for each combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageView {
    /// The page shows a product of the cart: some themes print "1 in cart".
    pub shows_item: bool,
    /// The visitor has given an address: a plugin may print when a parcel arrives there.
    pub has_address: bool,
}

/// A page, as visitors of a kind see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenPage {
    /// The tag of its kind.
    pub kind: Tag,
    /// What it has to do with its visitor.
    pub view: PageView,
    /// The hash of its key.
    pub page: u64,
}

/// The results for all kinds of pages of a site.
#[derive(Debug, Default)]
pub struct Proofs {
    kinds: HashMap<(Tag, PageView), KindRecord>,
    /// On which pages browsers fetch the cart.
    pub fetches: Fetches,
    /// Pages that are different each time they are made.
    pub noise: KnownNoise,
}

/// Pages for visitors with a cart.
impl Proofs {
    /// The result so far for the public page whose key has this hash. One of its tags names its kind.
    pub fn of_page(&self, tags: &[Tag], page: u64, view: PageView, now: Millis) -> PageProof {
        let found = tags.iter().find_map(|tag| Some((*tag, self.kinds.get(&(*tag, view))?)));
        let Some((tag, kind)) = found else { return PageProof::Unproven };
        match kind.pages.iter().find(|record| record.page == page) {
            Some(record) if now < record.doubted => PageProof::Differs,
            _ if now < kind.doubted => PageProof::Differs,
            None if kind.agreed >= AGREED && (!kind.needs_fetch || self.fetches.are_seen(tag)) => {
                PageProof::Proven
            }
            _ => PageProof::Unproven,
        }
    }

    /// A page was the same as the public one; `fetched`: but for what the browser fills in when it has fetched the cart.
    pub fn agrees(&mut self, page: ProvenPage, fetched: bool, now: Millis) {
        let record = self.record(page.kind, page.view);
        record.needs_fetch |= fetched;
        if let Some(at) = record.pages.iter().position(|known| known.page == page.page) {
            let known = &mut record.pages[at];
            // A page that differs now and then must not become proven while it is doubted.
            if now < known.doubted {
                return;
            }
            (known.unsure, known.agreed) = (0, known.agreed + 1);
            if known.differences > 0 && known.agreed < AGREED {
                return;
            }
            record.pages.swap_remove(at);
        }
        self.add(page.kind, page.view, true, now);
    }

    /// A page differs from the public one, and it is not known yet why. Until then it comes from PHP.
    pub fn holds(&mut self, page: ProvenPage) {
        self.page(page);
    }

    /// Nothing could be shown: a page differs only where the public page is never the same, and in a way that it was not seen to be. Whether that
    /// was once too often, and it counts as different now.
    pub fn is_unsure(&mut self, page: ProvenPage, what: &str, now: Millis) -> bool {
        let unsure = self.page(page).map_or(0, |record| {
            record.unsure += 1;
            record.unsure
        });
        if unsure >= MOST_UNSURE {
            self.differs(page, what, now);
        }
        unsure >= MOST_UNSURE
    }

    /// PHP made another page than the public one for a visitor with a cart; `what` differs.
    pub fn differs(&mut self, page: ProvenPage, what: &str, now: Millis) {
        if self.record(page.kind, page.view).doubted > now {
            return;
        }
        if let Some(record) = self.page(page) {
            // It is not asked again before that time, but requests that are on their way come back.
            if now < record.doubted {
                return;
            }
            (record.agreed, record.unsure, record.what) = (0, 0, what.into());
            record.doubted = now.saturating_add(doubt(record.differences));
            record.differences = record.differences.saturating_add(1);
        }
        let kind = self.record(page.kind, page.view);
        kind.agreed = 0;
        if kind.pages.iter().filter(|record| now < record.doubted).count() >= DIFFERENT_PAGES {
            self.add(page.kind, page.view, false, now);
        }
    }

    /// The kind that a public page with these tags was compared as, if it ever was.
    pub fn kind_of(&self, tags: &[Tag], view: PageView) -> Option<Tag> {
        tags.iter().find(|tag| self.kinds.contains_key(&(**tag, view))).copied()
    }

    /// What differed on the public page with these tags, or on others of its kind, as far as that holds now.
    pub fn differences(&self, tags: &[Tag], page: u64, now: Millis) -> Vec<(bool, Box<str>)> {
        let kinds = self.kinds.iter().filter(|((tag, _), _)| tags.contains(tag)).map(|(_, kind)| kind);
        let found = kinds.flat_map(|kind| {
            let is_doubted = now < kind.doubted;
            let counts =
                move |record: &&PageRecord| record.differences > 0 && (record.page == page || is_doubted);
            kind.pages.iter().filter(counts).map(|record| (record.page == page, record.what.clone()))
        });
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|(is_own, _)| !is_own);
        found.dedup();
        found
    }

    /// What is known of a page. `None`: too many pages of its kind differ, and the kind is unproven.
    fn page(&mut self, page: ProvenPage) -> Option<&mut PageRecord> {
        let kind = self.record(page.kind, page.view);
        let at = kind.pages.iter().position(|known| known.page == page.page).unwrap_or_else(|| {
            kind.pages.push(PageRecord { page: page.page, ..PageRecord::default() });
            kind.pages.len() - 1
        });
        if kind.pages.len() > MOST_PAGES {
            kind.pages.pop();
            kind.agreed = 0;
            return None;
        }
        kind.pages.get_mut(at)
    }
}

/// How long something is doubted that has differed so many times before.
fn doubt(differences: u32) -> Millis {
    DOUBT.saturating_mul(1 << differences.min(10)).min(LONGEST_DOUBT)
}

impl Proofs {
    /// The result so far for a page with these tags. One of the tags names the page's kind.
    pub fn of(&self, tags: &[Tag], view: PageView, now: Millis) -> PageProof {
        let kind = tags.iter().find_map(|tag| self.kinds.get(&(*tag, view)));
        match kind {
            Some(kind) if now < kind.doubted => PageProof::Differs,
            Some(kind) if kind.agreed >= AGREED => PageProof::Proven,
            _ => PageProof::Unproven,
        }
    }

    /// PHP made something of another kind than the page with these tags.
    pub fn add_other_kind(&mut self, tags: &[Tag], view: PageView, now: Millis) {
        if let Some(kind) = self.kind_of(tags, view) {
            self.add(kind, view, false, now);
        }
    }

    /// A comparison of pages for members, the second one made for this member: the same for one member again and again says nothing about
    /// others.
    pub fn add_of_member(&mut self, kind: Tag, member: u64, same: bool, now: Millis) {
        let view = PageView::default();
        let known = self.kinds.get(&(kind, view));
        if same && known.is_some_and(|kind| now >= kind.doubted && kind.members.contains(&member)) {
            return;
        }
        self.add(kind, view, same, now);
        if let Some(kind) = self.kinds.get_mut(&(kind, view)).filter(|kind| kind.agreed > 0) {
            kind.members.push(member);
        }
    }

    /// A comparison: `same` if there was no difference.
    pub fn add(&mut self, kind: Tag, view: PageView, same: bool, now: Millis) {
        let kind = self.record(kind, view);
        if same {
            // Pages that differ now and then must not become proven while they are doubted.
            kind.agreed = if now < kind.doubted { 0 } else { kind.agreed.saturating_add(1) };
            return;
        }
        (kind.agreed, kind.members) = (0, Vec::new());
        kind.doubted = now.saturating_add(doubt(kind.differences));
        kind.differences = kind.differences.saturating_add(1);
    }

    fn record(&mut self, kind: Tag, view: PageView) -> &mut KindRecord {
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&(kind, view)) {
            self.kinds.clear();
        }
        self.kinds.entry((kind, view)).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Tag = Tag(7);
    const ANY: PageView = PageView { shows_item: false, has_address: false };
    const ITEM: PageView = PageView { shows_item: true, ..ANY };
    const ADDRESS: PageView = PageView { has_address: true, ..ANY };

    #[test]
    fn some_comparisons_prove_a_kind_and_one_disproves_it() {
        let mut proofs = Proofs::default();
        let of = |proofs: &Proofs, now| proofs.of(&[Tag(1), KIND], ANY, now);
        for n in 0..AGREED {
            assert_eq!(of(&proofs, 0), PageProof::Unproven, "after {n}");
            proofs.add(KIND, ANY, true, 0);
        }
        assert_eq!(of(&proofs, 0), PageProof::Proven);
        assert_eq!(proofs.of(&[KIND], ITEM, 0), PageProof::Unproven, "with a product of the cart");
        assert_eq!(proofs.of(&[KIND], ADDRESS, 0), PageProof::Unproven, "for a visitor with an address");
        assert_eq!(proofs.of(&[Tag(1)], ANY, 0), PageProof::Unproven, "another kind");
        proofs.add(KIND, ANY, false, 10);
        assert_eq!(of(&proofs, 10 + DOUBT - 1), PageProof::Differs);
        // What agrees meanwhile does not count.
        (0..9).for_each(|_| proofs.add(KIND, ANY, true, 20));
        assert_eq!(of(&proofs, 10 + DOUBT), PageProof::Unproven);
        (0..AGREED).for_each(|_| proofs.add(KIND, ANY, true, 10 + DOUBT));
        assert_eq!(of(&proofs, 10 + DOUBT), PageProof::Proven);
        proofs.add(KIND, ANY, false, 20 + DOUBT);
        assert_eq!(of(&proofs, 20 + DOUBT + 2 * DOUBT - 1), PageProof::Differs, "twice as long");
        (0..99).for_each(|_| proofs.add(KIND, ANY, false, 0));
        assert_eq!(of(&proofs, LONGEST_DOUBT), PageProof::Unproven);
    }

    fn page(page: u64) -> ProvenPage {
        ProvenPage { kind: KIND, view: ANY, page }
    }

    fn proven() -> Proofs {
        let mut proofs = Proofs::default();
        (0..AGREED).for_each(|_| proofs.agrees(page(1), false, 0));
        proofs
    }

    #[test]
    fn a_difference_is_that_pages_first() {
        let mut proofs = proven();
        let of = |proofs: &Proofs, page, now| proofs.of_page(&[Tag(1), KIND], page, ANY, now);
        assert_eq!(of(&proofs, 1, 0), PageProof::Proven);
        proofs.holds(page(1));
        assert_eq!(
            [of(&proofs, 1, 0), of(&proofs, 2, 0)],
            [PageProof::Unproven, PageProof::Proven],
            "it is looked into"
        );
        proofs.agrees(page(1), false, 0);
        assert_eq!(of(&proofs, 1, 0), PageProof::Proven, "the public page was old");
        proofs.differs(page(1), "a banner", 10);
        assert_eq!([of(&proofs, 1, 10), of(&proofs, 2, 10)], [PageProof::Differs, PageProof::Unproven]);
        // What agrees on that page meanwhile does not count, not even for the others.
        (0..9).for_each(|_| proofs.agrees(page(1), false, 20));
        assert_eq!(of(&proofs, 2, 20), PageProof::Unproven);
        (0..AGREED).for_each(|_| proofs.agrees(page(2), false, 20));
        assert_eq!([of(&proofs, 1, 20), of(&proofs, 2, 20)], [PageProof::Differs, PageProof::Proven]);
        assert_eq!(proofs.differences(&[KIND], 1, 20), [(true, "a banner".into())]);
        assert!(
            proofs.differences(&[KIND], 2, 20).is_empty() && proofs.differences(&[Tag(1)], 1, 20).is_empty()
        );
        // Then that page has to agree by itself.
        let later = 10 + DOUBT;
        for _ in 0..AGREED {
            assert_eq!(
                [of(&proofs, 1, later), of(&proofs, 2, later)],
                [PageProof::Unproven, PageProof::Proven]
            );
            proofs.agrees(page(1), false, later);
        }
        assert_eq!(of(&proofs, 1, later), PageProof::Proven);
        proofs.differs(page(1), "", later);
        proofs.differs(page(1), "", later + 1);
        assert_eq!(
            of(&proofs, 1, later + DOUBT),
            PageProof::Unproven,
            "it was forgotten with the last agreement"
        );
    }

    #[test]
    fn the_kind_differs_when_it_repeats_on_different_pages() {
        let mut proofs = proven();
        let of = |proofs: &Proofs, page, now| proofs.of_page(&[KIND], page, ANY, now);
        for _ in 0..9 {
            (1..DIFFERENT_PAGES as u64).for_each(|n| proofs.differs(page(n), "x", 0));
        }
        (0..AGREED).for_each(|_| proofs.agrees(page(50), false, 0));
        assert_eq!(of(&proofs, 50, 0), PageProof::Proven, "the same pages again and again");
        proofs.differs(page(9), "y", 5);
        assert_eq!(of(&proofs, 50, 5), PageProof::Differs);
        assert_eq!(of(&proofs, 50, 5 + DOUBT - 1), PageProof::Differs);
        assert_eq!(proofs.differences(&[KIND], 50, 5).len(), 2, "different ones, of other pages");
        assert_eq!(of(&proofs, 50, 5 + DOUBT), PageProof::Unproven);
        (0..AGREED).for_each(|_| proofs.agrees(page(50), false, 5 + DOUBT));
        assert_eq!(
            [of(&proofs, 50, 5 + DOUBT), of(&proofs, 9, 5 + DOUBT)],
            [PageProof::Proven, PageProof::Unproven]
        );
        // Differences that were long ago are not the same kind of accident.
        proofs.differs(page(7), "y", 5 + DOUBT);
        (0..AGREED).for_each(|_| proofs.agrees(page(50), false, 5 + DOUBT));
        assert_eq!(of(&proofs, 50, 5 + DOUBT), PageProof::Proven);
    }

    #[test]
    fn a_page_of_which_nothing_can_be_shown_differs() {
        let mut proofs = proven();
        let of = |proofs: &Proofs| proofs.of_page(&[KIND], 1, ANY, 0);
        (1..MOST_UNSURE).for_each(|_| assert!(!proofs.is_unsure(page(1), "z", 0)));
        assert_eq!(of(&proofs), PageProof::Unproven);
        proofs.agrees(page(1), false, 0);
        (1..MOST_UNSURE).for_each(|_| assert!(!proofs.is_unsure(page(1), "z", 0)));
        assert_eq!(of(&proofs), PageProof::Unproven, "some since the last one that agreed");
        assert!(proofs.is_unsure(page(1), "z", 0));
        assert_eq!(of(&proofs), PageProof::Differs);
    }

    #[test]
    fn many_pages_that_are_looked_into_leave_the_kind_unproven() {
        let mut proofs = proven();
        (0..MOST_PAGES as u64).for_each(|n| proofs.holds(page(100 + n)));
        assert_eq!(proofs.of_page(&[KIND], 1, ANY, 0), PageProof::Proven);
        proofs.holds(page(99));
        assert_eq!(proofs.of_page(&[KIND], 1, ANY, 0), PageProof::Unproven);
        assert_eq!(proofs.kinds[&(KIND, ANY)].pages.len(), MOST_PAGES);
    }

    #[test]
    fn what_the_browser_fills_in_counts_only_if_it_is_seen_to_fetch() {
        let mut proofs = Proofs::default();
        let of = |proofs: &Proofs| proofs.of_page(&[KIND], 1, ANY, 0);
        (0..9).for_each(|_| proofs.agrees(page(1), true, 0));
        assert_eq!(of(&proofs), PageProof::Unproven);
        proofs.fetches.see(KIND);
        assert_eq!(of(&proofs), PageProof::Proven);
        let mut plain = proven();
        assert_eq!(of(&plain), PageProof::Proven);
        plain.agrees(page(1), true, 0);
        assert_eq!(of(&plain), PageProof::Unproven, "one page of the kind needs it");
    }

    #[test]
    fn a_page_of_another_kind_is_a_difference() {
        let mut proofs = Proofs::default();
        proofs.add_other_kind(&[Tag(1), KIND], ANY, 0);
        assert!(proofs.kinds.is_empty(), "no page of this kind was compared");
        (0..AGREED).for_each(|_| proofs.add(KIND, ANY, true, 0));
        proofs.add_other_kind(&[Tag(1), KIND], ANY, 0);
        assert_eq!(proofs.of(&[KIND], ANY, 0), PageProof::Differs);
    }

    #[test]
    fn each_member_counts_once() {
        let mut proofs = Proofs::default();
        let of = |proofs: &Proofs, now| proofs.of(&[KIND], ANY, now);
        (0..9).for_each(|_| proofs.add_of_member(KIND, 5, true, 0));
        proofs.add_of_member(KIND, 6, true, 0);
        (0..9).for_each(|_| proofs.add_of_member(KIND, 5, true, 0));
        assert_eq!(of(&proofs, 0), PageProof::Unproven, "two members");
        proofs.add_of_member(KIND, 7, true, 0);
        assert_eq!(of(&proofs, 0), PageProof::Proven);
        proofs.add_of_member(KIND, 5, false, 0);
        (5..9).for_each(|member| proofs.add_of_member(KIND, member, true, 1));
        assert_eq!(of(&proofs, 1), PageProof::Differs);
        (5..7).for_each(|member| proofs.add_of_member(KIND, member, true, DOUBT));
        assert_eq!(of(&proofs, DOUBT), PageProof::Unproven);
        proofs.add_of_member(KIND, 7, true, DOUBT);
        assert_eq!(of(&proofs, DOUBT), PageProof::Proven);
    }

    #[test]
    fn the_table_is_bounded() {
        let mut proofs = Proofs::default();
        (0..3 * MOST_KINDS as u64)
            .for_each(|n| proofs.add(Tag(n), if n % 2 == 0 { ITEM } else { ANY }, true, 0));
        assert!(proofs.kinds.len() <= MOST_KINDS);
    }
}
