//! The store: one shard of the cache.

mod answers;
pub(crate) mod life;

use std::collections::HashMap;
use std::sync::Arc;

pub use answers::{Grace, Hit, Hold, Kept, Look, Select, Stored, Ticket, Usage, Wanted};
use life::State;

use crate::{Hardness, Key, Millis, Page, Purge, Terms};

/// The most variants of a page; those that come then are passed on to the application without being stored.
pub const MOST_VARIANTS: usize = 64;

/// One shard of the cache. `F` is the server's handle of a running fill, cheap to clone.
pub struct Pages<F> {
    budget: usize,
    entries: HashMap<Box<[u8]>, Vec<Entry>>,
    marks: HashMap<Box<[u8]>, Millis>,
    fills: Vec<Fill<F>>,
    purges: Vec<(Purge, Hardness)>,
    numbers: u64,
}

struct Fill<F> {
    key: Box<[u8]>,
    variant: Option<Box<[u8]>>,
    number: u64,
    begun: u64,
    handle: F,
}

struct Entry {
    page: Arc<Page>,
    terms: Arc<Terms>,
    variant: Box<[u8]>,
    came: Millis,
    expires: Millis,
    begun: u64,
    number: u64,
    purged: bool,
}

impl<F: Clone> Pages<F> {
    /// An empty shard that may take `budget` bytes.
    pub fn new(budget: usize) -> Self {
        Pages {
            budget,
            entries: HashMap::new(),
            marks: HashMap::new(),
            fills: Vec::new(),
            purges: Vec::new(),
            numbers: 0,
        }
    }

    /// What there is for a request. Does not allocate if the page is fresh.
    pub fn look(&mut self, key: Key<'_>, select: Select<'_>, now: Millis) -> Look<F> {
        if self.marks.get(key.bytes).is_some_and(|until| now < *until) {
            return Look::Pass;
        }
        let fill = self.running(key, select);
        self.apply(key);
        let Some(entries) = self.entries.get_mut(key.bytes) else { return Look::Miss(fill) };
        entries.retain(|e| {
            life::state(&e.terms, e.expires, e.purged, e.page.has_validators(), now) != State::Useless
        });
        let Some(entry) = entries.iter().find(|e| *variant(&e.terms.vary, select) == *e.variant) else {
            return if entries.len() < MOST_VARIANTS { Look::Miss(fill) } else { Look::Pass };
        };
        let left = entry.expires as i64 - now as i64;
        let state = life::state(&entry.terms, entry.expires, entry.purged, entry.page.has_validators(), now);
        let hit = Hit {
            page: Arc::clone(&entry.page),
            age: entry.terms.age + now.saturating_sub(entry.came),
            ttl_left: if state == State::Fresh { left } else { left.min(0) },
        };
        match state {
            State::Fresh => Look::Fresh(hit),
            State::Stale(grace) => Look::Stale(hit, grace, fill),
            State::Useless => Look::Miss(fill),
        }
    }

    /// Registers a fill, after `look` named none.
    pub fn lead(&mut self, key: Key<'_>, select: Select<'_>, fill: F) -> Ticket {
        self.numbers += 1;
        let variant = self.asked(key, select);
        let begun = self.purges.len() as u64;
        let (number, handle) = (self.numbers, fill);
        self.fills.push(Fill { key: key.bytes.into(), variant: variant.clone(), number, begun, handle });
        Ticket { key: key.bytes.into(), hash: key.hash, number: self.numbers, begun, variant }
    }

    /// Stores what a fill brought, and ends it. `select` is that of the request which the fill was made for.
    pub fn store(
        &mut self,
        ticket: Ticket,
        select: Select<'_>,
        page: Arc<Page>,
        terms: Terms,
        now: Millis,
    ) -> Stored {
        self.end(&ticket);
        self.keep(&ticket, select, page, terms, now)
    }

    /// What a fill brought is uncacheable: [`Look::Pass`] until `until`. Ends the fill.
    pub fn pass(&mut self, ticket: Ticket, until: Millis) {
        self.end(&ticket);
        self.entries.remove(&ticket.key);
        self.marks.insert(ticket.key, until);
    }

    /// The fill failed; whatever is stored stays. Ends the fill.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.end(&ticket);
    }

    /// The application said that the stored page has not changed (304): it is as if it had come now, with `terms`, and
    /// with other fields if `page` is given. Ends the fill. The page to send; none if it is there no longer.
    pub fn freshen(
        &mut self,
        ticket: Ticket,
        select: Select<'_>,
        page: Option<Arc<Page>>,
        terms: Terms,
        now: Millis,
    ) -> Option<Arc<Page>> {
        self.end(&ticket);
        let entries = self.entries.get(&ticket.key)?;
        let entry = entries.iter().find(|e| *variant(&e.terms.vary, select) == *e.variant)?;
        let page = page.unwrap_or_else(|| Arc::clone(&entry.page));
        let stored = self.keep(&ticket, select, Arc::clone(&page), terms, now);
        (stored != Stored::Purged).then_some(page)
    }

    /// Purges. How many stored pages carry the tag, those included that are stale or purged but not removed yet.
    pub fn purge(&mut self, what: &Purge, how: Hardness) -> usize {
        self.purges.push((what.clone(), how));
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        keys.iter().for_each(|key| self.apply(Key::new(key)));
        let carries = |e: &&Entry| matches!(what, Purge::Tag(tag) if e.terms.tags.contains(tag));
        self.entries.values().flatten().filter(carries).count()
    }

    /// A coding was added to `page`: its memory is counted again.
    pub fn grew(&mut self, _key: Key<'_>, _page: &Arc<Page>) {}

    /// Changes the budget; evicts at once what is too much.
    pub fn set_budget(&mut self, bytes: usize) {
        self.budget = bytes;
    }

    /// Figures.
    pub fn usage(&self) -> Usage {
        let pages = self.entries.values().map(Vec::len).sum();
        let bytes = self.entries.values().flatten().map(|e| e.page.bytes()).sum();
        let (marks, fills) = (self.marks.len(), self.fills.len());
        Usage { budget: self.budget, bytes, pages, marks, fills, ..Usage::default() }
    }

    /// Purges that come from now on are remembered for pages that [`insert`](Self::insert) brings. To be released.
    pub fn hold(&mut self) -> Hold {
        Hold { begun: self.purges.len() as u64 }
    }

    /// Ends a hold.
    pub fn release(&mut self, hold: Hold) {
        drop(hold);
    }

    /// Stores a page that was written to disk by an earlier process, unless there is one already.
    pub fn insert(&mut self, hold: &Hold, key: Key<'_>, kept: Kept, now: Millis) -> Stored {
        let entries = self.entries.entry(key.bytes.into()).or_default();
        if entries.iter().any(|e| e.terms.vary != kept.terms.vary || e.variant == kept.variant) {
            return Stored::Superseded;
        }
        let expires = life::expiry(&kept.terms, kept.came.min(now), key.hash);
        entries.push(Entry {
            page: kept.page,
            terms: kept.terms,
            variant: kept.variant,
            came: kept.came.min(now),
            expires,
            begun: hold.begun,
            number: 0,
            purged: kept.purged,
        });
        self.apply(key);
        Stored::Fresh
    }

    /// All that is known of `page`, if it is stored.
    pub fn kept(&self, key: Key<'_>, page: &Arc<Page>) -> Option<Kept> {
        let entry = self.entries.get(key.bytes)?.iter().find(|e| Arc::ptr_eq(&e.page, page))?;
        Some(Kept {
            page: Arc::clone(page),
            terms: Arc::clone(&entry.terms),
            variant: entry.variant.clone(),
            came: entry.came,
            purged: entry.purged,
        })
    }

    /// Does a bounded part of what was put off: looks at up to `steps` entries, removes those that are purged or of no
    /// use any more, and notes which are [`wanted`](Self::wanted). To be called on idle moments, until it says that
    /// nothing is left to do.
    pub fn sweep(&mut self, _steps: usize, _now: Millis) -> bool {
        false
    }

    /// The up to `most` most wanted pages that [`sweep`](Self::sweep) found stale or purged, by hits; they are forgotten
    /// by this call.
    pub fn wanted(&mut self, _most: usize) -> Vec<Wanted> {
        Vec::new()
    }

    fn running(&self, key: Key<'_>, select: Select<'_>) -> Option<F> {
        let variant = self.asked(key, select);
        let fence = self.purges.len() as u64;
        let fill =
            self.fills.iter().find(|f| *f.key == *key.bytes && f.variant == variant && f.begun == fence)?;
        Some(fill.handle.clone())
    }

    fn asked(&self, key: Key<'_>, select: Select<'_>) -> Option<Box<[u8]>> {
        let entry = self.entries.get(key.bytes)?.first()?;
        (!entry.terms.vary.is_empty()).then(|| variant(&entry.terms.vary, select).into())
    }

    fn end(&mut self, ticket: &Ticket) {
        self.fills.retain(|fill| fill.number != ticket.number);
    }

    fn keep(
        &mut self,
        ticket: &Ticket,
        select: Select<'_>,
        page: Arc<Page>,
        terms: Terms,
        now: Millis,
    ) -> Stored {
        let entries = self.entries.entry(ticket.key.clone()).or_default();
        let variant: Box<[u8]> = variant(&terms.vary, select).into();
        if entries.iter().any(|e| e.variant == variant && e.number > ticket.number) {
            return Stored::Superseded;
        }
        entries.retain(|e| e.terms.vary == terms.vary && e.variant != variant);
        if entries.len() >= MOST_VARIANTS {
            return Stored::TooManyVariants;
        }
        let expires = life::expiry(&terms, now, ticket.hash);
        let (begun, number) = (ticket.begun, ticket.number);
        entries.push(Entry {
            page,
            terms: Arc::new(terms),
            variant: variant.clone(),
            came: now,
            expires,
            begun,
            number,
            purged: false,
        });
        self.marks.remove(&ticket.key);
        self.apply(Key { bytes: &ticket.key, hash: ticket.hash });
        match self.entries.get(&ticket.key).and_then(|entries| entries.iter().find(|e| e.variant == variant))
        {
            None => Stored::Purged,
            Some(entry) if entry.purged => Stored::Stale,
            Some(_) => Stored::Fresh,
        }
    }

    /// Applies all purges to the entries of a key.
    fn apply(&mut self, key: Key<'_>) {
        let Some(entries) = self.entries.get_mut(key.bytes) else { return };
        for (stamp, (what, how)) in self.purges.iter().enumerate() {
            let stamp = stamp as u64 + 1;
            let hit = |e: &Entry| match what {
                Purge::Tag(tag) => e.terms.tags.contains(tag),
                _ => what.covers(key),
            };
            match how {
                Hardness::Hard => entries.retain(|e| e.begun >= stamp || !hit(e)),
                Hardness::Soft => {
                    entries.iter_mut().filter(|e| e.begun < stamp && hit(e)).for_each(|e| e.purged = true)
                }
            }
        }
    }
}

/// The values that a request has for the fields of `vary`, each after its length: what tells variants apart.
fn variant(vary: &[Box<str>], select: Select<'_>) -> Vec<u8> {
    let mut values = Vec::new();
    for name in vary {
        let start = values.len();
        values.extend_from_slice(&[0; 4]);
        select(name, &mut values);
        let length = (values.len() - start - 4) as u32;
        values[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
    values
}

/// What the allocator takes for a block of `bytes`: glibc's header of 8 bytes, rounded up to 16, at least 32.
pub(crate) fn heap(bytes: usize) -> usize {
    if bytes == 0 { 0 } else { ((bytes + 8).next_multiple_of(16)).max(32) }
}
