//! The public page, made several times, beside the page of a visitor with a cart.

use std::collections::HashMap;

use super::html::Text;
use super::noise::{Likeness, Samples};
use super::{Lens, pieces};
use crate::Millis;

/// So many public pages must be alike before a difference counts. With fewer, something that is one of two by chance would often look
/// like no chance at all.
const ALIKE: usize = 4;

/// Maximum number of public pages that are made for one difference.
const SAMPLES: usize = 8;

/// A page as it is compared: as it is, and without what the browser fills in after it has fetched the cart.
#[derive(Clone, Debug)]
pub struct ComparedPage([Vec<Text>; 2]);

impl ComparedPage {
    /// `blanks`: selectors of what a script in the browser replaces; `now`: seconds since 1970. `None`: its tags are nested in a way that
    /// browsers correct, so that it is unclear what they make of it.
    pub fn new(page: &[u8], blanks: &[&str], now: u64) -> Option<ComparedPage> {
        let as_it_is = pieces(page, Lens { selectors: blanks, fills: false, now })?;
        let filled_in = pieces(page, Lens { selectors: blanks, fills: true, now })?;
        Some(ComparedPage([as_it_is, filled_in]))
    }

    /// What is different on a visitor's page, in words.
    pub fn first_difference(&self, own: &ComparedPage) -> Box<str> {
        super::first_difference(&self.0[1], &own.0[1])
    }
}

/// What a visitor's page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The same.
    Same {
        /// Only if the browser fetches the cart.
        if_fetched: bool,
    },
    /// Another one.
    Differs,
    /// It differs where strangers see something else each time, in a way that was not seen yet.
    Unsure,
}

/// The same public page, made several times, compared in both ways.
#[derive(Clone, Debug)]
pub struct PublicPages([Samples; 2]);

impl PublicPages {
    /// The first one.
    pub fn new(page: &ComparedPage) -> PublicPages {
        PublicPages(page.0.each_ref().map(|page| Samples::new(page)))
    }

    /// One more. False: it is a different page altogether, and was not taken.
    pub fn add(&mut self, page: &ComparedPage) -> bool {
        self.0.iter_mut().zip(&page.0).all(|(samples, page)| samples.add(page))
    }

    /// Whether all of them are the same, but for what the browser fills in.
    pub fn are_alike(&self) -> bool {
        self.0[1].are_alike()
    }

    /// What a visitor's page is; `None`: more of the public ones have to be seen.
    pub fn find(&self, own: &ComparedPage) -> Option<Finding> {
        let [as_it_is, filled_in] = &self.0;
        if as_it_is.likeness(&own.0[0]) == Likeness::Same {
            return Some(Finding::Same { if_fetched: false });
        }
        let (enough, finding) = match filled_in.likeness(&own.0[1]) {
            Likeness::Same => return Some(Finding::Same { if_fetched: true }),
            Likeness::Unseen => (SAMPLES, Finding::Unsure),
            Likeness::Differs => (ALIKE, Finding::Differs),
        };
        (filled_in.number() >= enough).then_some(finding)
    }

    /// Whether the difference between a new public page and a visitor's own one is the noise that these have; if so, whether the browser
    /// must fetch the cart.
    pub fn explain(&self, public: &ComparedPage, own: &ComparedPage) -> Option<bool> {
        match (self.find(public), self.find(own)) {
            (Some(Finding::Same { .. }), Some(Finding::Same { if_fetched })) => Some(if_fetched),
            _ => None,
        }
    }
}

/// Pages of a site that are known to be noisy.
#[derive(Debug, Default)]
pub struct KnownNoise(HashMap<u64, (Millis, PublicPages)>);

/// How long noise is remembered, milliseconds. Not long: what strangers got then must be what they get now.
const NOISE_TIME: Millis = 600_000;

/// A site remembers the noise of this many pages at most; each takes some 100 kB.
const MOST_NOISY: usize = 32;

impl KnownNoise {
    /// Remembers that a page is noisy; `page`: the hash of its key, `pages`: what PHP has made of it.
    pub fn note(&mut self, page: u64, pages: PublicPages, now: Millis) {
        self.0.retain(|_, (until, _)| now < *until);
        if self.0.len() < MOST_NOISY || self.0.contains_key(&page) {
            self.0.insert(page, (now.saturating_add(NOISE_TIME), pages));
        }
    }

    /// Returns the noise that was remembered of a page; `page`: the hash of its key.
    pub fn of(&self, page: u64, now: Millis) -> Option<PublicPages> {
        self.0.get(&page).filter(|(until, _)| now < *until).map(|(_, pages)| pages.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(banner: &str, text: &str) -> ComparedPage {
        let html =
            format!("<main><h1>Shop</h1><b>{banner}</b>{}<p>{text}</p></main>", "<i>thing</i>".repeat(60));
        ComparedPage::new(html.as_bytes(), &[], 0).expect("a page")
    }

    fn made(banners: &[&str]) -> PublicPages {
        let mut pages = PublicPages::new(&page(banners[0], "text"));
        assert!(banners[1..].iter().all(|banner| pages.add(&page(banner, "text"))));
        pages
    }

    #[test]
    fn what_strangers_get_is_the_same() {
        let pages = made(&["one", "two"]);
        assert_eq!(pages.find(&page("two", "text")), Some(Finding::Same { if_fetched: false }));
        assert!(!pages.are_alike());
    }

    #[test]
    fn a_difference_counts_after_enough_pages() {
        let own = page("one", "in the cart: 2");
        for number in 1..ALIKE {
            assert_eq!(made(&vec!["one"; number]).find(&own), None, "{number}");
        }
        assert_eq!(made(&["one"; ALIKE]).find(&own), Some(Finding::Differs));
    }

    #[test]
    fn what_was_not_seen_yet_is_unsure() {
        let mut banners = vec!["one", "two"];
        while banners.len() < SAMPLES {
            assert_eq!(made(&banners).find(&page("three", "text")), None);
            banners.push("one");
        }
        assert_eq!(made(&banners).find(&page("three", "text")), Some(Finding::Unsure));
    }

    #[test]
    fn noise_is_forgotten_and_bounded() {
        let mut known = KnownNoise::default();
        known.note(1, made(&["one", "two"]), 1000);
        let (public, own, other) = (page("one", "text"), page("two", "text"), page("two", "mine"));
        let pages = known.of(1, 1001).expect("its noise");
        assert_eq!(pages.explain(&public, &own), Some(false));
        assert_eq!(pages.explain(&public, &other), None);
        assert_eq!(pages.explain(&other, &own), None, "the public page is another one now");
        assert!(known.of(2, 1001).is_none());
        assert!(known.of(1, 1000 + NOISE_TIME).is_none());
        for page in 2..1000 {
            known.note(page, made(&["one", "two"]), 1001);
        }
        assert_eq!(known.0.len(), MOST_NOISY);
    }
}
