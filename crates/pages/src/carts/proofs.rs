//! What the comparisons have shown, for each kind of page.

use std::collections::HashMap;

use crate::{Millis, Tag};

/// Number of comparisons without a difference after which a kind of page counts as proven.
pub const AGREED: u32 = 3;

/// How long a kind of page goes to PHP after the first difference; doubled each further time.
pub const DOUBT: Millis = 3_600_000;

/// Longest such time.
const LONGEST_DOUBT: Millis = 24 * DOUBT;

/// The public page is made again for each comparison that says nothing: with so many of them, the kind differs.
const MOST_UNSURE: u32 = 2;

/// Maximum number of kinds. With more, the table starts again.
const MOST_KINDS: usize = 4096;

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
    /// Comparisons that said nothing, since the last one that did.
    unsure: u32,
    /// Until when it goes to PHP.
    doubted: Millis,
}

/// What a page has to do with its visitor: a kind of page is proven for each combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageView {
    /// The page shows a product of the cart: some themes print "1 in cart".
    pub shows_item: bool,
    /// The visitor has given an address: a plugin may print when a parcel arrives there.
    pub has_address: bool,
}

/// The results for all kinds of pages of a site.
#[derive(Debug, Default)]
pub struct Proofs {
    kinds: HashMap<(Tag, PageView), KindRecord>,
}

impl Proofs {
    /// The result so far for a public page with these tags. One of the tags names the page's kind.
    pub fn of(&self, tags: &[Tag], view: PageView, now: Millis) -> PageProof {
        let kind = tags.iter().find_map(|tag| self.kinds.get(&(*tag, view)));
        match kind {
            Some(kind) if now < kind.doubted => PageProof::Differs,
            Some(kind) if kind.agreed >= AGREED => PageProof::Proven,
            _ => PageProof::Unproven,
        }
    }

    /// A page differs from a public one that may be old: its kind is unproven until that is known. Returns the number of comparisons that had
    /// agreed.
    pub fn suspend(&mut self, kind: Tag, view: PageView) -> u32 {
        self.kinds.get_mut(&(kind, view)).map_or(0, |kind| std::mem::take(&mut kind.agreed))
    }

    /// The public page was old: the comparison has agreed after all, and those `agreed` before count again.
    pub fn resume(&mut self, kind: Tag, view: PageView, agreed: u32, now: Millis) {
        self.add(kind, view, true, now);
        if let Some(kind) = self.kinds.get_mut(&(kind, view)).filter(|kind| kind.agreed > 0) {
            kind.agreed = kind.agreed.saturating_add(agreed);
        }
    }

    /// The public page has changed meanwhile, and still differs: that says nothing, unless it is never the same twice.
    pub fn add_unsure(&mut self, kind: Tag, view: PageView, now: Millis) {
        let record = self.record(kind, view);
        record.unsure += 1;
        if record.unsure >= MOST_UNSURE {
            self.add(kind, view, false, now);
        }
    }

    /// PHP made something of another kind than the public page with these tags.
    pub fn add_other_kind(&mut self, tags: &[Tag], view: PageView, now: Millis) {
        let known = tags.iter().find(|tag| self.kinds.contains_key(&(**tag, view))).copied();
        if let Some(kind) = known {
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
            kind.unsure = 0;
            // Pages that differ now and then must not become proven while they are doubted.
            kind.agreed = if now < kind.doubted { 0 } else { kind.agreed.saturating_add(1) };
            return;
        }
        let doubt = DOUBT.saturating_mul(1 << kind.differences.min(10)).min(LONGEST_DOUBT);
        *kind = KindRecord {
            agreed: 0,
            members: Vec::new(),
            differences: kind.differences.saturating_add(1),
            unsure: 0,
            doubted: now.saturating_add(doubt),
        };
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

    #[test]
    fn a_public_page_that_was_old_disproves_nothing() {
        let mut proofs = Proofs::default();
        let of = |proofs: &Proofs| proofs.of(&[KIND], ANY, 0);
        assert_eq!(proofs.suspend(KIND, ANY), 0);
        (0..AGREED).for_each(|_| proofs.add(KIND, ANY, true, 0));
        assert_eq!(proofs.suspend(KIND, ANY), AGREED);
        assert_eq!(of(&proofs), PageProof::Unproven);
        proofs.resume(KIND, ANY, AGREED, 0);
        assert_eq!(of(&proofs), PageProof::Proven);
        // Another page of the kind differs meanwhile.
        let agreed = proofs.suspend(KIND, ANY);
        proofs.add(KIND, ANY, false, 0);
        proofs.resume(KIND, ANY, agreed, 0);
        assert_eq!(of(&proofs), PageProof::Differs);
        assert_eq!(proofs.of(&[KIND], ANY, DOUBT), PageProof::Unproven);
    }

    #[test]
    fn a_page_that_is_never_the_same_twice_differs() {
        let mut proofs = Proofs::default();
        let of = |proofs: &Proofs| proofs.of(&[KIND], ANY, 0);
        proofs.add_unsure(KIND, ANY, 0);
        (0..AGREED).for_each(|_| proofs.add(KIND, ANY, true, 0));
        proofs.suspend(KIND, ANY);
        proofs.add_unsure(KIND, ANY, 0);
        assert_eq!(of(&proofs), PageProof::Unproven, "one since the last that agreed");
        proofs.add_unsure(KIND, ANY, 0);
        assert_eq!(of(&proofs), PageProof::Differs);
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
