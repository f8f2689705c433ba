//! Runs operations on the store and on a simple [`Reference`], and compares after each. An operation is a number
//! whose bytes determine the action and its arguments, so that proptest and the fuzzer make the same operations.

mod reference;

use std::sync::Arc;

use millrace_pages::{
    Form, Hardness, Hold, Kept, Key, Lookup, Millis, Page, Pages, Purge, StoreOutcome, StoreUsage, Tag,
    Terms, Ticket,
};
use millrace_wire::encoding::{CODINGS, Coding};
use reference::{Fill, Found, Reference, which};

const KEYS: u8 = 24;
const TAGS: u64 = 12;
/// Enough for all operations of a case; then nothing may be evicted.
const ROOMY: usize = 1 << 30;

/// Runs a case: the first number determines the budget.
pub fn run(operations: &[u32]) {
    let Some((&first, operations)) = operations.split_first() else { return };
    let budget = if first.is_multiple_of(2) { ROOMY } else { 40_000 + (first as usize >> 8) % 400_000 };
    let mut both = Both::new(budget);
    for (count, operation) in operations.iter().enumerate() {
        both.step(operation.to_le_bytes());
        both.follow_evictions();
        if count % 16 == 15 {
            both.compare();
        }
    }
    both.compare();
}

struct Both {
    real: Pages<u64>,
    reference: Reference,
    now: Millis,
    fills: Vec<(Ticket, Fill)>,
    holds: Vec<(Hold, usize)>,
    /// Pages as on disk.
    disk: Vec<(u8, u32, Kept)>,
    evicted: u64,
    /// For each prefix purge, the number of purges before it.
    prefixes: Vec<usize>,
}

impl Both {
    fn new(budget: usize) -> Both {
        Both {
            real: Pages::new(budget),
            reference: Reference::new(budget),
            now: 1_000_000_000,
            fills: vec![],
            holds: vec![],
            disk: vec![],
            evicted: 0,
            prefixes: vec![],
        }
    }

    fn step(&mut self, [what, a, b, c]: [u8; 4]) {
        let (key, request) = (a % KEYS, u32::from(b));
        match what % 32 {
            0..=9 => self.look(key, request),
            10..=12 => self.lead(key, request),
            13..=17 => self.store(a, b, c),
            18 => self.pass(a, b, c),
            19 => self.abandon(a),
            20 => self.freshen(a, c),
            21 | 22 => self.purge(Purge::Tag(Tag(u64::from(a) % TAGS)), b),
            23 => self.purge(prefix(a, c), b),
            24 if a < 32 => self.purge(Purge::Everything, b),
            24 | 25 => self.now += u64::from(a) * u64::from(b) * u64::from(c),
            26 => self.grow(key, request, c),
            27 => self.budget(a, b),
            28 => self.hold(a),
            29 => self.disk(a, b),
            30 => self.sweep(a),
            _ => {
                self.lead(key, request);
                // The memory of a fill may cost a page its last variant, and so the knowledge of its fields.
                self.follow_evictions();
                let last = self.fills.len() - 1;
                self.store(last as u8, c, a ^ b);
            }
        }
    }

    fn look(&mut self, key: u8, request: u32) {
        let bytes = key_bytes(key);
        let value = |name: &str| value(request, name);
        let found = self.reference.look(&bytes, &value, self.now);
        let running = self.reference.running(&bytes, &value);
        let real = self.real.look(key_of(&bytes), &mut select(request), self.now);
        let (real, fill) = match real {
            Lookup::Fresh(hit) => (Found::Fresh(which(&hit.page), hit.age, hit.ttl_left), None),
            Lookup::Stale(hit, grace, fill) => {
                (Found::Stale(which(&hit.page), hit.age, hit.ttl_left, grace), Some(fill))
            }
            Lookup::Miss(fill) => (Found::Miss, Some(fill)),
            Lookup::Pass | Lookup::Full => (Found::Pass, None),
        };
        assert_eq!(real, found, "key {key} request {request}");
        match fill {
            Some(Some(fill)) => assert!(running.contains(&fill)),
            Some(None) => assert!(running.is_empty(), "a fill runs that the store does not know"),
            None => {}
        }
    }

    fn lead(&mut self, key: u8, request: u32) {
        let bytes = key_bytes(key);
        let fill = self.reference.lead(key_of(&bytes), &|name| value(request, name), request);
        let ticket = self.real.lead(key_of(&bytes), &mut select(request), fill.number);
        assert_eq!(ticket.key(), bytes);
        self.fills.push((ticket, fill));
    }

    fn store(&mut self, which: u8, size: u8, kind: u8) {
        let Some((ticket, fill)) = self.take(which) else { return };
        let (page, terms) = (page(size, self.now), terms(&fill.key, kind));
        let request = fill.request;
        let stored =
            self.real.store(ticket, &mut select(request), Arc::clone(&page), terms.clone(), self.now);
        if stored == StoreOutcome::Purged && self.is_fenced(&fill) {
            return self.reference.end(&fill);
        }
        let expected = self.reference.store(&fill, &|name| value(request, name), page, terms, self.now);
        assert_eq!(stored, expected);
    }

    fn freshen(&mut self, which: u8, kind: u8) {
        let Some((ticket, fill)) = self.take(which) else { return };
        let terms = terms(&fill.key, kind);
        let request = fill.request;
        let page = self.real.freshen(ticket, &mut select(request), None, terms.clone(), self.now);
        if page.is_none() && self.is_fenced(&fill) {
            return self.reference.end(&fill);
        }
        let real = page.as_ref();
        let expected = self.reference.freshen(&fill, &|name| value(request, name), real, terms, self.now);
        assert_eq!(real.map(|page| reference::which(page)), expected);
    }

    fn pass(&mut self, which: u8, seconds: u8, kind: u8) {
        let Some((ticket, fill)) = self.take(which) else { return };
        let until = self.now + u64::from(seconds) * 1000;
        let tags = terms(&fill.key, kind).tags;
        let marked = self.real.pass(ticket, tags.clone(), until);
        if !marked && self.is_fenced(&fill) {
            return self.reference.end(&fill);
        }
        self.reference.pass(&fill, until, tags);
    }

    fn abandon(&mut self, which: u8) {
        let Some((ticket, fill)) = self.take(which) else { return };
        self.real.abandon(ticket);
        self.reference.end(&fill);
    }

    fn take(&mut self, which: u8) -> Option<(Ticket, Fill)> {
        let count = self.fills.len();
        (count > 0).then(|| self.fills.swap_remove(usize::from(which) % count))
    }

    /// Whether so many prefixes were purged during a fill that the store may have given it up.
    fn is_fenced(&self, fill: &Fill) -> bool {
        let since = self.prefixes.iter().filter(|before| **before >= fill.begun).count();
        since > millrace_pages::store::MOST_BANS
    }

    fn purge(&mut self, what: Purge, hardness: u8) {
        let how = if hardness.is_multiple_of(2) { Hardness::Soft } else { Hardness::Hard };
        if matches!(what, Purge::Prefix { .. }) {
            self.prefixes.push(self.reference.hold());
        }
        let count = self.real.purge(&what, how);
        assert!(count >= self.reference.purge(&what, how), "more pages are purged than were counted");
    }

    fn grow(&mut self, key: u8, request: u32, size: u8) {
        self.look(key, request);
        let bytes = key_bytes(key);
        let look = self.real.look(key_of(&bytes), &mut select(request), self.now);
        let (Lookup::Fresh(hit) | Lookup::Stale(hit, ..)) = look else { return };
        let form = Form::new(&[0; 100], &vec![0; usize::from(size) * 16]);
        hit.page.put_form(Coding::Gzip, (size > 9).then_some(form.clone()));
        if !size.is_multiple_of(3) {
            hit.page.put_form(Coding::Brotli, None);
            hit.page.put_form(Coding::Zstd, (size > 9).then_some(form));
        }
        if size.is_multiple_of(5) {
            hit.page.note_plain();
        }
        self.real.grew(key_of(&bytes), &hit.page);
    }

    fn budget(&mut self, a: u8, b: u8) {
        if self.real.usage().budget < ROOMY {
            let budget = usize::from(a) * usize::from(b) * 16;
            self.real.set_budget(budget);
            self.reference.budget = budget;
        }
    }

    fn hold(&mut self, a: u8) {
        if a.is_multiple_of(2) || self.holds.is_empty() {
            self.holds.push((self.real.hold(), self.reference.hold()));
        } else {
            let (hold, _) = self.holds.swap_remove(usize::from(a) % self.holds.len());
            self.real.release(hold);
        }
    }

    /// Writes a page to disk, or reads one.
    fn disk(&mut self, a: u8, b: u8) {
        if a.is_multiple_of(2) {
            let stored: Vec<_> = self.reference.pages().collect();
            let Some((key, request, page, ..)) = stored.get(usize::from(b) % stored.len().max(1)) else {
                return;
            };
            let Some(mut kept) = self.real.kept(key_of(key), page) else { return };
            kept.page = copy(page);
            let number = (0..KEYS).find(|n| key_bytes(*n) == *key).expect("one of ours");
            self.disk.push((number, *request, kept));
        } else if !self.disk.is_empty() && !self.holds.is_empty() {
            let (key, request, kept) = self.disk.swap_remove(usize::from(b) % self.disk.len());
            let (hold, begun) = &self.holds[usize::from(a) % self.holds.len()];
            let bytes = key_bytes(key);
            let stored = self.real.insert(hold, key_of(&bytes), kept.clone(), self.now);
            if stored == StoreOutcome::Purged
                && self.prefixes.iter().filter(|before| **before >= *begun).count() > 64
            {
                return;
            }
            let value = |name: &str| value(request, name);
            let expected = self.reference.insert(*begun, key_of(&bytes), request, &value, kept, self.now);
            assert_eq!(stored, expected);
        }
    }

    fn sweep(&mut self, steps: u8) {
        self.reference.now = self.now;
        self.real.sweep(usize::from(steps), self.now);
        for wanted in self.real.wanted(usize::from(steps)) {
            assert!(wanted.hits >= 2);
            assert!((0..KEYS).any(|key| *key_bytes(key) == *wanted.key));
        }
    }

    /// Tells the reference what the store has evicted; without a reason nothing may be missing.
    fn follow_evictions(&mut self) {
        let usage = self.real.usage();
        if usage.budget == ROOMY {
            return;
        }
        let StoreUsage { bytes, budget, pages, marks, .. } = usage;
        assert!(bytes <= budget || pages + marks == 0, "{usage:?}");
        let gone = self.forget_gone();
        let evicted = self.real.usage().evicted;
        assert!(gone as u64 <= evicted - self.evicted, "{gone} pages are gone");
        self.evicted = evicted;
    }

    fn forget_gone(&mut self) -> usize {
        let (real, now) = (&mut self.real, self.reference.now);
        self.reference.drop_evicted(|key, request, page| match page {
            Some(page) => real.kept(key_of(key), page).is_some(),
            None => {
                let found = real.look(key_of(key), &mut select(request), now);
                matches!(found, Lookup::Pass | Lookup::Full)
            }
        })
    }

    /// Compares all stored entries.
    fn compare(&mut self) {
        self.real.verify();
        if self.real.usage().budget == ROOMY {
            assert_eq!(self.forget_gone(), 0, "pages are gone without need");
            assert_eq!(self.real.usage().slimmed, 0, "pages are slim without need");
        }
        for (key, _, page, terms, came, purged) in self.reference.pages() {
            let kept = self.real.kept(key_of(key), page).expect("compared before");
            assert_eq!((&*kept.terms, kept.came, kept.purged), (terms, came, purged));
        }
        assert_eq!(self.real.usage().fills, self.fills.len());
    }
}

/// `site NUL scheme NUL host NUL path NUL query`
fn key_bytes(key: u8) -> Vec<u8> {
    let (site, host, path) = (key % 2, key / 2 % 2, key / 4);
    format!("site{site}\0https\0host{host}.example\0/a{}/{path}\0", path % 2).into_bytes()
}

/// With a hash that is the same in every run (FNV-1a, and its high bits mixed).
fn key_of(bytes: &[u8]) -> Key<'_> {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    Key { bytes, hash: hash ^ hash.rotate_left(31) }
}

fn prefix(a: u8, c: u8) -> Purge {
    let host = (a & 2 > 0).then(|| format!("host{}.example", c % 2).into());
    let path = ["/", "/a0", "/a1/", "/a1/3", "/none"][usize::from(c) % 5].as_bytes().into();
    Purge::Prefix { site: format!("site{}", a % 2).into(), host, path }
}

fn value(request: u32, name: &str) -> Vec<u8> {
    match name {
        // More than the maximum of variants.
        "accept-language" => (request % 80).to_string().into_bytes(),
        "cookie" => vec![b'c'; request as usize % 3],
        _ => vec![],
    }
}

fn select(request: u32) -> impl FnMut(&str, &mut Vec<u8>) {
    move |name, out| out.extend(value(request, name))
}

fn page(size: u8, now: Millis) -> Arc<Page> {
    let body = vec![b'x'; usize::from(size) * usize::from(size)];
    let identity = Form::new(b"Content-Type: text/html\r\n", &body);
    let mut page = Page::new(200, Box::from(*b"Content-Type: text/html\r\n"), identity, now);
    page.etag = size.is_multiple_of(4).then(|| "\"tag\"".into());
    Arc::new(page)
}

/// A page from disk is never the same allocation.
fn copy(page: &Page) -> Arc<Page> {
    let mut copy = Page::new(page.status, Box::from(&*page.fields), page.identity().clone(), page.stored);
    copy.etag = page.etag.clone();
    for coding in CODINGS.into_iter().filter(|coding| !page.lacks(*coding)) {
        copy.put_form(coding, page.form(coding).cloned());
    }
    Arc::new(copy)
}

fn terms(key: &[u8], kind: u8) -> Terms {
    let kind = u64::from(kind);
    let vary: &[&str] = match kind % 16 {
        0..=9 => &[],
        10..=13 => &["accept-language"],
        14 => &["cookie"],
        _ => &["cookie", "accept-language"],
    };
    let mut tags = vec![Tag(u64::from(key[4]) % TAGS), Tag(kind % TAGS), Tag(kind / 3 % TAGS)];
    tags.sort();
    tags.dedup();
    Terms {
        ttl: kind * kind * 64,
        age: kind % 5 * 100,
        stale_while_revalidate: kind % 3 * 20_000,
        stale_if_error: kind % 4 * 30_000,
        no_cache: kind % 29 == 28,
        must_revalidate: kind % 31 == 30,
        vary: vary.iter().map(|name| Box::from(*name)).collect(),
        tags: tags.into(),
    }
}
