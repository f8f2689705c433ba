//! The specified behaviour of the store, as simple as possible: everything in lists, every purge applied at once to
//! every page, no budget. [`Reference::drop_evicted`] tells it what the store evicted.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_pages::store::{MOST_VARIANTS, MOST_VARY, REMEMBERED, RETAINED};
use millrace_pages::{Grace, Hardness, Kept, Key, Millis, Page, Purge, StoreOutcome, Tag, Terms};

/// The value of a request field.
pub type Value<'a> = &'a dyn Fn(&str) -> Vec<u8>;

#[derive(Default)]
pub struct Reference {
    pub budget: usize,
    places: HashMap<Vec<u8>, Place>,
    fills: Vec<Fill>,
    purges: Vec<(Purge, Hardness)>,
    number: u64,
    /// The latest time that was passed in.
    pub now: Millis,
}

/// The entries under a key.
#[derive(Default)]
struct Place {
    vary: Vec<Box<str>>,
    entries: Vec<Entry>,
}

struct Entry {
    /// The request for which it was stored.
    request: u32,
    variant: Vec<Vec<u8>>,
    /// `None`: uncacheable.
    page: Option<(Arc<Page>, Terms)>,
    /// The tags by which the mark is purged.
    marked: Box<[Tag]>,
    came: Millis,
    /// When freshness or the mark ends.
    expires: Millis,
    number: u64,
    purged: bool,
}

#[derive(Clone)]
pub struct Fill {
    pub key: Vec<u8>,
    pub hash: u64,
    pub number: u64,
    pub begun: usize,
    pub request: u32,
    asked: Option<Asked>,
}

/// Names of fields, and their values.
type Asked = (Vec<Box<str>>, Vec<Vec<u8>>);

/// Identifies a response; it stays the same when a page becomes slim.
type Which = *const u8;

pub fn which(page: &Page) -> Which {
    page.fields.as_ptr()
}

#[derive(Debug, PartialEq)]
pub enum Found {
    Fresh(Which, Millis, i64),
    Stale(Which, Millis, i64, Grace),
    Miss,
    Pass,
}

impl Reference {
    pub fn new(budget: usize) -> Reference {
        Reference { budget, ..Reference::default() }
    }

    pub fn look(&mut self, key: &[u8], value: Value, now: Millis) -> Found {
        self.now = now;
        let Some(place) = self.alive(key) else { return Found::Miss };
        let variant = variant(&place.vary, value);
        let full = place.entries.len() >= MOST_VARIANTS && !place.vary.is_empty();
        let Some(entry) = place.entries.iter().find(|entry| entry.variant == variant) else {
            return if full { Found::Pass } else { Found::Miss };
        };
        let Some((page, terms)) = &entry.page else { return Found::Pass };
        let age = terms.age + (now - entry.came);
        let left = entry.expires as i64 - now as i64;
        match entry.grace(now) {
            None => Found::Fresh(which(page), age, left),
            Some(grace) => Found::Stale(which(page), age, left.min(0), grace),
        }
    }

    /// The fills that a request may wait for.
    pub fn running(&mut self, key: &[u8], value: Value) -> Vec<u64> {
        let asked = self.asked(key, value);
        let last = self.purges.len();
        let fits = |fill: &&Fill| fill.key == key && fill.asked == asked && fill.begun == last;
        self.fills.iter().filter(fits).map(|fill| fill.number).collect()
    }

    pub fn lead(&mut self, key: Key, value: Value, request: u32) -> Fill {
        self.number += 1;
        let asked = self.asked(key.bytes, value);
        let (number, begun) = (self.number, self.purges.len());
        let fill = Fill { key: key.bytes.to_vec(), hash: key.hash, number, begun, request, asked };
        self.fills.push(fill.clone());
        fill
    }

    pub fn end(&mut self, fill: &Fill) {
        self.fills.retain(|other| other.number != fill.number);
    }

    pub fn store(
        &mut self,
        fill: &Fill,
        value: Value,
        page: Arc<Page>,
        terms: Terms,
        now: Millis,
    ) -> StoreOutcome {
        self.now = now;
        self.end(fill);
        let tags = terms.tags.clone();
        let stored = self.put(fill, value, page, terms, now, false);
        if matches!(stored, StoreOutcome::TooLarge | StoreOutcome::TooManyVariants) {
            self.mark(fill, now + REMEMBERED, tags);
        }
        stored
    }

    pub fn pass(&mut self, fill: &Fill, until: Millis, tags: Box<[Tag]>) {
        self.end(fill);
        self.mark(fill, until, tags);
    }

    /// `page`: as in the store, which may be slim by now.
    pub fn freshen(
        &mut self,
        fill: &Fill,
        value: Value,
        page: Option<&Arc<Page>>,
        terms: Terms,
        now: Millis,
    ) -> Option<Which> {
        self.now = now;
        self.end(fill);
        let place = self.alive(&fill.key)?;
        let variant = variant(&place.vary, value);
        let entry = place.entries.iter().find(|entry| entry.variant == variant)?;
        let known = &entry.page.as_ref()?.0;
        let page = Arc::clone(page.filter(|page| page.is_same(known)).unwrap_or(known));
        let which = which(&page);
        let stored = self.put(fill, value, page, terms, now, false);
        (stored != StoreOutcome::Purged).then_some(which)
    }

    pub fn insert(
        &mut self,
        begun: usize,
        key: Key,
        request: u32,
        value: Value,
        kept: Kept,
        now: Millis,
    ) -> StoreOutcome {
        self.now = now;
        let (came, terms) = (kept.came.min(now), (*kept.terms).clone());
        let entry = Entry {
            request,
            variant: vec![],
            expires: expiry(&terms, came, key.hash),
            page: Some((kept.page, terms.clone())),
            marked: Box::default(),
            came,
            number: 0,
            purged: kept.purged,
        };
        if !entry.is_alive(now) {
            return StoreOutcome::Expired;
        }
        if let Some(place) = self.alive(key.bytes) {
            let wanted = variant(&place.vary, value);
            let taken = place.entries.iter().any(|entry| entry.variant == wanted);
            if place.vary.is_empty() || *place.vary != *terms.vary || taken {
                return StoreOutcome::Superseded;
            }
        }
        let (key, hash) = (key.bytes.to_vec(), key.hash);
        let fill = Fill { key, hash, number: 0, begun, request, asked: None };
        let Some((page, terms)) = entry.page else { unreachable!() };
        self.put(&fill, value, page, terms, came, kept.purged)
    }

    pub fn purge(&mut self, what: &Purge, how: Hardness) -> usize {
        self.purges.push((what.clone(), how));
        let (mut count, now) = (0, self.now);
        for (key, place) in &mut self.places {
            place.entries.retain_mut(|entry| {
                let tags = entry.page.as_ref().map_or(&entry.marked, |page| &page.1.tags);
                let hit = concerns(what, key, tags);
                count += usize::from(hit && entry.page.is_some() && entry.is_alive(now));
                entry.purged |= hit;
                !(hit && (how == Hardness::Hard || entry.page.is_none()))
            });
        }
        count
    }

    pub fn hold(&self) -> usize {
        self.purges.len()
    }

    /// The pages that are stored.
    pub fn pages(&self) -> impl Iterator<Item = (&[u8], u32, &Arc<Page>, &Terms, Millis, bool)> {
        self.places.iter().flat_map(|(key, place)| {
            place.entries.iter().filter(|entry| entry.is_alive(self.now)).filter_map(|entry| {
                let (page, terms) = entry.page.as_ref()?;
                Some((&key[..], entry.request, page, terms, entry.came, entry.purged))
            })
        })
    }

    /// Removes entries that the store no longer has; returns how many of them were still useful.
    pub fn drop_evicted(&mut self, mut has: impl FnMut(&[u8], u32, Option<&Arc<Page>>) -> bool) -> usize {
        let (mut evicted, now) = (0, self.now);
        for (key, place) in &mut self.places {
            place.entries.retain(|entry| {
                if has(key, entry.request, entry.page.as_ref().map(|page| &page.0)) {
                    return true;
                }
                evicted += usize::from(entry.is_alive(now));
                false
            });
        }
        self.places.retain(|_, place| !place.entries.is_empty());
        evicted
    }

    /// The entries under a key, without useless ones.
    fn alive(&mut self, key: &[u8]) -> Option<&mut Place> {
        let now = self.now;
        let place = self.places.get_mut(key)?;
        place.entries.retain(|entry| entry.is_alive(now));
        if place.entries.is_empty() {
            self.places.remove(key);
        }
        self.places.get_mut(key)
    }

    fn asked(&mut self, key: &[u8], value: Value) -> Option<Asked> {
        let place = self.alive(key)?;
        (!place.vary.is_empty()).then(|| (place.vary.clone(), variant(&place.vary, value)))
    }

    fn put(
        &mut self,
        fill: &Fill,
        value: Value,
        page: Arc<Page>,
        mut terms: Terms,
        came: Millis,
        mut purged: bool,
    ) -> StoreOutcome {
        let since =
            self.purges[fill.begun..].iter().filter(|purge| concerns(&purge.0, &fill.key, &terms.tags));
        for (_, how) in since {
            if *how == Hardness::Hard {
                return StoreOutcome::Purged;
            }
            purged = true;
        }
        if page.bytes() > self.budget / 4 {
            return StoreOutcome::TooLarge;
        }
        let number = fill.number;
        if let Some(place) = self.alive(&fill.key)
            && place.vary.is_empty()
            && place.entries.iter().any(|entry| entry.number > number)
        {
            return StoreOutcome::Superseded;
        }
        let mut vary = self.alive(&fill.key).map_or(vec![], |place| place.vary.clone());
        vary.extend(terms.vary.iter().filter(|name| !vary.contains(name)).cloned().collect::<Vec<_>>());
        if vary.len() > MOST_VARY {
            return StoreOutcome::TooManyVariants;
        }
        if self.alive(&fill.key).is_none_or(|place| place.vary != vary) {
            self.places.insert(fill.key.clone(), Place { vary: vary.clone(), entries: vec![] });
        }
        let place = self.places.get_mut(&fill.key).expect("just inserted");
        let variant = variant(&vary, value);
        if place.entries.iter().any(|entry| entry.variant == variant && entry.number > number) {
            return StoreOutcome::Superseded;
        }
        place.entries.retain(|entry| entry.variant != variant);
        if place.entries.len() >= MOST_VARIANTS {
            return StoreOutcome::TooManyVariants;
        }
        terms.vary = vary.into();
        let expires = expiry(&terms, came, fill.hash);
        let request = fill.request;
        place.entries.push(Entry {
            request,
            variant,
            page: Some((page, terms)),
            marked: Box::default(),
            came,
            expires,
            number,
            purged,
        });
        if purged { StoreOutcome::Stale } else { StoreOutcome::Fresh }
    }

    fn mark(&mut self, fill: &Fill, until: Millis, marked: Box<[Tag]>) {
        if self.purges[fill.begun..].iter().any(|purge| concerns(&purge.0, &fill.key, &marked)) {
            return;
        }
        let vary = self.alive(&fill.key).map_or(vec![], |place| place.vary.clone());
        let variant = match &fill.asked {
            _ if vary.is_empty() => vec![],
            Some((names, values)) if *names == vary => values.clone(),
            _ => return,
        };
        let place = self.places.entry(fill.key.clone()).or_default();
        if place.entries.iter().any(|entry| entry.variant == variant && entry.number > fill.number) {
            return;
        }
        place.entries.retain(|entry| entry.variant != variant);
        if !vary.is_empty() && place.entries.len() >= MOST_VARIANTS {
            return;
        }
        let (request, number) = (fill.request, fill.number);
        let (page, came, expires, purged) = (None, 0, until, false);
        let entry = Entry { request, variant, page, marked, came, expires, number, purged };
        place.entries.push(entry);
    }
}

impl Entry {
    fn is_alive(&self, now: Millis) -> bool {
        let Some((page, terms)) = &self.page else { return now < self.expires };
        let late = now.saturating_sub(self.expires);
        let validators = page.etag.is_some() || page.last_modified.is_some();
        let longest = terms.stale_while_revalidate.max(terms.stale_if_error);
        let fresh = now < self.expires && !self.purged && !terms.no_cache;
        let usable = !terms.no_cache && !terms.must_revalidate && late < longest;
        fresh || usable || (validators && late < RETAINED)
    }

    /// None: fresh.
    fn grace(&self, now: Millis) -> Option<Grace> {
        let (_, terms) = self.page.as_ref()?;
        if now < self.expires && !self.purged && !terms.no_cache {
            return None;
        }
        let late = now.saturating_sub(self.expires);
        let never = terms.no_cache || terms.must_revalidate;
        Some(Grace {
            while_revalidating: !never && late < terms.stale_while_revalidate,
            on_error: !never && late < terms.stale_if_error,
            purged: self.purged,
        })
    }
}

/// Cuts off a sixteenth of the lifetime, multiplied by the upper half of the hash as a fraction.
fn expiry(terms: &Terms, came: Millis, hash: u64) -> Millis {
    let lifetime = terms.ttl.saturating_sub(terms.age);
    let cut = u128::from(lifetime / 16) * u128::from(hash >> 32) / (1 << 32);
    came + lifetime - cut as u64
}

fn variant(vary: &[Box<str>], value: Value) -> Vec<Vec<u8>> {
    vary.iter().map(|name| value(name)).collect()
}

fn concerns(purge: &Purge, key: &[u8], tags: &[Tag]) -> bool {
    match purge {
        Purge::Everything => true,
        Purge::Tag(tag) => tags.contains(tag),
        Purge::Prefix { site, host, path } => {
            let parts: Vec<&[u8]> = key.split(|&b| b == 0).collect();
            parts[0] == site.as_bytes()
                && host.as_ref().is_none_or(|host| parts[2] == host.as_bytes())
                && parts[3].starts_with(path)
        }
    }
}
