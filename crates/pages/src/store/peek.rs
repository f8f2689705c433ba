//! What the store knows about a request, for people: nothing is changed, counted or removed by looking.

use std::sync::Arc;

use super::life::{self, Freshness};
use super::slots::{Body, PURGED, PageSlot};
use super::{Pages, Select, values, variant_hash};
use crate::{Grace, Hardness, Key, Millis, Page, Terms};

/// What the store knows about a request.
#[derive(Clone, Debug)]
pub struct Peek {
    /// What is stored for it.
    pub entry: PeekEntry,
    /// PHP is making the page.
    pub is_filling: bool,
    /// Names of the request fields by which the page is known to vary.
    pub vary: Box<[Box<str>]>,
    /// Number of stored variants; 0 if the page is not known to vary.
    pub variants: u32,
}

/// What is stored for a request.
#[derive(Clone, Debug)]
pub enum PeekEntry {
    /// A page.
    Page(PeekPage),
    /// The page is known to be uncacheable, for so many more milliseconds.
    Uncacheable(Millis),
    /// Nothing that could be used.
    Nothing,
}

/// A stored page.
#[derive(Clone, Debug)]
pub struct PeekPage {
    /// The page.
    pub page: Arc<Page>,
    /// Its terms.
    pub terms: Arc<Terms>,
    /// For the `Age` field.
    pub age: Millis,
    /// Milliseconds of freshness left; 0 or less if stale.
    pub ttl_left: i64,
    /// How it may be used although it is stale; `None`: it is fresh.
    pub grace: Option<Grace>,
    /// Number of requests for it.
    pub hits: u32,
}

impl<F: Clone> Pages<F> {
    /// What is known about a request.
    pub fn peek(&self, key: Key<'_>, select: Select<'_>, now: Millis) -> Peek {
        let top = self.slots.find(key.hash, key.bytes);
        let Some(fork) = top.and_then(|at| self.slots.fork(at)) else {
            let entry = top.map_or(PeekEntry::Nothing, |at| self.peek_at(self.slots.get(at), now));
            let is_filling = self.fills.find(key, None, self.purges.last()).is_some();
            return Peek { entry, is_filling, vary: Box::default(), variants: 0 };
        };
        let mut wanted = Vec::new();
        values(&fork.vary, select, &mut wanted);
        let found = self.slots.find_variant(variant_hash(key.hash, &wanted), key.bytes, &wanted);
        let fill = self.fills.find(key, Some((&fork.vary, &wanted)), self.purges.last());
        Peek {
            entry: found.map_or(PeekEntry::Nothing, |at| self.peek_at(self.slots.get(at), now)),
            is_filling: fill.is_some(),
            vary: fork.vary.to_vec().into(),
            variants: fork.variants,
        }
    }

    fn peek_at(&self, slot: &PageSlot, now: Millis) -> PeekEntry {
        let verdict = self.purges.verdict(slot.checked, slot.key(), slot.tags());
        if verdict == Some(Hardness::Hard) {
            return PeekEntry::Nothing;
        }
        let is_purged = slot.flags & PURGED != 0 || verdict.is_some();
        match (&slot.body, &slot.terms) {
            (Body::Mark(_), _) if now < slot.expires && !is_purged => {
                PeekEntry::Uncacheable(slot.expires - now)
            }
            (Body::Page(page), Some(terms)) => {
                let grace = match life::state(terms, slot.expires, is_purged, page.has_validators(), now) {
                    Freshness::Fresh => None,
                    Freshness::Stale(grace) => Some(grace),
                    Freshness::Useless => return PeekEntry::Nothing,
                };
                PeekEntry::Page(PeekPage {
                    page: Arc::clone(page),
                    terms: Arc::clone(terms),
                    age: now.saturating_sub(slot.born),
                    ttl_left: slot.expires as i64 - now as i64,
                    grace,
                    hits: slot.hits,
                })
            }
            _ => PeekEntry::Nothing,
        }
    }
}
